"""Actions of people in a run: decisions, claims, takeovers and withdrawals.

Each is an update: what does not apply is refused before anything is recorded.
"""

import hashlib
import json
import math
import secrets
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast

from temporalio.client import Client

from outlast.agents.agent import Agent
from outlast.agents.checks import check_printable
from outlast.agents.errors import DecisionRefused, RunClosed, RunNotFound, UserError
from outlast.client.identity import sign
from outlast.client.people.nested_requests import (
    is_nested_in,
    present_requests,
    request_in,
    run_of_request,
    state_of,
)
from outlast.client.results.interruptions import Interruption
from outlast.client.transport.content import INLINE_BYTES, items_stored
from outlast.client.transport.messages import check_choice
from outlast.client.transport.run_address import RunAddress
from outlast.contract import records
from outlast.edges.clock import now_ms, time_if_any
from outlast.edges.rendering import joined, named
from outlast.loop import phrases
from outlast.loop.actions import (
    Action,
    ClaimAction,
    HoldAction,
    HoldMode,
    ReleaseAction,
    SayAction,
    SetAsideAction,
    fields_of,
)
from outlast.loop.approvals import (
    ApprovalRequest,
    ApprovalStatus,
    Decision,
    Person,
    VoteType,
    unplaced,
)
from outlast.loop.events import PersonActed
from outlast.loop.human_actions import row_of
from outlast.loop.problems import decision_problem, digest_of_given_up, gave_up_already
from outlast.loop.state import LoopState, Status, has_message
from outlast.loop.values import Json, JsonObject
from outlast.loop.votes import LONGEST_CLAIM_MINUTES, settled_problem
from outlast.views import words
from outlast.views.acts import decision_about
from outlast.views.run import RunSnapshot, loop_state

A = TypeVar("A", bound=Action)

By: TypeAlias = str | Person | None
"""Who acts: a name, a `Person`, or None if nobody says."""

RequestOrId: TypeAlias = str | ApprovalRequest | Interruption
"""A request, or its id; given the request, a decision only counts for the arguments it shows."""

CLAIM_MINUTES: Final = 30

_NOT_PART_OF_THE_DECISION: Final = ("display", "groups", "method", "proof", "channel", "seen")
"""Fields of a decision that may differ when somebody repeats it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionReceipt:
    """The outcome of a decision.

    Attributes:
        run_id: the run that made the request: a nested one, or the run itself.
        request_id: the request.
        status: the status of the request; `pending` while further people have to agree.
        votes: how many people have decided about these arguments.
        votes_needed: how many have to agree before the call runs.
        by: who settled the request; None while it is pending, or if nobody said.
        is_kept: whether the server keeps the decision, because no worker was there to take it. The
            run takes it, or refuses it and lists it under `ignored`, when a worker starts.
        is_queued: whether calls before it go first, as the run makes no more calls at once.
    """

    run_id: str
    request_id: str
    status: ApprovalStatus
    votes: int
    votes_needed: int
    by: str | None = None
    is_kept: bool = False
    is_queued: bool = False

    def words(self, request: ApprovalRequest) -> str:
        """Return what became of the decision about this request, as sentences."""
        if self.is_kept:
            return words.KEPT
        if self.status == "pending":
            others = words.others_needed(request, self.votes_needed - self.votes)
            return f"{self.votes} of {self.votes_needed} votes; waits for {others}."
        word = "answered" if self.status == "responded" else words.STATUS[self.status]
        settled = joined(f"{word[0].upper()}{word[1:]} by ", named(self.by or "somebody"), ".")
        then = words.then(request, self.status, is_queued=self.is_queued)
        return joined(settled, " ", then).rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimReceipt:
    """The outcome of a claim: who works on the request now.

    Attributes:
        run_id: the run that made the request.
        request_id: the request.
        by: who works on it; None for nobody.
        until: when the claim ends by itself; None without a claim.
    """

    run_id: str
    request_id: str
    by: str | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AsideReceipt:
    """The outcome of setting an item aside, or of taking it back.

    Attributes:
        run_id: the run.
        item: the index of the item in the transcript.
        parts: the indices of the parts of its content that are set aside, with None for all of it;
            empty if the model reads the whole item.
    """

    run_id: str
    item: int
    parts: tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeoverReceipt:
    """The outcome of a takeover: who has the conversation now.

    Attributes:
        run_id: the run.
        status: the run's status: `held` from the hold on, also while the turn under way ends.
        by: the person who has the conversation; None for nobody.
        agent: the agent that answers when nobody has it.
        approved: the requests that taking it has approved; see `ApprovalPolicy(takeover=True)`.
        is_judged: whether output guardrails judge first what was said. What they block is not said,
            and stands in the ignored actions of the run with the reason.
    """

    run_id: str
    status: Status
    by: str | None = None
    agent: str = ""
    approved: tuple[str, ...] = ()
    is_judged: bool = False


MessageStatus: TypeAlias = Literal[
    "waiting", "taken", "answered", "failed", "withdrawn", "unanswered"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageReceipt:
    """The outcome of a message.

    Attributes:
        run_id: the run.
        message_id: the message.
        status: `waiting` until a question takes it, which is when it can be withdrawn; `taken`
            while it is being answered; `answered`, or `failed` without an answer; `withdrawn`; or
            `unanswered` because the run has ended.
    """

    run_id: str
    message_id: str
    status: MessageStatus


def person_of(by: By) -> Person:
    """Return who acts."""
    if by is None:
        return Person()
    if isinstance(by, Person):
        return by
    if not isinstance(cast("object", by), str) or not by.strip():
        raise UserError(f"by= must be a name or a Person, not {by!r:.80}.")
    return Person(subject=by)


def decision_of(request: RequestOrId, kind: VoteType, **fields: Any) -> Decision:
    """Return a decision about a request; with the request itself, the decision has its digest."""
    person = person_of(fields.pop("by", None))
    seen = seen_request(request)
    fields.setdefault("channel", "client")
    fields |= fields_of(person) | {"by": person.subject or None}
    if seen is None or fields.get("args_digest") is not None:
        return Decision(request_id=id_of(request), type=kind, **fields)
    fields.pop("args_digest", None)
    return decision_about(seen, kind, **fields)


def seen_request(request: RequestOrId) -> ApprovalRequest | None:
    """Return the request that somebody has seen; None if there is only its id."""
    if isinstance(request, Interruption):
        return request.request
    return request if isinstance(request, ApprovalRequest) else None


def id_of(request: RequestOrId) -> str:
    """Return the id of a request."""
    if isinstance(request, Interruption | ApprovalRequest):
        return request.id
    if not isinstance(cast("object", request), str) or not request:
        raise UserError(
            f"A request is named by its id, such as 'a1', or is one of handle.approvals(), not "
            f"{request!r:.80}."
        )
    return request


class People(ABC):
    """What people do in a run; `RunHandle` inherits it."""

    client: Client
    _address: RunAddress

    @abstractmethod
    async def state(self) -> RunSnapshot:
        """Return the run's present state."""

    async def approve(
        self,
        request: RequestOrId,
        *,
        by: By = None,
        args_digest: str | None = None,
        always: bool = False,
        idempotency_key: str | None = None,
    ) -> DecisionReceipt:
        """Approve a call, here or in a nested run.

        Args:
            request: a request of `approvals()`; or its id, such as `a1`, or `e3.a1` in a nested
                run. With the request itself, the decision only counts for the arguments that it
                shows.
            by: who decides: a name or a `Person`.
            args_digest: the digest of the arguments that the person saw, if `request` is an id.
            always: also approve every further call of this tool by this agent in this run.
            idempotency_key: makes a repeated decision the same decision; default: its content.

        Returns:
            What became of it: `pending` while further people have to agree.

        Raises:
            DecisionRefused: the request is unknown, already settled, for other people, or for
                other arguments; nothing has changed.
        """
        return await self._decide(
            request,
            "approve",
            by=by,
            args_digest=args_digest,
            remember=always,
            idempotency_key=idempotency_key,
        )

    async def edit(
        self,
        request: RequestOrId,
        arguments: JsonObject,
        *,
        message: str | None = None,
        by: By = None,
        args_digest: str | None = None,
        idempotency_key: str | None = None,
    ) -> DecisionReceipt:
        """Approve a call with other arguments; the model reads that a person changed them.

        Earlier approvals of the request are void: where several people have to agree, they have to
        agree to these arguments. `arguments` are all arguments of the call, with `[redacted]` for a
        value that stays; `message` is the reason, for the model and the audit. The rest is as for
        `approve`.

        Raises:
            DecisionRefused: as for `approve`, or the arguments do not fit the tool's schema.
            UserError: the arguments are no JSON object.
        """
        return await self._decide(
            request,
            "edit",
            by=by,
            edited_arguments=arguments,
            message=message,
            args_digest=args_digest,
            idempotency_key=idempotency_key,
        )

    async def reject(
        self,
        request: RequestOrId,
        *,
        message: str | None = None,
        by: By = None,
        args_digest: str | None = None,
        always: bool = False,
        idempotency_key: str | None = None,
    ) -> DecisionReceipt:
        """Reject a call; the model reads `message` as its output.

        Raises:
            DecisionRefused: as for `approve`.
        """
        return await self._decide(
            request,
            "reject",
            message=message,
            by=by,
            args_digest=args_digest,
            remember=always,
            idempotency_key=idempotency_key,
        )

    async def respond(
        self,
        request: RequestOrId,
        response: Json,
        *,
        by: By = None,
        args_digest: str | None = None,
        idempotency_key: str | None = None,
    ) -> DecisionReceipt:
        """Answer in place of a call: it does not run, and `response` is its output.

        The response is a text, or what the response schema of the request describes. The rest is as
        for `approve`.

        Raises:
            DecisionRefused: as for `approve`, or the response does not fit its schema.
            UserError: the response is no JSON.
        """
        return await self._decide(
            request,
            "respond",
            response=response,
            by=by,
            args_digest=args_digest,
            idempotency_key=idempotency_key,
        )

    async def withdraw_vote(self, request: RequestOrId, *, by: By) -> DecisionReceipt:
        """Take one's votes about a request back, while it still needs others.

        An edit that is withdrawn gives the call the arguments back that the model wrote.

        Raises:
            DecisionRefused: the request is settled, or this person has no vote.
        """
        return await self._decide(request, "withdraw", by=by)

    async def _decide(self, request: RequestOrId, kind: VoteType, **fields: Any) -> DecisionReceipt:
        return await self._send_decision(decision_of(request, kind, **fields), request)

    async def ask_back(self, request: RequestOrId, question: str, *, by: By) -> DecisionReceipt:
        """Ask the agent a question instead of deciding.

        The call does not run now, which the receipt calls `rejected`. The model reads the question,
        answers it or asks the user, and calls the tool again if that is still right: then there is
        a new request.

        Raises:
            DecisionRefused: as for `approve`, or the request cannot be rejected.
        """
        if not isinstance(cast("object", question), str) or not question.strip():
            raise UserError(f"ask_back(question) must be a text that asks, not {question!r:.80}.")
        seen = seen_request(request)
        if seen is not None and seen.kind == "budget":
            raise UserError("No agent can answer about a budget. Extend it, or reject it.")
        person = person_of(by)
        words = phrases.asked_back(person.display or person.subject, question)
        return await self._decide(request, "reject", by=person, message=words)

    async def decide(
        self,
        decision: Decision,
        *,
        nested_id: str | None = None,
        request: ApprovalRequest | None = None,
    ) -> DecisionReceipt:
        """Send a decision to the run that made the request.

        Each history is read at most once; with the request itself, none is.

        Args:
            decision: the decision.
            nested_id: the nested run, if it is known; empty for this run itself.
            request: the request as `approvals()` has it, which knows its run.

        Raises:
            DecisionRefused: as for `approve`.
            UserError: the edited arguments or the response are no JSON.
        """
        if request is not None:
            nested_id = request.run_id
        return await self._send_decision(decision, request or decision.request_id, nested_id)

    async def claim(
        self,
        request: RequestOrId,
        *,
        by: By,
        minutes: float | timedelta = CLAIM_MINUTES,
        force: bool = False,
        to: By = None,
    ) -> ClaimReceipt:
        """Keep a request to one person for some minutes, up to a day; nobody else decides it.

        With `force`, the request is taken from whoever else has claimed it; with `to`, this person
        hands their own claim over.

        Raises:
            DecisionRefused: the request is settled, for other people, or claimed by somebody else.
        """
        length = _claim_minutes(minutes)
        return await self._claim(request, by, length, force=force, to=person_of(to).subject)

    async def unclaim(self, request: RequestOrId, *, by: By, force: bool = False) -> ClaimReceipt:
        """End a claim; everybody may decide the request again. `force` ends somebody else's.

        Raises:
            DecisionRefused: the request is settled, or claimed by somebody else.
        """
        return await self._claim(request, by, 0, force=force)

    async def hold(
        self, *, by: By, mode: HoldMode = "immediate", force: bool = False
    ) -> TakeoverReceipt:
        """Take the conversation over: the agent does nothing until `release`.

        Messages that arrive meanwhile are for the person, who answers with `say`. Requests for a
        person, of policies with `takeover=True`, are approved by it. A model call
        under way is cancelled, and its unfinished answer withdrawn from streams; with `after_turn`
        it ends first, with what it leads to. Tools that have begun finish. `force` takes the
        conversation from whoever else has it.

        Raises:
            UserError: the run has ended, somebody else has the conversation, or this person may not
                take it.
        """
        check_choice("hold(mode=...)", mode, HoldMode)
        action = HoldAction(mode=mode, force=force, **fields_of(person_of(by)))
        receipt = await self._take_over(action, f"hold-{_new_id()}")
        return replace(receipt, approved=await self._approve_by_holding(by))

    async def hand_over(self, *, by: By, to: By) -> TakeoverReceipt:
        """Hand a conversation that one holds over to a colleague, who then speaks in it.

        Raises:
            UserError: this person does not hold the conversation.
        """
        colleague = person_of(to).subject
        if not colleague:
            raise UserError("hand_over(to=...) must name the colleague: a name or a Person.")
        action = HoldAction(to=colleague, **fields_of(person_of(by)))
        return await self._give_up(action)

    async def say(
        self,
        text: str,
        *,
        by: By,
        message_id: str | None = None,
        files: Sequence[JsonObject] = (),
    ) -> TakeoverReceipt:
        """Answer the user as a person, while the conversation is held.

        A `message_id` makes a repeated call the same message. `files` are parts of Responses input,
        `input_image` and `input_file`, which the user gets and no model reads.

        Raises:
            UserError: this person does not hold the conversation, or may not speak in it; or the
                files do not fit into a record.
        """
        if not isinstance(cast("object", text), str) or not text.strip():
            raise UserError(f"say(text) must be a text that says something, not {text!r:.80}.")
        check_printable("say(message_id=...)", message_id or "")
        message_id = message_id or f"p-{_new_id()}"
        stored = await items_stored(self.client, [dict(one) for one in files]) if files else []
        if len(json.dumps(stored)) > 2 * INLINE_BYTES:  # there is no store
            raise UserError(
                f"The files may have {2 * INLINE_BYTES:,} bytes as JSON. With a blob store "
                "(OUTLAST_BLOB_STORE), they may have any size."
            )
        who = fields_of(person_of(by))
        action = SayAction(text=text, message_id=message_id, files=tuple(stored), **who)
        return await self._take_over(action, message_id)

    async def release(
        self, *, by: By, note: str = "", to: Agent[Any] | str = ""
    ) -> TakeoverReceipt:
        """Give the conversation back to an agent, which reads what was said.

        The agent also reads `note`, which the user does not. `to` is the agent that goes on;
        default: the one that was active.

        Raises:
            UserError: this person does not hold the conversation, or may not release it.
        """
        name = to if isinstance(to, str) else getattr(cast("object", to), "name", None)
        if not isinstance(name, str):
            raise UserError(f"release(to=...) must be an agent or its name, not {to!r:.80}.")
        check_printable("release(to=...)", name, is_name=True)
        action = ReleaseAction(note=note, to=name, **fields_of(person_of(by)))
        return await self._give_up(action)

    async def set_aside(
        self, item: int, *, by: By, part: int | None = None, reason: str = ""
    ) -> AsideReceipt:
        """Leave an item of the transcript out of what the model reads, from its next call on.

        The transcript keeps it, and a short note stands in its place in the request. What a
        provider refuses is set aside by itself; see [bounds](../reference/bounds-and-errors.md). A
        repeated call has the same receipt.

        Args:
            item: the index of the item in the transcript.
            by: who does it: whoever may take the conversation over.
            part: the index of a part of the item's content, such as an image; None for all of it.
            reason: why, for people.

        Raises:
            UserError: the run has ended or has no such item, the item is an instruction, somebody
                else has set it aside, or this person may not do it.
        """
        return await self._set_aside(item, by, part, reason, back=False)

    async def take_back(self, item: int, *, by: By, part: int | None = None) -> AsideReceipt:
        """Let the model read an item again that a person or a provider's refusal set aside.

        A provider that refuses it once more has it set aside again. A repeated call has the same
        receipt.

        Raises:
            UserError: the run has ended or has no such item, or this person may not do it.
        """
        return await self._set_aside(item, by, part, "", back=True)

    async def _set_aside(
        self, item: int, by: By, part: int | None, reason: str, *, back: bool
    ) -> AsideReceipt:
        for name, index in (("item", item), ("part", part)):
            if index is not None and (type(index) is not int or index < 0):
                raise UserError(f"{name} must be an index, 0 or more, not {index!r:.80}.")
        action = SetAsideAction(
            item=item, part=part, back=back, reason=reason, **fields_of(person_of(by))
        )
        outcome = await self._update(self._address, action, f"set_aside-{_new_id()}")
        return AsideReceipt(
            run_id=self._address.run_id, item=outcome["item"], parts=tuple(outcome["parts"])
        )

    async def _send_decision(
        self, decision: Decision, request: RequestOrId, nested_id: str | None = None
    ) -> DecisionReceipt:
        """Send a decision to the run whose request it answers."""
        _check_json(decision)
        reads = self._reads()
        address, settled = await self._run_of(request, reads, nested_id)
        if settled is not None:
            return _earlier_receipt(settled, decision, address.run_id)
        if decision.type == "edit":
            shown = seen_request(request) or await reads.request(address, decision.request_id)
            _check_hidden(decision, shown)
        decision = await _with_what_was_seen(decision, address, reads)
        unique = update_id(decision, await _withdrawals(address, request, decision, reads))
        try:
            outcome = await self._update_or_keep(address, decision, unique, reads)
        except RunClosed:
            settled = await self._reads().request(address, decision.request_id)
            if address is self._address or settled is None or settled.status == "pending":
                raise
            return _earlier_receipt(settled, decision, address.run_id)
        if isinstance(outcome, ApprovalRequest):
            return receipt_of(outcome, address.run_id, is_kept=True)
        return DecisionReceipt(
            run_id=address.run_id,
            request_id=decision.request_id,
            status=outcome["status"],
            votes=outcome.get("votes", 1),  # workers of earlier versions do not say
            votes_needed=outcome.get("votes_needed", 1),
            by=outcome["by"],
            is_queued=outcome.get("is_queued", False),
        )

    async def _update_or_keep(
        self, address: RunAddress, decision: Decision, unique: str, reads: "_Reads"
    ) -> JsonObject | ApprovalRequest:
        """Send a decision; where no worker is there, have the server keep it if it may count.

        Returns:
            The answer of the run; or the request, whose decision is kept.
        """
        decision = await self._signed(address, decision)
        name, payload = row_of(decision).name, records.write(decision)
        outcome = await address.update_if_served(name, payload, unique)
        if outcome is not None:
            return outcome
        request = await _request_for_signal(address, decision, reads)
        if request is None:  # only a worker can check who sends an update
            return await address.update(name, payload, unique)
        await address.keep(name, payload)
        return request

    async def _claim(
        self, request: RequestOrId, by: By, minutes: int, *, force: bool, to: str = ""
    ) -> ClaimReceipt:
        person = person_of(by)
        address, settled = await self._run_of(request, self._reads())
        if settled is not None:
            raise DecisionRefused(f"Approval {settled.id}{settled_problem(settled)}")
        record = ClaimAction(
            request_id=id_of(request), minutes=minutes, force=force, to=to, **fields_of(person)
        )
        outcome = await self._update(address, record, f"claim-{_new_id()}")
        return ClaimReceipt(
            run_id=address.run_id,
            request_id=id_of(request),
            by=outcome["claimed_by"],
            until=time_if_any(outcome["until_ms"]),
        )

    def _reads(self) -> "_Reads":
        return _Reads(self._address, self._present, self.client)

    async def _present(self) -> LoopState:
        return loop_state(await self.state())

    async def _run_of(
        self, request: RequestOrId, reads: "_Reads", nested_id: str | None = None
    ) -> tuple[RunAddress, ApprovalRequest | None]:
        """Return the address of the run that made a request.

        If that run has ended, return the request as well: it is settled.
        """
        request_id, seen = id_of(request), seen_request(request)
        settled = None
        if nested_id is None and seen is not None and seen.run_id:
            nested_id = seen.run_id
        if nested_id is None and "." in request_id:  # an id of a nested run
            nested_id, settled = await reads.nested_run(request_id)
        if not nested_id or nested_id == self._address.run_id:
            return self._address, None
        if not await is_nested_in(nested_id, self._address.run_id, self.client):
            raise RunNotFound(
                f"The run {nested_id!r} is not nested in {self._address.run_id!r}: somebody may have "
                "started another one in its place. Look at the requests again."
            )
        return RunAddress(self.client, nested_id, self._address.patience), settled

    async def _approve_by_holding(self, by: By) -> tuple[str, ...]:
        """Approve what waits for somebody to take the conversation; each is a decision of its own."""
        found = await present_requests(await self._present(), self.client)
        waiting = [one for one in found if one.terms.takeover]
        approved: list[str] = []
        for request in waiting:
            with suppress(DecisionRefused):  # of others, who may not decide it
                await self.approve(request, by=by)
                approved.append(request.id)
        return tuple(approved)

    async def _give_up(self, action: HoldAction | ReleaseAction) -> TakeoverReceipt:
        """Give the conversation to somebody else; a repetition gets the first one's receipt."""
        state, digest = await self._present(), digest_of_given_up(action)
        since_ms = state.hold.at_ms if state.hold is not None else 0
        if state.given_up is not None and gave_up_already(state, action):
            since_ms = state.given_up.since_ms
        return await self._take_over(action, f"{row_of(action).name}-{since_ms}-{digest[:16]}")

    async def _take_over(self, action: Action, update_id: str) -> TakeoverReceipt:
        outcome = await self._update(self._address, action, update_id)
        return TakeoverReceipt(
            run_id=self._address.run_id,
            status=outcome["status"],
            by=outcome["held_by"],
            agent=outcome["agent"],
            is_judged=outcome.get("is_judged", False),
        )

    async def _update(self, address: RunAddress, action: Action, update_id: str) -> JsonObject:
        action = await self._signed(address, action)
        return await address.update(row_of(action).name, records.write(action), update_id)

    async def _signed(self, address: RunAddress, action: A) -> A:
        if action.proof:  # a caller's own signature stays
            return action
        name = row_of(action).name
        return await address.ask(lambda: sign(self.client, action, address.run_id, action=name))


class _Reads:
    """What one act reads of runs: the history of each at most once."""

    def __init__(
        self, own: RunAddress, read_own: Callable[[], Awaitable[LoopState]], client: Client
    ) -> None:
        self._own, self._read_own, self._client = own, read_own, client
        self._states: dict[str, LoopState | None] = {}

    async def state(self, address: RunAddress) -> LoopState | None:
        """Return the state of a run as it was first read; None if there is no such run."""
        run_id = address.run_id
        if run_id not in self._states:
            reads_own = address is self._own
            state = await self._read_own() if reads_own else await state_of(run_id, self._client)
            self._states[run_id] = state
        return self._states[run_id]

    async def request(self, address: RunAddress, request_id: str) -> ApprovalRequest | None:
        """Return a request that a run made itself, or None."""
        state = await self.state(address)
        return None if state is None else request_in(state, request_id)

    async def nested_run(self, request_id: str) -> tuple[str, ApprovalRequest | None]:
        """Return the nested run that made a request, as `run_of_request` does."""
        root = await self.state(self._own)
        assert root is not None  # noqa: S101  a handle's own state is there, or it raises
        nested_id, settled, nested = await run_of_request(request_id, root, self._client)
        if nested is not None:
            self._states[nested_id] = nested
        return nested_id, settled


async def _request_for_signal(
    address: RunAddress, decision: Decision, reads: _Reads
) -> ApprovalRequest | None:
    """Return the request of a decision, if the decision would count without a proof.

    Raises:
        DecisionRefused: it would not count with one either.
    """
    state = await reads.state(address)
    if state is None:
        return None
    event = PersonActed(at_ms=now_ms(), action=decision)
    problem = decision_problem(state, replace(event, verified=True))
    if problem is not None:
        raise DecisionRefused(problem)
    is_enough = decision_problem(state, event) is None
    return request_in(state, decision.request_id) if is_enough else None


def _check_hidden(decision: Decision, shown: ApprovalRequest | None) -> None:
    """Refuse an edit whose `[redacted]` would be what the tool gets.

    Raises:
        DecisionRefused: it stands for no value.
    """
    if shown is None:
        return
    text = unplaced(decision.edited_arguments or {}, shown.arguments)
    if text is not None:
        raise DecisionRefused(
            f"Approval {decision.request_id:.80}: in {text!r:.80}, [redacted] stands for no value. "
            "Leave the hidden value alone, or write all of it."
        )


async def _with_what_was_seen(decision: Decision, address: RunAddress, reads: _Reads) -> Decision:
    """Return a decision that names what it is about, as the run that asks shows it now.

    A caller that has only seen the arguments says so by their digest, which still has to fit.
    """
    if decision.seen is not None or decision.proof is not None:
        return decision
    request = await reads.request(address, decision.request_id)
    return decision if request is None else replace(decision, seen=request.seen)


async def _withdrawals(
    address: RunAddress, request: RequestOrId, decision: Decision, reads: _Reads
) -> int:
    """Return how often the person has withdrawn: what they say after that is said anew."""
    if decision.idempotency_key:
        return 0
    seen = seen_request(request) or await reads.request(address, decision.request_id)
    made = (vote.decision for vote in seen.votes) if seen is not None else ()
    return sum((one.type, one.by) == ("withdraw", decision.by) for one in made)


def update_id(decision: Decision, withdrawals: int = 0) -> str:
    """Return the id of a decision's update: a repeated decision is the same decision.

    Decisions of different people, or with other content, have other ids: the run accepts or refuses
    each of them. So do decisions before and after this person has withdrawn a vote.
    """
    if decision.idempotency_key:
        content: Any = [decision.idempotency_key, decision.by]
    else:
        content = records.write(decision)
        for name in _NOT_PART_OF_THE_DECISION:
            content.pop(name, None)
        content = [content, withdrawals] if withdrawals else content
    text = json.dumps(content, sort_keys=True)
    return f"{decision.request_id:.100}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def outcome_of(state: LoopState, message_id: str) -> MessageReceipt:
    """Return the outcome of a message that a run has accepted."""
    return MessageReceipt(
        run_id=state.run_id, message_id=message_id, status=_message_status(state, message_id)
    )


def _message_status(state: LoopState, message_id: str) -> MessageStatus:
    for answer in reversed(state.answers):
        if message_id in answer.to:
            return "answered" if answer.failure is None else "failed"
    if not has_message(state, message_id):
        return "withdrawn"
    if state.phase == "closed":
        return "unanswered"
    return "taken" if message_id in state.question.answering else "waiting"


def _earlier_receipt(request: ApprovalRequest, decision: Decision, run_id: str) -> DecisionReceipt:
    made = [(vote.decision.type, vote.decision.by) for vote in request.votes]
    if (decision.type, decision.by) not in made:
        raise DecisionRefused(f"Approval {request.id}{settled_problem(request)}")
    return receipt_of(request, run_id)


def receipt_of(
    request: ApprovalRequest, run_id: str, *, is_kept: bool = False, is_queued: bool = False
) -> DecisionReceipt:
    """Return what has become of a request that somebody has decided."""
    return DecisionReceipt(
        run_id=run_id,
        request_id=request.id,
        status=request.status,
        votes=len(request.standing_votes),
        votes_needed=request.terms.quorum,
        by=request.settled_by,
        is_kept=is_kept,
        is_queued=is_queued,
    )


def _check_json(decision: Decision) -> None:
    edited = cast("object", decision.edited_arguments)
    if edited is not None and not isinstance(edited, dict):
        raise UserError(
            f"The edited arguments must be a dict with all arguments, not {edited!r:.80}."
        )
    try:
        json.dumps([edited, decision.response], allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(f"Edited arguments and responses must be plain JSON: {error}") from None


def _claim_minutes(minutes: object) -> int:
    length = minutes.total_seconds() / 60 if isinstance(minutes, timedelta) else minutes
    is_number = isinstance(length, int | float) and not isinstance(length, bool)
    if not is_number or not 0 < cast("float", length) <= LONGEST_CLAIM_MINUTES:
        raise UserError(
            f"A claim lasts up to {LONGEST_CLAIM_MINUTES} minutes (minutes= is a number or a "
            f"timedelta), not {minutes!r:.80}."
        )
    return math.ceil(cast("float", length))


def _new_id() -> str:
    return secrets.token_hex(8)
