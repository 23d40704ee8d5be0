"""One conversation: what the customer sees, what the run did, and taking it over.

The page is rendered once; then its live stream sends the regions that have changed, and the text in
progress as it is written. Each connection begins with all regions, so whatever a browser missed or
showed twice is replaced. Nothing that somebody writes into is part of a region, but for the forms
of a request, which stay as they are while somebody writes.
"""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, cast, get_args

from markupsafe import Markup, escape
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute

from outlast.agents.errors import UserError
from outlast.client.read.event_places import event_of_effect
from outlast.client.results.pending_waits import pending_waits
from outlast.client.start.following import newest_following
from outlast.client.suggestions import PREFIX, suggest_reply
from outlast.client.timeline import Step
from outlast.deliveries.problems import Refused
from outlast.dev.data_dir import run_link
from outlast.edges.clock import now_ms
from outlast.edges.rendering import visible_text
from outlast.serve.access import Action, Staff, redaction_for
from outlast.serve.api import deliver
from outlast.serve.budgets import extension_of
from outlast.serve.case_api import saved_replies
from outlast.serve.feed import FeedReader, Snapshot
from outlast.serve.messages import check_release, is_followed
from outlast.serve.pages import case
from outlast.serve.pages.conversation_deciding import deciding_html, first_waiting
from outlast.serve.pages.conversation_files import ROUTES as FILES
from outlast.serve.pages.conversation_files import form_with_files
from outlast.serve.pages.conversation_lists import (
    LiveLists,
    comments_html,
    messages_of,
    steps_of,
)
from outlast.serve.pages.conversation_view import (
    Conversation,
    conversation,
    payloads,
    release_targets,
)
from outlast.serve.pages.decisions import problems_of
from outlast.serve.pages.live import moments, present
from outlast.serve.pages.page import (
    Form,
    beside,
    form_of,
    fragment,
    html_part,
    page,
    said_aloud,
    see_other,
    show_page,
)
from outlast.serve.pages.parts import wanted_key
from outlast.serve.pages.schema_form import ABSENT, flat_form, parse_json, read_form
from outlast.serve.routing import PATIENCE, DeskRequest, route
from outlast.serve.sse import ServerSentEvent, stream_of
from outlast.serve.uploads import ACCEPTED
from outlast.views.proofs import ProofReader
from outlast.views.records import CancelMode, CaseDeed, Json
from outlast.views.run import RunSnapshot, own_requests
from outlast.views.trouble import QUIET, ServerFacts
from outlast.views.words import KEPT

LONGEST_STREAM: Final = timedelta(minutes=15)
"""Then the browser connects again, so that a login that has ended ends the stream, too."""

LONGEST_WORDS: Final = 20_000
"""The most characters that a person writes at once."""

_INDEX: Final = re.compile("[0-9]{1,9}")
_IDS: Final = {"say": "message_id", "comment": "comment_id"}
"""The fields of forms that tell what is sent from what was sent before."""

_MOST_PEOPLE: Final = 20
_REGIONS: Final = (
    "head",
    "trouble",
    "acts",
    "tail",
    "draft-label",
    "say-act",
    "release-act",
    "waits",
    "facts",
    "case",
)
"""The parts of the page that change, apart from both lists and the text in progress."""


_BUTTONS: Final[tuple[CaseDeed, ...]] = ("assign", "comment", "snooze", "tag", "link")
"""The forms for colleagues, whose buttons are regions: they say why they cannot be used."""


async def _present(asked: DeskRequest) -> tuple[Conversation, Snapshot]:
    """Return the conversation as its viewer sees it now, and what the feed has of it."""
    now, steps, times = await present(asked.desk, asked.run_id)
    proofs = await asked.desk.proofs()
    facts = await asked.desk.troubles.facts(asked.run_id, now.state)
    view = conversation(
        now.state, steps, asked.caller, proofs, at_ms=now_ms(), facts=facts, times=times
    )
    return view, now


# --- The page ------------------------------------------------------------------------------------


async def _show(asked: DeskRequest, suggested: str = "") -> Response:
    view, now = await _present(asked)
    return page(
        asked,
        "conversation.html",
        asked.run_id,
        view=view,
        regions=_regions(asked, view, is_unjudged=now.is_unjudged),
        messages=messages_of(asked, view),
        steps=steps_of(asked, view),
        comments=comments_html(asked, view),
        draft=view.hides.draft(now.text),
        suggested=suggested,
        accepted=ACCEPTED,
        message_id=case.new_id(),
        comment_id=case.new_id(),
        known_people=_known_people(asked, now.state),
        replies=saved_replies(asked, view.customer_name).replies,
        targets=release_targets(now.state, asked.desk.agents),
        temporal=_temporal_link(asked),
        newest=await _newest(asked, now.state),
        forks=() if _is_away(view) else await asked.seen(await _forks(asked)),
    )


async def _newest(asked: DeskRequest, state: RunSnapshot) -> str | None:
    """Return the newest conversation that follows one, where the viewer sees it."""
    if not is_followed(state):
        return None
    newest = await newest_following(asked.desk.client, asked.run_id, PATIENCE)
    return newest if newest != asked.run_id and await asked.seen([newest]) else None


async def _forks(asked: DeskRequest) -> list[str]:
    """Return the forks of a run, without those that wrote drafts."""
    forks = await asked.desk.forks(asked.run_id)
    return [one for one in forks if not one.startswith(f"{asked.run_id}~{PREFIX}")]


def _known_people(asked: DeskRequest, state: RunSnapshot) -> list[str]:
    """Return whom a form offers: the viewer, and who has had to do with the conversation."""
    me = (asked.caller.person.subject,) if isinstance(asked.caller, Staff) else ()
    held = () if state.hold is None else (state.hold.by,)
    wrote = (one.by for one in reversed(state.case.comments))
    names = (*me, state.case.to, *held, *wrote)
    return [one for one in dict.fromkeys(names) if one][:_MOST_PEOPLE]


def _is_away(view: Conversation) -> bool:
    """Whether the server does not answer, so that nothing more is asked."""
    return any(one.kind == "no_server" for one in view.trouble)


def _regions(asked: DeskRequest, view: Conversation, *, is_unjudged: bool) -> dict[str, Markup]:
    """Return the regions of the page by their ids."""
    waiting = first_waiting(asked, view)

    def region(name: str) -> Markup:
        text = fragment(
            asked,
            f"conversation_{name.replace('-', '_')}.html",
            view=view,
            decided_here="" if waiting is None else waiting.id,
            problems_of=problems_of,
            is_unjudged=is_unjudged,
            temporal=_temporal_link(asked),
        )
        return Markup(text)  # noqa: S704  a template made it

    found = {name: region(name) for name in _REGIONS}
    found["deciding"] = deciding_html(asked, view, waiting)
    for deed in _BUTTONS:
        text = fragment(asked, "conversation_case_act.html", view=view, deed=deed)
        found[f"{deed}-act"] = Markup(text)  # noqa: S704  a template made it
    return found


async def _more_messages(asked: DeskRequest) -> Response:
    return html_part(messages_of(asked, (await _present(asked))[0]).part)


async def _more_steps(asked: DeskRequest) -> Response:
    return html_part(steps_of(asked, (await _present(asked))[0]).part)


def _temporal_link(asked: DeskRequest) -> str:
    ui = asked.desk.temporal_ui
    return run_link(ui, asked.desk.client.namespace, asked.run_id) if ui else ""


# --- The live stream -----------------------------------------------------------------------------


async def _live(asked: DeskRequest) -> Response:
    until = asyncio.get_running_loop().time() + LONGEST_STREAM.total_seconds()
    screen = _screen(asked, await asked.desk.proofs())
    return await stream_of(_follow(asked, screen), until=until)


def _screen(asked: DeskRequest, proofs: ProofReader) -> "_Screen":
    """Return what a browser shows, whose address names the first entries of both lists."""
    query = asked.http.query_params
    return _Screen(
        asked,
        proofs,
        LiveLists(wanted_key(query, "messages"), wanted_key(query, "steps")),
    )


async def _follow(asked: DeskRequest, screen: "_Screen") -> AsyncGenerator[ServerSentEvent]:
    async with aclosing(moments(asked.desk, asked.run_id)) as found:
        async for now in found:
            if now is None:
                yield ServerSentEvent("", event="opened")
                continue
            for event in screen.changes(now.entries, now.facts):
                yield event
            if now.is_over:
                yield ServerSentEvent("", event="end")


@dataclass
class _Screen:
    """What one browser shows, to send it what has changed.

    Attributes:
        asked: the request of the stream.
        proofs: says who has proven who they are, and whether the desk proves who acts.
        lists: the newest messages and steps.
    """

    asked: DeskRequest
    proofs: ProofReader
    lists: LiveLists
    _text: str | None = None
    _shown_state: RunSnapshot | None = None
    _shown_facts: ServerFacts = QUIET
    _regions: dict[str, str] = field(default_factory=dict[str, str])
    _holder: str | None = None

    def changes(self, entries: FeedReader, facts: ServerFacts = QUIET) -> list[ServerSentEvent]:
        """Return what the browser lacks of the present state, its trouble and the text."""
        before, text = self._text, entries.text
        self._text = text
        is_more = before is not None and text.startswith(before)
        begins = bool(text) and not (before and is_more)  # its label says who reads it
        parts: list[str] = []
        if begins or entries.state is not self._shown_state or facts is not self._shown_facts:
            parts += self._changed_regions(entries, facts)
            self._shown_state, self._shown_facts = entries.state, facts
        redaction = redaction_for(self.asked.caller, entries.state)
        added = ""
        if before is not None and is_more and not redaction.texts:
            added = text[len(before) :]
        elif text != before:
            shown = escape(visible_text(redaction.draft(text)))
            parts.append(f'<div id="draft-text" hx-swap-oob="innerHTML">{shown}</div>')
        found = [ServerSentEvent("\n".join(parts), event="update")] if parts else []
        if added:
            found.append(ServerSentEvent(str(escape(visible_text(added))), event="text"))
        return found

    def _changed_regions(self, entries: FeedReader, facts: ServerFacts) -> list[str]:
        asked, steps = self.asked, tuple(entries.steps)
        view = conversation(
            entries.state,
            steps,
            asked.caller,
            self.proofs,
            at_ms=now_ms(),
            facts=facts,
            times=entries.times,
        )
        parts = [
            f'<div id="{name}" hx-swap-oob="innerHTML">{text}</div>'
            for name, text in _regions(asked, view, is_unjudged=entries.is_unjudged).items()
            if self._is_new(name, text)
        ]
        parts += self.lists.changes(asked, view)
        if self._holder is not None and view.holder != self._holder and not view.is_mine:
            words = (
                f"{view.holder} has the conversation now."
                if view.holder
                else "The agent has the conversation again."
            )
            parts.append(said_aloud(words))
        self._holder = view.holder
        return parts

    def _is_new(self, name: str, text: str) -> bool:
        """Whether a region says something else; ages go on by themselves."""
        known, timeless = self._regions.get(name), _TIMES.sub("<time>", text)
        self._regions[name] = timeless
        return known != timeless


_TIMES: Final = re.compile(r"<time [^>]*>[^<]*")


# --- Payloads, and the step's place in the history -----------------------------------------------


async def _payload(asked: DeskRequest) -> Response:
    view, _ = await _present(asked)
    found = payloads(view, _step_of(asked, view))
    text = fragment(
        asked, "conversation_payload.html", payloads=found, number=asked.parameter("number")
    )
    return HTMLResponse(text, headers={"Cache-Control": "no-store"})


def _step_of(asked: DeskRequest, view: Conversation) -> Step:
    number = asked.parameter("number")
    at = int(number) if re.fullmatch("[0-9]{1,7}", number) else len(view.steps)
    if at >= len(view.steps):
        raise Refused(404, "not_found", f"The run {asked.run_id} has no step {number:.20}.")
    return view.steps[at]


async def _in_temporal(asked: DeskRequest) -> Response:
    """Lead to the step's event in Temporal's web UI, or else to the run."""
    address = _temporal_link(asked)
    if not address:
        raise Refused(404, "not_found", "This desk was started without `temporal_ui`.")
    step = _step_of(asked, (await _present(asked))[0])
    found = await event_of_effect(asked.desk.client, asked.run_id, step.effect)
    if found is not None:
        execution, event_id = found
        address += f"/{execution}/history/events/{event_id}"
    return RedirectResponse(address, 303, {"Cache-Control": "no-store"})


# --- What people do ------------------------------------------------------------------------------


async def _hold(asked: DeskRequest, form: Form) -> str | None:
    force = form.exact("force") == "yes"
    mode = "after_turn" if form.exact("mode") == "after_turn" else "immediate"
    receipt = await asked.handle.hold(by=asked.person, mode=mode, force=force)
    if not receipt.approved:
        return None
    return f"You have the conversation, which approved {', '.join(receipt.approved)}."


async def _say(asked: DeskRequest, form: Form) -> str:
    text = case.words_of(form, "text", "The message", LONGEST_WORDS)
    if not text.strip():
        raise UserError("Write something first.")
    message_id = case.sent_id(form, "message_id")
    receipt = await asked.handle.say(text, by=asked.person, message_id=message_id, files=form.files)
    return "Guardrails judge it first." if receipt.is_judged else ""


async def _suggest(asked: DeskRequest) -> Response:
    """Let the agent write a draft, which goes into the text field of who has the conversation."""
    await form_with_files(asked)  # it is the form of the words, which the draft joins
    view, _ = await _present(asked)
    if not view.is_mine:
        raise UserError("Take the conversation over first.")
    draft = await suggest_reply(asked.desk.client, asked.run_id, by=asked.person)
    draft = view.hides.text(draft)
    if not asked.http.headers.get("HX-Request"):
        return await _show(asked, draft)
    return html_part(fragment(asked, "conversation_suggested.html", text=draft))


async def _release(asked: DeskRequest, form: Form) -> None:
    note = case.words_of(form, "note", "The note", LONGEST_WORDS).strip()
    agent = form.text("to").encode(errors="replace").decode()
    await check_release(asked, agent)
    await asked.handle.release(by=asked.person, note=note, to=agent)


async def _set_aside(asked: DeskRequest, form: Form) -> str:
    item, part = _place_of(form)
    await asked.handle.set_aside(item, part=part, by=asked.person)
    return "The model does not read it from its next call on."


async def _take_back(asked: DeskRequest, form: Form) -> str:
    item, part = _place_of(form)
    await asked.handle.take_back(item, part=part, by=asked.person)
    return "The model reads it again from its next call on."


def _place_of(form: Form) -> tuple[int, int | None]:
    """Return the item that a form names, and the part of it."""
    item, part = form.exact("item"), form.exact("part")
    if not _INDEX.fullmatch(item) or (part and not _INDEX.fullmatch(part)):
        raise UserError("The form is incomplete. Reload the page.")
    return int(item), int(part) if part else None


async def _cancel(asked: DeskRequest, form: Form) -> None:
    mode = form.exact("mode")
    if mode not in get_args(CancelMode):
        raise UserError("Choose whether the run stops now or after its turn.")
    await asked.handle.cancel(cast("CancelMode", mode))


async def _retry(asked: DeskRequest, _form: Form) -> None:
    await asked.handle.retry()


async def _extend(asked: DeskRequest, form: Form) -> str:
    request_id = form.exact("request_id")
    state = await asked.handle.state()
    found = next((one for one in own_requests(state) if one.id == request_id), None)
    extension = None if found is None else extension_of(found)
    if found is None or extension is None:
        raise UserError(f"The request {request_id:.40} does not wait any more.")
    asked.check("extend_budget", await asked.target(state, found))
    if found.digest != form.exact("digest"):
        raise Refused(409, "changed", "The request has changed. Look at it again.")
    receipt = await asked.handle.approve(found, by=asked.person)
    if receipt.is_kept:
        return KEPT
    if receipt.status == "pending":
        return f"Counted: {receipt.votes} of {receipt.votes_needed} votes."
    return ""


async def _delivered(asked: DeskRequest, form: Form) -> Json:
    """Return the value of a wait that somebody entered, by its fields or as JSON."""
    token, name = form.exact("token"), form.exact("fields")
    if name:
        waits = pending_waits(await asked.handle.state())
        schema = next((one.schema for one in waits if one.token == token), None)
        if flat_form(schema, name) is None:
            raise UserError("It does not wait any more.")
        entered = read_form(schema, ABSENT, name, form)
        if entered.problems:
            raise UserError("; ".join(dict.fromkeys(entered.problems.values())))
        return entered.value
    text = form.exact("value").strip()
    if not text:
        raise UserError("Write the value as JSON; a text is in quotes.")
    return parse_json(text)


async def _finish(asked: DeskRequest, form: Form) -> str:
    receipt = await deliver(asked, form.exact("token"), await _delivered(asked, form))
    if receipt.at is None:
        return f"No worker is there: the server keeps {receipt.name} until one starts."
    return f"Delivered {receipt.name}; its tool goes on."


def _deed(name: str, action: Action, deed: case.Deed) -> BaseRoute:
    """Return the route of something that people do; its answer is a sentence beside the button."""
    read = form_with_files if name == "say" else form_of

    async def handle(asked: DeskRequest) -> Response:
        said = await deed(asked, await read(asked)) or ""
        if not asked.http.headers.get("HX-Request"):
            await _until_shown(asked)
            return see_other(asked, "conversations", asked.run_id)
        headers = {"Cache-Control": "no-store"}
        if name == "retry":
            headers["HX-Refresh"] = "true"  # a run that had ended has another history now
        parts = [fragment(asked, "conversation_said.html", said=said)]
        if field := _IDS.get(name):  # what is sent next is something else
            parts.append(
                f'<input type="hidden" name="{field}" id="{field.replace("_", "-")}" '
                f'hx-swap-oob="true" value="{case.new_id()}">'
            )
        return HTMLResponse("\n".join(parts), headers=headers)

    path = f"/conversations/{{run_id}}/{name}"
    return route(path, handle, action=action, methods=["POST"], show=beside)


async def _until_shown(asked: DeskRequest) -> None:
    """Wait until the page that a browser without scripts loads next has what its viewer did."""
    _, place = await asked.handle.present()
    async with asked.desk.feed.reader(asked.run_id) as entries:
        await entries.until_read(place)


_PATH: Final = "/conversations/{run_id}"

ROUTES: Final[list[BaseRoute]] = [
    route(_PATH, _show, action="view_run", show=show_page, soon=True),
    route(f"{_PATH}/live", _live, action="view_run", show=beside),
    route(f"{_PATH}/more-messages", _more_messages, action="view_run", show=beside, soon=True),
    route(f"{_PATH}/more-steps", _more_steps, action="view_run", show=beside, soon=True),
    route(f"{_PATH}/steps/{{number}}", _payload, action="view_payloads", show=beside, soon=True),
    route(
        f"{_PATH}/steps/{{number}}/temporal",
        _in_temporal,
        action="view_run",
        show=show_page,
        soon=True,
    ),
    _deed("hold", "hold", _hold),
    _deed("say", "say", _say),
    route(f"{_PATH}/suggest", _suggest, action="say", methods=["POST"], show=beside),
    _deed("release", "release", _release),
    _deed("set-aside", "set_aside", _set_aside),
    _deed("take-back", "set_aside", _take_back),
    _deed("cancel", "cancel", _cancel),
    _deed("retry", "retry", _retry),
    _deed("extend", "extend_budget", _extend),
    _deed("finish", "finish_wait", _finish),
    *(_deed(name, name, act) for name, act in case.DEEDS.items()),
    *case.ROUTES,
    *FILES,
]
