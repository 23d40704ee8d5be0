"""One request: what will run, and the forms that decide it."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, Final, cast
from urllib.parse import quote

from markupsafe import Markup
from starlette.responses import Response
from starlette.routing import BaseRoute

from outlast.agents.errors import AgentsException, UserError
from outlast.client.people.nested_requests import FoundRequest
from outlast.client.people.words import model_words
from outlast.deliveries.problems import Refused
from outlast.edges import rendering
from outlast.edges.clock import now_ms
from outlast.serve.access import groups_of, redaction_for, request_for
from outlast.serve.api import find
from outlast.serve.budgets import extension_of
from outlast.serve.login import ThisMachine
from outlast.serve.pages.answers import (
    answer_of,
    proposed_answer,
    start_of_answer,
    value_of,
)
from outlast.serve.pages.conversation_view import customer_name
from outlast.serve.pages.decisions import (
    CLAIM_LENGTHS,
    Done,
    Refusal,
    act,
    as_seen,
    asked_of,
    problems_of,
    root_of,
    words_of,
)
from outlast.serve.pages.live import moments
from outlast.serve.pages.page import (
    Form,
    form_of,
    fragment,
    html_part,
    page,
    see_other,
    show_page,
    version_of,
)
from outlast.serve.pages.receipts import GOES_ON, Receipt, goes_to, next_address, receipt_of
from outlast.serve.pages.schema_form import (
    ABSENT,
    Change,
    Entered,
    Field,
    Value,
    changes,
    form_field,
    parse_json,
    read_form,
)
from outlast.serve.records import RequestView, request_view
from outlast.serve.routing import DeskRequest, route
from outlast.serve.sse import ServerSentEvent, stream_of
from outlast.views.acts import options_to_decide
from outlast.views.customer import CustomerMessage, customer_view
from outlast.views.headlines import text_of
from outlast.views.proofs import ProofReader
from outlast.views.records import ApprovalRequest, Json
from outlast.views.redaction import Redaction
from outlast.views.run import RunSnapshot

MOST_MESSAGES: Final = 30
"""How much of the conversation stands beside the request."""

WITHIN: Final = "within"
"""The name in an address that says that the forms stand on the page of the conversation."""

EDIT: Final = "arguments"
RESPOND: Final = "answer"
"""What the names of the fields of the two forms begin with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What somebody has entered and not sent yet.

    Attributes:
        deed: `edit` or `respond`.
        field: the form with it; None for a text.
        changes: the differences to what there is now; None if something does not fit.
        value: the value, as JSON text.
        message: the reason.
        text: the answer, if it is a text.
    """

    deed: str
    field: Field | None
    changes: tuple[Change, ...] | None
    value: str
    message: str
    text: str = ""


# --- Pages ---------------------------------------------------------------------------------------


async def _request(asked: DeskRequest) -> Response:
    root, receipt = await asyncio.gather(root_of(asked), receipt_of(asked))
    found = await find(asked, root)
    given = asked.http.query_params
    values = await _shown(
        asked,
        root,
        found,
        done="" if given.get("after") else words_of(given.get("did", ""), found, asked.caller),
        receipt=receipt,
    )
    # A mail's link: the id of its run may have been used again since.
    present = str(found.request.requested_at_ms)
    values["is_other"] = given.get("asked", present) != present
    return page(asked, "request.html", **values)


async def _decide(asked: DeskRequest) -> Response:
    """Carry out the action of a form, or show why it was refused beside its button.

    An edit and an answer in fields are shown before they are sent.
    """
    form = await form_of(asked)
    if form.exact("deed") in {"edit", "respond"} and form.exact("step") != "send":
        asked.check("decide")
        return await _again(asked, form)
    outcome = await act(asked, form)
    if isinstance(outcome, Done):
        return await _after(asked, form, outcome)
    return await _again(asked, form, refusal=outcome)


async def _after(asked: DeskRequest, form: Form, done: Done) -> Response:
    if _is_beside(asked):
        return await _again(asked, form, done=done.words)
    if WITHIN in asked.http.query_params:
        return see_other(asked, "conversations", asked.run_id)
    request_id = asked.parameter("request_id")
    if done.deed in GOES_ON:
        return goes_to(asked, await next_address(asked, request_id, done.deed))
    parts = ("conversations", asked.run_id, "requests", request_id)
    return see_other(asked, *parts, did=done.deed)


async def _again(
    asked: DeskRequest, form: Form, *, refusal: Refusal | None = None, done: str = ""
) -> Response:
    """Show the forms as they are now, with what somebody has entered and not sent."""
    root = await root_of(asked)
    found = await find(asked, root)
    seen = request_for(asked.caller, found.request, found.state)
    draft = None if done else _draft(seen, form) if refusal is None else _sent_draft(seen, form)
    status = 200 if refusal is None else refusal.problem.status
    if _is_beside(asked):
        proofs = await asked.desk.proofs()
        values = forms_of(asked, found, proofs, refusal=refusal, draft=draft, sent=form, done=done)
        text = fragment(asked, "request_forms.html", **values | {"within": True})
        response = html_part(text, status)
        if draft is not None and refusal is None:
            response.headers["Desk-Preview"] = "yes"  # nothing is sent yet
        if done:  # the live stream may take the forms away before the answer is there
            response.headers["Desk-Said"] = quote(done)
        return response
    values = await _shown(asked, root, found, refusal=refusal, draft=draft, sent=form)
    headers = {"Desk-Preview": "yes"} if refusal is None else refusal.problem.headers
    return page(asked, "request.html", status=status, headers=headers, **values)


def _is_beside(asked: DeskRequest) -> bool:
    """Whether a form of the conversation's page asks, which shows the answer in its place."""
    return WITHIN in asked.http.query_params and bool(asked.http.headers.get("HX-Request"))


async def _live(asked: DeskRequest) -> Response:
    root = await root_of(asked)
    await find(asked, root)
    return await stream_of(_events(asked))


async def _events(asked: DeskRequest) -> AsyncGenerator[ServerSentEvent]:
    """Yield the event `opened`, and then each region of the page whenever it has changed."""
    seen = asked.http.query_params.get("seen", "")  # what the page has, or had
    async with aclosing(moments(asked.desk, asked.run_id)) as found:
        async for now in found:
            if now is None:
                yield ServerSentEvent("", "opened")
                continue
            state = now.entries.state
            try:
                values = await _shown(asked, state, await find(asked, state))
            except (AgentsException, Refused):
                return  # the server is away, and the browser comes back
            for name in _changed_regions(seen, values["version"]):
                yield ServerSentEvent(fragment(asked, f"request_{name}.html", **values), name)
            seen = values["version"]
            if now.is_over:
                # Or browsers would come back for ever.
                yield ServerSentEvent("ended", "ended")


def _changed_regions(seen: str, present: str) -> list[str]:
    """Return the regions of a page that a version of it shows otherwise."""
    request_seen, _, talk_seen = seen.partition(".")
    request, _, talk = present.partition(".")
    changed = ["status", "forms"] if request != request_seen else []
    return changed + (["talk"] if talk != talk_seen else [])


async def _shown(
    asked: DeskRequest,
    root: RunSnapshot,
    found: FoundRequest,
    *,
    done: str = "",
    refusal: Refusal | None = None,
    draft: Draft | None = None,
    sent: Form | None = None,
    receipt: Receipt | None = None,
) -> dict[str, Any]:
    """Return what the templates have."""
    proofs = await asked.desk.proofs()
    messages = customer_view(root)
    trouble = await asked.desk.troubles.of(asked.run_id, root, asked.caller)
    hides = [redaction_for(asked.caller, one) for one in (root, found.state)]
    customer = customer_name(root, hides[0])
    values = forms_of(
        asked, found, proofs, customer=customer, refusal=refusal, draft=draft, sent=sent, done=done
    )
    what, view = values["what"], values["view"]
    talk = [_without_hidden(one, hides) for one in (*messages.messages, *messages.unread)]
    return values | {
        "title": rendering.joined(
            what.customer, ": " if what.customer else "", rendering.head(text_of(what.parts), 120)
        ),
        "receipt": receipt,
        "version": f"{version_of(view, trouble)}.{version_of(len(talk), talk[-1:])}",
        "trouble": trouble,
        "nav": "/inbox",
        "customer": customer,
        "is_other": False,
        "talk": talk[-MOST_MESSAGES:],
        "left_out": max(0, len(talk) - MOST_MESSAGES),
    }


def forms_of(
    asked: DeskRequest,
    found: FoundRequest,
    proofs: ProofReader,
    *,
    customer: str = "",
    refusal: Refusal | None = None,
    draft: Draft | None = None,
    sent: Form | None = None,
    done: str = "",
) -> dict[str, Any]:
    """Return what templates have of a request: its details, and the forms that decide it.

    Args:
        asked: the request over HTTP.
        found: the request, with the state of the run that made it.
        proofs: says who has proven who they are.
        customer: the name of the customer.
        refusal: why something was not done just now.
        draft: what somebody has entered and not sent yet.
        sent: what somebody has sent.
        done: what came of it.
    """
    words = model_words(found.state, found.request, groups_of(asked.caller))
    view = request_view(found, asked.caller, words=words, proofs=proofs)
    request, hides = as_seen(found.request, view), redaction_for(asked.caller, found.state)
    return {
        "what": asked_of(found.request, view, customer),
        "view": view,
        "able": problems_of(view),
        "other_person": _other_person(asked, found),
        "run_id": asked.run_id,
        "request_id": request.id,
        "arguments": _arguments(view),
        "proposed": None
        if view.arguments is None
        else proposed_answer(request, found.state, hides),
        "repeated": rendering.repeated_keys(request.arguments),
        "is_cut": len(request.arguments) > rendering.LONGEST_READ,
        "edit": _edit_form(request, draft),
        "answer": _answer_form(request, draft),
        "extension": extension_of(request),
        "claim_lengths": CLAIM_LENGTHS,
        "can_remember": request.kind == "tool" and request.terms.quorum == 1,
        "my_claim": view.claim is not None and view.claim.by == asked.person.subject,
        "within": False,
        "draft": draft,
        "sent": sent,
        "done": done,
        "refusal": refusal,
    }


def _other_person(asked: DeskRequest, found: FoundRequest) -> str:
    """Return how to start a desk for one person as somebody who may decide; empty for others."""
    is_own = isinstance(asked.desk.login, ThisMachine)
    return options_to_decide(found.request, asked.person, now_ms()) if is_own else ""


def _without_hidden(message: CustomerMessage, hides: Iterable[Redaction]) -> CustomerMessage:
    for one in hides:
        message = replace(message, text=one.text(message.text))
    return message


def _arguments(view: RequestView) -> str | None:
    """Return the arguments as people read them; None if the caller may not."""
    if view.arguments is None:
        return None
    text = view.arguments[: rendering.LONGEST_READ]
    lines = rendering.argument_lines(view.arguments) if text == view.arguments else None
    return rendering.visible_text(text) if lines is None else Markup("\n").join(lines)


# --- What somebody enters ------------------------------------------------------------------------


def _edit_form(request: ApprovalRequest, draft: Draft | None) -> Field | None:
    if draft is not None and draft.deed == "edit" and draft.field is not None:
        return draft.field
    if "edit" not in request.terms.allow or extension_of(request) is not None:
        return None
    return form_field(_schema_for(request), value_of(request), EDIT, _titles(request))


def _titles(request: ApprovalRequest) -> dict[str, str]:
    return {name: str(title) for name, title in (request.terms.labels or {}).items()}


def _schema_for(request: ApprovalRequest) -> dict[str, Json] | None:
    """Return the schema of the form; none if fields cannot show what the model wrote."""
    return None if rendering.repeated_keys(request.arguments) else request.schema


def _answer_form(request: ApprovalRequest, draft: Draft | None) -> Field | None:
    schema = request.terms.response_schema
    if schema is None:
        return None
    if draft is not None and draft.deed == "respond":
        return draft.field
    return form_field(schema, _start(request), RESPOND)


def _start(request: ApprovalRequest) -> Value:
    found = start_of_answer(request)
    return ABSENT if found is None else found


def _draft(request: ApprovalRequest, form: Form) -> Draft:
    deed, add = form.exact("deed"), form.exact("add")
    if deed == "edit":
        before: Json = value_of(request)
        titles = _titles(request)
        entered = read_form(_schema_for(request), before, EDIT, form, add=add, titles=titles)
        if not isinstance(cast("object", entered.value), dict):
            entered = _refused(entered, EDIT, "The arguments must be a JSON object.")
    elif (schema := request.terms.response_schema) is None:
        return _text_draft(request, form.text("text"))
    else:
        before = None
        entered = read_form(schema, _start(request), RESPOND, form, add=add)
    made = _made_draft(form, entered.field, before, entered.value)
    return replace(made, changes=None) if entered.problems or add else made


def _text_draft(request: ApprovalRequest, text: str) -> Draft:
    """Return how a text differs from the answer that waits."""
    answer = answer_of(request)
    if not isinstance(answer, str):
        raise Refused(400, "no_schema", "This request is answered by a text.")
    if not text.strip():
        raise Refused(400, "empty", "Write the answer.")
    return Draft(
        deed="respond",
        field=None,
        changes=tuple(changes(answer, text, "answer")),
        value=rendering.json_text(text),
        message="",
        text=text,
    )


def _made_draft(form: Form, field: Field, before: Json, value: Json) -> Draft:
    return Draft(
        deed=form.exact("deed"),
        field=field,
        changes=tuple(changes(before, value)),
        value=rendering.json_text(value),
        message=form.text("message"),
    )


def _sent_draft(request: ApprovalRequest, form: Form) -> Draft | None:
    """Return what somebody sent in vain, against what there is now; None for other deeds."""
    deed = form.exact("deed")
    name, schema = "response", request.terms.response_schema
    before: Json = None
    if deed == "edit":
        name, schema, before = "arguments", _schema_for(request), value_of(request)
    if deed not in {"edit", "respond"} or name not in form:
        return None
    try:
        value = parse_json(form.exact(name))
    except UserError:
        return None
    if deed == "respond" and schema is None and isinstance(value, str):
        return _text_draft(request, value) if request.kind == "output" else None
    name, titles = (EDIT, _titles(request)) if deed == "edit" else (RESPOND, {})
    field = form_field(schema, value, name, titles)
    return _made_draft(form, field, before, value)


def _refused(entered: Entered, name: str, problem: str) -> Entered:
    field = replace(entered.field, problem=problem)
    return Entered(entered.value, {**entered.problems, name: problem}, field)


_PATH: Final = "/conversations/{run_id}/requests/{request_id}"

ROUTES: Final[list[BaseRoute]] = [
    route(_PATH, _request, action="view_run", show=show_page, soon=True),
    route(_PATH, _decide, action="inbox", methods=["POST"], show=show_page),
    route(f"{_PATH}/live", _live, action="view_run"),
]
