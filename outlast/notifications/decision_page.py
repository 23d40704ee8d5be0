"""The page behind a mail's link: it shows the request, and its form decides."""

import html
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qs

from outlast.agents.errors import AgentsException
from outlast.agents.logs import get_logger
from outlast.loop.approvals import ApprovalRequest, Decision, DecisionType
from outlast.loop.notices import Notice
from outlast.notifications import texts
from outlast.notifications.endpoints import HttpReply, header
from outlast.notifications.links import PARAMETER, Link, LinkRefused, LinkSigner
from outlast.notifications.requests import Requests, find_referred
from outlast.ports.notifier import Notification, notification
from outlast.rendering import excerpt, named

LONGEST_FORM: Final = 64_000
"""The largest form that the page accepts, in bytes."""

LONGEST_MESSAGE: Final = 4_000
"""The longest message to the model, in characters."""

_FORM: Final = "application/x-www-form-urlencoded"
_HEADERS: Final = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "
        "frame-ancestors 'none'; base-uri 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "X-Robots-Tag": "noindex",
}
_TYPES: Final[dict[str, DecisionType]] = {"approve": "approve", "reject": "reject"}
_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:2rem auto;padding:0 1rem}"
    "pre{background:#eee;padding:1rem;white-space:pre-wrap;overflow-wrap:anywhere}"
    "dt{font-weight:bold}dd{margin:0 0 .5rem;overflow-wrap:anywhere}"
    "textarea{width:100%}button{font:inherit;padding:.5rem 1rem;margin:.5rem .5rem 0 0}"
)

logger = get_logger(__name__)


class _NothingToDecide(Exception):
    """The request of a link waits for nothing any more."""


class DecisionPage:
    """Shows a request to the recipient of a link, and sends that person's decision.

    GET never decides, because mail scanners open links. POST decides: the run takes one decision
    of a person for a request, for the arguments that the mail showed. Mount `handle` at the address
    that the `MailNotifier` has as `link_base`, in any web server. Tokens are in addresses: keep the
    query out of the server's logs.

    Args:
        requests: reads requests and sends decisions, such as `RunRequests(client)`.
        key: the key of the `MailNotifier`.
    """

    def __init__(self, requests: Requests, key: str) -> None:
        self._requests = requests
        self._signer = LinkSigner(key)

    async def handle(
        self, method: str, path: str, query: str, body: bytes, headers: Mapping[str, str]
    ) -> HttpReply:
        """Answer a request.

        Args:
            method: the HTTP method.
            path: the path, which does not matter.
            query: the query, without the question mark.
            body: the raw body.
            headers: the headers.
        """
        del path
        try:
            match method.upper():
                case "GET":
                    return await self._show(_fields(query))
                case "HEAD":
                    status, found, _ = await self._show(_fields(query))
                    return status, found, b""
                case "POST":
                    kind = (header(headers, "Content-Type") or "").partition(";")[0].strip()
                    if len(body) > LONGEST_FORM or kind.lower() != _FORM:
                        return _page(400, "The form cannot be read", "Open the link again.")
                    return await self._decide(_fields(body.decode(errors="replace")))
                case _:
                    status, found, text = _page(405, "Not supported", "Open the link in a browser.")
                    return status, {**found, "Allow": "GET, HEAD, POST"}, text
        except LinkRefused as error:
            return _page(403, "This link cannot be used", str(error))
        except _NothingToDecide as error:
            return _page(410, "Nothing to decide", str(error))
        except AgentsException as error:
            return _page(409, "Not decided", excerpt(str(error), 600))
        except Exception:  # a person reads the answer, and never an error's details
            logger.exception("The decision page failed")
            return _page(503, "Not decided", "The server cannot be reached. Try again in a moment.")

    async def _show(self, fields: Mapping[str, str]) -> HttpReply:
        request, link = await self._referred(fields)
        page = _request_page(request, link, fields[PARAMETER])
        return 200, dict(_HEADERS), page.encode()

    async def _referred(self, fields: Mapping[str, str]) -> tuple[ApprovalRequest, Link]:
        """Return a link's request; raise `_NothingToDecide` if it is settled, changed or gone."""
        link = self._signer.read(fields.get(PARAMETER, ""))
        request = await find_referred(self._requests, link)
        if request is None:
            raise _NothingToDecide(
                "The run has no such request; it may be of an earlier run with the same id."
            )
        if request.status != "pending":
            by = f" by {excerpt(named(request.settled_by), 100)}" if request.settled_by else ""
            raise _NothingToDecide(f"The request is already {request.status}{by}.")
        if request.args_digest != link.args_digest:
            raise _NothingToDecide(
                "The arguments have changed since this mail was sent. Use the newest mail."
            )
        if any(vote.decision.by == link.subject for vote in request.standing_votes):
            raise _NothingToDecide("You have decided already. The request waits for somebody else.")
        return request, link

    async def _decide(self, fields: Mapping[str, str]) -> HttpReply:
        request, link = await self._referred(fields)
        kind = _TYPES.get(fields.get("decision", ""))
        message = fields.get("message", "").strip()
        if kind is None:
            return _page(400, "Not decided", "Open the link again, and choose a button.")
        if len(message) > LONGEST_MESSAGE:
            text = f"The message has {len(message):,} characters, of at most {LONGEST_MESSAGE:,}."
            return _page(400, "Not decided", text)
        if not texts.arguments_shown(_notice(request, link), texts.LONGEST_ON_PAGE).is_whole:
            return _page(409, "Not decided", texts.ELSEWHERE)
        decision = Decision(
            request_id=link.request_id,
            type=kind,
            message=message or None if kind == "reject" else None,
            by=link.subject,
            groups=link.groups,
            method="mail_link",
            channel="mail",
            args_digest=link.args_digest,
        )
        await self._requests.decide(link.run_id, decision)
        text = f"Your decision ({kind}) has arrived. You can close the page."
        return _page(200, "Thank you", text)


def _notice(request: ApprovalRequest, link: Link) -> Notification:
    created = Notice(event="created", request=request, at_ms=request.requested_at_ms)
    return notification(created, link.run_id)


def _request_page(request: ApprovalRequest, link: Link, token: str) -> str:
    notice = _notice(request, link)
    rows = "".join(
        f"<dt>{html.escape(one.label)}</dt><dd>{html.escape(one.text)}</dd>"
        for one in texts.details(notice)
    )
    arguments = texts.arguments_shown(notice, texts.LONGEST_ON_PAGE)
    form = _form(request, link, token) if arguments.is_whole else _commands(notice)
    return _document(
        texts.headline(notice),
        f"<dl>{rows}</dl><pre>{html.escape(arguments.text)}</pre>{form}",
    )


def _form(request: ApprovalRequest, link: Link, token: str) -> str:
    buttons = "".join(
        f'<button name="decision" value="{name}">{name.title()}</button>'
        for name in _TYPES
        if name in _notice(request, link).allow
    )
    return (
        f"<p>You decide as <b>{html.escape(excerpt(named(link.subject), 100))}</b>.</p>"
        f'<form method="post"><input type="hidden" name="{PARAMETER}" value="{html.escape(token)}">'
        '<label>Message to the agent, if you reject<br><textarea name="message" rows="3" '
        f'maxlength="{LONGEST_MESSAGE}"></textarea></label><br>{buttons}</form>'
    )


def _commands(notice: Notification) -> str:
    lines = html.escape("\n".join(texts.command_lines(notice)))
    return f"<p>{texts.ELSEWHERE} In a terminal:</p><pre>{lines}</pre>"


def _page(status: int, title: str, text: str) -> HttpReply:
    return status, dict(_HEADERS), _document(title, f"<p>{html.escape(text)}</p>").encode()


def _document(title: str, content: str) -> str:
    shown = html.escape(title)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>'
        f"{shown}</title><style>{_STYLE}</style></head><body><h1>{shown}</h1>{content}</body></html>"
    )


def _fields(text: str) -> dict[str, str]:
    try:
        found = parse_qs(text, max_num_fields=20)
    except ValueError:
        return {}
    return {name: values[0] for name, values in found.items() if len(values) == 1}
