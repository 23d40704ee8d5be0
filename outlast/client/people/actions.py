"""Actions of people in a run: decisions, claims, takeovers and withdrawals.

Each is an update: what does not apply is refused before anything is recorded.
"""

import hashlib
import json
import math
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, TypeAlias, cast, get_args

from temporalio.client import Client

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
from outlast.client.transport.run_address import RunAddress
from outlast.contract import names, records
from outlast.loop import phrases
from outlast.loop.actions import (
    Action,
    ClaimAction,
    HoldAction,
    HoldMode,
    ReleaseAction,
    SayAction,
    fields_of,
)
from outlast.loop.approvals import ApprovalRequest, ApprovalStatus, Decision, Person, VoteType
from outlast.loop.human_actions import row_of
from outlast.loop.state import LoopState, Status, has_message
from outlast.loop.values import JsonObject
from outlast.loop.votes import LONGEST_CLAIM_MINUTES, settled_problem

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
    """

    run_id: str
    request_id: str
    status: ApprovalStatus
    votes: int
    votes_needed: int
    by: str | None = None


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
    if seen is not None and fields.get("args_digest") is None:
        fields["args_digest"], fields["seen"] = seen.args_digest, seen.seen
    fields.setdefault("channel", "client")
    return Decision(
        request_id=id_of(request),
        type=kind,
        by=person.subject or None,
        display=person.display,
        groups=person.groups,
        method=person.method,
        proof=person.proof,
        **fields,
    )


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


class People:
    """Sends the actions of people to a run."""

    def __init__(
        self, client: Client, address: RunAddress, state: Callable[[], Awaitable[LoopState]]
    ) -> None:
        self._client = client
        self._address = address
        self._state = state

    # --- Requests ---------------------------------------------------------------------------------

    async def decide(
        self,
        decision: Decision,
        *,
        request: RequestOrId | None = None,
        nested_id: str | None = None,
    ) -> DecisionReceipt:
        """Send a decision to the run whose request it answers; see `RunHandle.decide`."""
        _check_json(decision)
        asked = decision.request_id if request is None else request
        address, settled = await self._run_of(asked, nested_id)
        if settled is not None:
            return _earlier_receipt(settled, decision, address.run_id)
        decision = await self._with_what_was_seen(decision, address)
        again = await self._withdrawals(address, asked, decision)
        try:
            outcome = await self._update(address, decision, update_id(decision, again))
        except RunClosed:
            settled = await self._request(address, decision.request_id)
            if address is self._address or settled is None or settled.status == "pending":
                raise
            return _earlier_receipt(settled, decision, address.run_id)
        return DecisionReceipt(
            run_id=address.run_id,
            request_id=decision.request_id,
            status=outcome["status"],
            votes=outcome.get("votes", 1),  # workers of earlier versions do not say
            votes_needed=outcome.get("votes_needed", 1),
            by=outcome["by"],
        )

    async def _with_what_was_seen(self, decision: Decision, address: RunAddress) -> Decision:
        """Return a decision that names what it is about, as the run that asks shows it now.

        A caller that has only seen the arguments says so by their digest, which still has to fit.
        """
        if decision.seen is not None or decision.proof is not None:
            return decision
        request = await self._request(address, decision.request_id)
        return decision if request is None else replace(decision, seen=request.seen)

    async def _withdrawals(
        self, address: RunAddress, request: RequestOrId, decision: Decision
    ) -> int:
        """Return how often the person has withdrawn: what they say after that is said anew."""
        if decision.idempotency_key:
            return 0
        seen = seen_request(request)
        if seen is None:
            seen = await self._request(address, decision.request_id)
        made = (vote.decision for vote in seen.votes) if seen is not None else ()
        return sum((one.type, one.by) == ("withdraw", decision.by) for one in made)

    async def _request(self, address: RunAddress, request_id: str) -> ApprovalRequest | None:
        is_own = address is self._address
        state = await self._state() if is_own else await state_of(address.run_id, self._client)
        return None if state is None else request_in(state, request_id)

    async def ask_back(self, request: RequestOrId, question: str, by: By) -> DecisionReceipt:
        """Ask the agent something before a decision; see `RunHandle.ask_back`."""
        if not isinstance(cast("object", question), str) or not question.strip():
            raise UserError(f"ask_back(question) must be a text that asks, not {question!r:.80}.")
        seen = seen_request(request)
        if seen is not None and seen.kind == "budget":
            raise UserError("No agent can answer about a budget. Extend it, or reject it.")
        person = person_of(by)
        who = person.display or person.subject
        decision = decision_of(
            request, "reject", by=person, message=phrases.asked_back(who, question)
        )
        return await self.decide(decision, request=request)

    async def claim(
        self,
        request: RequestOrId,
        by: By,
        minutes: float | timedelta,
        *,
        force: bool,
        to: By = None,
    ) -> ClaimReceipt:
        """Keep a request to a person for some minutes; see `RunHandle.claim`."""
        length = _claim_minutes(minutes)
        return await self._claim(request, by, length, force=force, to=person_of(to).subject)

    async def unclaim(self, request: RequestOrId, by: By, *, force: bool) -> ClaimReceipt:
        """Let everybody decide a request again; see `RunHandle.unclaim`."""
        return await self._claim(request, by, 0, force=force)

    async def _claim(
        self, request: RequestOrId, by: By, minutes: int, *, force: bool, to: str = ""
    ) -> ClaimReceipt:
        person = person_of(by)
        address, settled = await self._run_of(request)
        if settled is not None:
            raise DecisionRefused(f"Approval {settled.id}{settled_problem(settled)}")
        record = ClaimAction(
            request_id=id_of(request), minutes=minutes, force=force, to=to, **fields_of(person)
        )
        outcome = await self._update(address, record, f"claim-{_new_id()}")
        until_ms = outcome["until_ms"]
        return ClaimReceipt(
            run_id=address.run_id,
            request_id=id_of(request),
            by=outcome["claimed_by"],
            until=None if until_ms is None else datetime.fromtimestamp(until_ms / 1000, UTC),
        )

    async def _run_of(
        self, request: RequestOrId, nested_id: str | None = None
    ) -> tuple[RunAddress, ApprovalRequest | None]:
        """Return the address of the run that made a request.

        If that run has ended, return the request as well: it is settled.
        """
        request_id, seen = id_of(request), seen_request(request)
        settled = None
        if nested_id is None and seen is not None and seen.run_id:
            nested_id = seen.run_id
        if nested_id is None and "." in request_id:  # an id of a nested run
            nested_id, settled = await run_of_request(request_id, await self._state(), self._client)
        if not nested_id or nested_id == self._address.run_id:
            return self._address, None
        if not await is_nested_in(nested_id, self._address.run_id, self._client):
            raise RunNotFound(
                f"The run {nested_id!r} is not nested in {self._address.run_id!r}: somebody may have "
                "started another one in its place. Look at the requests again."
            )
        return RunAddress(self._client, nested_id, self._address.patience), settled

    # --- Takeovers --------------------------------------------------------------------------------

    async def hold(
        self, by: By, mode: HoldMode = "finish", *, force: bool = False, to: By = None
    ) -> TakeoverReceipt:
        """Take the conversation over, or hand it over; see `RunHandle.hold` and `hand_over`."""
        _check_choice("hold(mode=...)", mode, HoldMode)
        colleague = person_of(to).subject
        record = HoldAction(mode=mode, force=force, to=colleague, **fields_of(person_of(by)))
        receipt = await self._take_over(record, f"hold-{_new_id()}")
        if colleague:
            return receipt
        return replace(receipt, approved=await self._approve_by_holding(by))

    async def _approve_by_holding(self, by: By) -> tuple[str, ...]:
        """Approve what waits for somebody to take the conversation; each is a decision of its own."""
        found = await present_requests(await self._state(), self._client)
        waiting = [one for one in found if one.terms.takeover]
        approved: list[str] = []
        for request in waiting:
            with suppress(DecisionRefused):  # of others, who may not decide it
                await self.decide(decision_of(request, "approve", by=by), request=request)
                approved.append(request.id)
        return tuple(approved)

    async def hand_over(self, by: By, to: By) -> TakeoverReceipt:
        """Hand the conversation over to a colleague; see `RunHandle.hand_over`."""
        if to is None:
            raise UserError("hand_over(to=...) must name the colleague: a name or a Person.")
        return await self.hold(by, to=to)

    async def say(self, text: str, by: By, message_id: str | None) -> TakeoverReceipt:
        """Answer the user; see `RunHandle.say`."""
        if not isinstance(cast("object", text), str) or not text.strip():
            raise UserError(f"say(text) must be a text that says something, not {text!r:.80}.")
        message_id = message_id or f"p-{_new_id()}"
        record = SayAction(text=text, message_id=message_id, **fields_of(person_of(by)))
        return await self._take_over(record, message_id)

    async def release(self, by: By, note: str, to: Any) -> TakeoverReceipt:
        """Give the conversation back; see `RunHandle.release`."""
        name = to if isinstance(to, str) else getattr(to, "name", None)
        if not isinstance(name, str):
            raise UserError(f"release(to=...) must be an agent or its name, not {to!r:.80}.")
        record = ReleaseAction(note=note, to=name, **fields_of(person_of(by)))
        return await self._take_over(record, f"release-{_new_id()}")

    async def _take_over(self, action: Action, update_id: str) -> TakeoverReceipt:
        outcome = await self._update(self._address, action, update_id)
        return TakeoverReceipt(
            run_id=self._address.run_id,
            status=outcome["status"],
            by=outcome["held_by"],
            agent=outcome["agent"],
            is_judged=outcome.get("is_judged", False),
        )

    # --- Messages ---------------------------------------------------------------------------------

    async def withdraw(self, message_id: str) -> MessageReceipt:
        """Take a message back that no question has taken; see `SentMessage.withdraw`."""
        record = records.WithdrawRecord(message_id=message_id)
        payload = records.write(record)
        await self._address.update(names.WITHDRAW, payload, f"withdraw-{message_id}")
        return MessageReceipt(
            run_id=self._address.run_id, message_id=message_id, status="withdrawn"
        )

    async def _update(self, address: RunAddress, action: Action, update_id: str) -> JsonObject:
        name = row_of(action).name
        if not action.proof:  # a caller's own signature stays
            action = await address.ask(
                lambda: sign(self._client, action, address.run_id, action=name)
            )
        return await address.update(name, records.write(action), update_id)


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
    return DecisionReceipt(
        run_id=run_id,
        request_id=request.id,
        status=request.status,
        votes=len(request.standing_votes),
        votes_needed=request.terms.quorum,
        by=request.settled_by,
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


def _check_choice(what: str, value: object, choices: Any) -> None:
    allowed = get_args(choices)
    if value not in allowed:
        listed = " or ".join(repr(one) for one in allowed)
        raise UserError(f"{what} must be {listed}, not {value!r:.80}.")


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
