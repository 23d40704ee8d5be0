"""What people do about a request by a form, and the sentence that says what came of it."""

import re
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, cast

from outlast.agents.errors import AgentsException, RunNotFound
from outlast.client.people.actions import CLAIM_MINUTES, DecisionReceipt, decision_of, receipt_of
from outlast.client.people.nested_requests import FoundRequest
from outlast.deliveries.problems import Problem, Refused
from outlast.edges.rendering import joined, named
from outlast.serve.access import Caller, redaction_for
from outlast.serve.api import find
from outlast.serve.budgets import amount_of, extended
from outlast.serve.pages.page import Form
from outlast.serve.pages.schema_form import parse_json
from outlast.serve.problems import problem_of
from outlast.serve.records import RequestView, action_of
from outlast.serve.routing import DeskRequest
from outlast.views.acts import is_queued
from outlast.views.headlines import (
    ArgumentRow,
    HeadlinePart,
    argument_rows,
    headline_parts,
    rest_of,
    title_of,
)
from outlast.views.records import (
    LONGEST_CLAIM_MINUTES,
    ApprovalRequest,
    Json,
    JsonObject,
    VoteType,
)
from outlast.views.run import RunSnapshot
from outlast.views.words import (
    KEPT,
    asked_again,
    at_desk,
    changed,
    request_line,
    void_words,
)

Deed = Literal[
    "approve",
    "edit",
    "extend",
    "reject",
    "respond",
    "ask_back",
    "withdraw",
    "claim",
    "unclaim",
    "take",
    "hand_over",
]
"""What a form can do; `take` claims what somebody else has claimed, `extend` edits a budget."""

CLAIM_LENGTHS: Final[dict[int, str]] = {
    15: "15 minutes",
    CLAIM_MINUTES: f"{CLAIM_MINUTES} minutes",
    60: "1 hour",
    240: "4 hours",
    480: "8 hours",
    LONGEST_CLAIM_MINUTES: "a day",
}
"""How long a claim lasts, in minutes."""

_CHANNEL: Final = "desk"
DONE: Final[dict[str, str]] = {
    "asked": "You asked back. The agent reads your question.",
    "claimed": "You work on it now: until your claim ends, nobody else decides it.",
    "handed_over": "You handed it over: nobody else decides it now.",
    "unclaimed": "Everybody who may can decide it again.",
    "withdrawn": "You took your vote back.",
    "kept": KEPT,
}
"""What came of it, by a word that an address may have; a decision says what came of itself."""

DECIDED: Final = "decided"
"""The word of a decision that a run has taken."""


@dataclass(frozen=True, slots=True)
class Done:
    """What somebody has done.

    Attributes:
        deed: the word of it, as an address has it.
        words: what came of it, as sentences.
    """

    deed: str
    words: str


def words_of(deed: str, found: FoundRequest, caller: Caller) -> str:
    """Return what came of a deed, as it is now: a decision may have become void since.

    Args:
        deed: the word that the address has, or any other text.
        found: the request, as it is now.
        caller: who reads it.
    """
    request, state = found.request, found.state
    if deed != DECIDED:
        return DONE.get(deed, "")
    if (again := asked_again(request, state.approvals)) is not None:
        return redaction_for(caller, state).text(at_desk(void_words(again)))
    queued = is_queued(state, request.id)
    return receipt_of(request, state.run_id, is_queued=queued).words(request)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something was not done, to be shown beside its button.

    Attributes:
        deed: what somebody wanted to do.
        problem: why it was not done.
    """

    deed: str
    problem: Problem

    @property
    def words(self) -> str:
        """The problem for people at a desk."""
        return at_desk(self.problem.message)


async def root_of(asked: DeskRequest) -> RunSnapshot:
    """Return the state of the run that the path names.

    Raises:
        RunNotFound: there is none, or it is not a run of outlast.
    """
    await asked.handle.check()
    return await asked.handle.state()


async def act(asked: DeskRequest, form: Form) -> Done | Refusal:
    """Do what a form says about the request of the path.

    Returns:
        What came of it, or why nothing was done.
    """
    deed = form.exact("deed")
    try:
        found = await find(asked, await root_of(asked))
        return await _act(asked, found, deed, form)
    except RunNotFound:
        raise
    except (AgentsException, Refused) as error:
        if isinstance(error, Refused) and error.status == 404:
            raise
        return Refusal(deed, problem_of(error))


async def _act(asked: DeskRequest, found: FoundRequest, deed: str, form: Form) -> Done:
    request, handle, person = found.request, asked.handle, asked.person
    is_claim = deed in {"claim", "unclaim", "take", "hand_over"}
    action = "claim" if is_claim else action_of(request, "edit" if deed == "extend" else deed)
    if deed not in {"take", "withdraw"}:  # a claim of somebody else's is no hindrance to them
        target = await asked.target(found.state, request)
        # A run says how it ended.
        asked.check(action, target if found.state.outcome is None else None)
    else:
        asked.check(action)
    if not is_claim and deed != "withdraw":
        _check_seen(found, form)
    match deed:
        case "claim" | "take":
            minutes = _minutes(form)
            await handle.claim(request, by=person, minutes=minutes, force=deed == "take")
            return Done("claimed", DONE["claimed"])
        case "hand_over":
            to = form.text("to").strip()
            if not to:
                raise Refused(400, "empty", "Write the name of the colleague.")
            await handle.claim(request, by=person, minutes=_minutes(form), to=to)
            return Done("handed_over", DONE["handed_over"])
        case "unclaim":
            await handle.unclaim(request, by=person)
            return Done("unclaimed", DONE["unclaimed"])
        case "withdraw":
            receipt = await handle.withdraw_vote(request, by=person)
            return _done(receipt, request, "withdrawn")
        case "ask_back":
            question = form.text("question")
            if not question.strip():
                raise Refused(400, "empty", "Write the question that the agent shall answer.")
            receipt = await handle.ask_back(request, question, by=person)
            return _done(receipt, request, "asked")
        case "extend":
            decision = extended(request, person, amount_of(request, form.exact("amount")))
            receipt = await handle.decide(decision, request=request)
            return _done(receipt, request, DECIDED)
        case "approve" | "edit" | "reject" | "respond":
            fields = _fields(deed, form)
            decision = decision_of(request, deed, by=person, channel=_CHANNEL, **fields)
            receipt = await handle.decide(decision, request=request)
            return _done(receipt, request, DECIDED)
        case _:
            raise Refused(400, "unknown_decision", f"{deed!r:.40} is nothing that can be done.")


def _check_seen(found: FoundRequest, form: Form) -> None:
    """Refuse a decision for something else than what the person saw."""
    if form.exact("digest") != found.request.digest:
        raise Refused(409, "changed", changed(found.request.id))


def _minutes(form: Form) -> int:
    text = form.exact("minutes", str(CLAIM_MINUTES))
    if not re.fullmatch("[0-9]{1,4}", text, re.ASCII) or int(text) not in CLAIM_LENGTHS:
        raise Refused(400, "claim_length", "Choose how long the claim lasts.")
    return int(text)


def _fields(deed: VoteType, form: Form) -> dict[str, Any]:
    """Return the fields of a decision."""
    fields: dict[str, Any] = {}
    message = form.text("message").strip()
    if deed in {"edit", "reject"} and message:
        fields["message"] = message
    if deed == "edit":
        arguments = parse_json(form.exact("arguments"))
        if not isinstance(arguments, dict):
            raise Refused(400, "no_object", "The arguments must be a JSON object.")
        fields["edited_arguments"] = cast("JsonObject", arguments)
    if deed == "respond":
        fields["response"] = _response(form)
    scope, _, until = form.exact("remembered").partition("-")
    if scope and deed in {"approve", "reject"}:
        fields["remember"] = True
        fields["remember_scope"] = "tool" if scope == "all" else "tool_with_args"
        fields["remember_until"] = "conversation" if until == "conversation" else "run"
    return fields


def _response(form: Form) -> Json:
    if "response" in form:
        return parse_json(form.exact("response"))
    text = form.text("text")
    if not text.strip():
        raise Refused(400, "empty", "Write the answer.")
    return text


NOT_OFFERED: Final = "The policy of this request does not allow it."


def problems_of(view: RequestView) -> dict[str, str]:
    """Return why the caller cannot do each thing; empty for what they can do."""
    names = ("approve", "edit", "reject", "respond", "ask_back", "withdraw", "claim", "unclaim")
    offered = {one.name: at_desk(one.problem or "") for one in view.decisions}
    return {name: offered.get(name, NOT_OFFERED) for name in names}


def as_seen(request: ApprovalRequest, view: RequestView) -> ApprovalRequest:
    """Return a request with the arguments that its reader may see."""
    return request if view.arguments is None else replace(request, arguments=view.arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a request asks for, as its reader may see it. A view is JSON, and does not mark values.

    Attributes:
        parts: the words of its policy and the values of its call; its title for other readers.
        line: the whole call in one line.
        rows: its arguments; None if they are no object, or the reader may not see them.
        rest: those of them that `parts` do not show.
        tool: the name of its tool; empty for what is no tool.
        customer: the name of the customer; empty if nobody said.
    """

    parts: tuple[HeadlinePart, ...]
    line: str
    rows: tuple[ArgumentRow, ...] | None
    rest: tuple[ArgumentRow, ...] | None
    tool: str
    customer: str

    @property
    def can_be_decided_in_a_list(self) -> bool:
        """Whether a list shows all that a person decides about."""
        return len(self.line) <= LONGEST_IN_LIST and self.rest is not None


def asked_of(request: ApprovalRequest, view: RequestView, customer: str) -> Asked:
    """Return what a request asks for; the customer is named as its reader may see it."""
    is_shown = view.arguments is not None or request.kind == "budget"
    return asked_seen(as_seen(request, view), is_shown=is_shown, customer=customer)


def asked_seen(seen: ApprovalRequest, *, is_shown: bool = True, customer: str = "") -> Asked:
    """Return what a request asks for; `seen` has nothing that its reader may not see.

    Args:
        seen: the request.
        is_shown: whether the reader may see arguments.
        customer: the name of the customer.
    """
    request = seen
    is_tool = request.kind not in {"output", "budget"}
    tool = joined(request.source, " · ", request.name) if request.source else named(request.name)
    return Asked(
        parts=headline_parts(seen) if is_shown else (HeadlinePart(title_of(seen)),),
        line=named(request_line(seen)) if is_shown else named(request.name),
        rows=argument_rows(seen) if is_shown else None,
        rest=rest_of(seen) if is_shown else None,
        tool=tool if is_tool else "",
        customer=customer,
    )


LONGEST_IN_LIST: Final = 200
"""How long a call may be to be decided in a list, which shows all of it."""


def _done(receipt: DecisionReceipt, request: ApprovalRequest, deed: str) -> Done:
    if receipt.is_kept:
        return Done("kept", KEPT)
    return Done(deed, DONE.get(deed) or receipt.words(request))
