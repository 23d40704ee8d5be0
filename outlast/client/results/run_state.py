"""A run that waits for people, as a program holds it: decide, add input, resume."""

import json
import secrets
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Final, Generic, cast

from outlast.agents.agent import Agent
from outlast.agents.context.wrapper import RunContextWrapper, TContext
from outlast.agents.errors import UserError
from outlast.agents.items.run_items import ToolApprovalItem
from outlast.client.results.interruptions import Interruption
from outlast.client.results.local_definitions import LocalDefinitions
from outlast.client.transport.messages import check_input
from outlast.contract import records
from outlast.contract.names import SCHEMA_VERSION
from outlast.edges.bodies import DOORS
from outlast.loop.approvals import ApprovalRequest, Decision, VoteType
from outlast.loop.values import JsonObject
from outlast.views.acts import decision_about
from outlast.views.run import RunSnapshot, loop_state, snapshot_of

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    TAgent = TypeVar("TAgent", bound=Agent[Any], default=Agent[Any])
else:  # the type variable's default is for type checkers only; see `outlast.agents.context.wrapper`
    from typing import TypeVar

    TAgent = TypeVar("TAgent")

ENGINE: Final = "the engine of this process"
"""Stands for the client of a run that was started without a client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedInput:
    """Input to be sent when the run resumes; the id makes it one message."""

    message_id: str
    input: str | list[JsonObject]


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedDecision:
    """A decision about a request of the run itself, or of the nested run `run_id`."""

    run_id: str
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRequest:
    """A pending request and its call, as `to_json` writes them."""

    request: ApprovalRequest
    call: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredState:
    """A state as `to_json` writes it."""

    run_id: str
    agent: str
    waiting: tuple[StoredRequest, ...] = ()
    decisions: tuple[StagedDecision, ...] = ()
    input: tuple[StagedInput, ...] = ()
    snapshot: JsonObject | None = None
    first_execution_id: str = ""


class RunState(Generic[TContext, TAgent]):
    """A run that waits for people, as `result.to_state()` returns it.

    Decide with `approve` and `reject`, and resume with `Runner.run(agent, state)`. Dropping a state
    loses nothing: the run waits, and `Runner.attach(state.run_id)` finds it again. Its JSON holds
    no secrets of the run, but allows decisions: keep it where decisions are made.

    Attributes:
        run_id: the workflow id.
        agent: the name of the agent that waits.
        client: the client that the run was read with, if the program passed one, or `ENGINE`.
        snapshot: the state of a run without a server.
        first_execution_id: the first execution of the run, which no later run with its id has.
        is_stored: the state was read from JSON, which somebody may have changed.
        context_override: the context passed to `from_json`, like `Runner.run(context=)`.
    """

    if not TYPE_CHECKING:  # `RunState[Context]` in annotations evaluated at run time
        __class_getitem__ = classmethod(GenericAlias)

    def __init__(
        self,
        *,
        run_id: str,
        agent: str,
        interruptions: Iterable[Interruption] = (),
        definitions: LocalDefinitions | None = None,
        client: Any = None,
        snapshot: RunSnapshot | None = None,
        first_execution_id: str = "",
    ) -> None:
        self.run_id = run_id
        self.agent = agent
        self.client = client
        self.snapshot = snapshot
        self.first_execution_id = first_execution_id
        self.is_stored = False
        self.context_override: Any = None
        self.definitions: LocalDefinitions = definitions or LocalDefinitions()
        self._interruptions = list(interruptions)
        self._decisions: dict[tuple[str, str], StagedDecision] = {}
        self._input: list[StagedInput] = []

    def __repr__(self) -> str:
        waiting = ", ".join(interruption.id for interruption in self._interruptions)
        return f"RunState({self.run_id!r}, waiting=[{waiting}])"

    def get_interruptions(self) -> list[Interruption]:
        """Return the pending approval requests."""
        return list(self._interruptions)

    def approve(self, approval_item: ToolApprovalItem, always_approve: bool = False) -> None:  # noqa: FBT001, FBT002  the SDK's
        """Approve a call for when the run resumes.

        Args:
            approval_item: one of `get_interruptions()` or `result.interruptions`.
            always_approve: also approve every further call of this tool by this agent in this run.

        Raises:
            UserError: the run has no such pending request.
        """
        self._stage(approval_item, remember=always_approve, approved=True, message=None)

    def reject(
        self,
        approval_item: ToolApprovalItem,
        always_reject: bool = False,  # noqa: FBT001, FBT002  the SDK's
        *,
        rejection_message: str | None = None,
    ) -> None:
        """Reject a call; the model reads `rejection_message` as its output.

        `always_reject` also rejects every further call of this tool by this agent in this run.

        Raises:
            UserError: the run has no such pending request.
        """
        self._stage(
            approval_item, remember=always_reject, approved=False, message=rejection_message
        )

    def copy_decisions(self, other: "RunState") -> None:
        """Copy the decisions of another state of the same run."""
        for staged in other.staged_decisions():
            self._decisions[staged.run_id, staged.decision.request_id] = staged

    def add_input(self, input: str | list[JsonObject]) -> None:
        """Add input to the run; the model reads it after the outputs of the waiting calls.

        Raises:
            UserError: the input is neither a text nor a list of items.
        """
        content = check_input(input)
        message_id = f"m-{secrets.token_hex(8)}"
        self._input.append(StagedInput(message_id=message_id, input=content))

    @property
    def pending_input(self) -> list[JsonObject]:
        """The input added with `add_input`, as items."""
        return [
            deepcopy(raw) for message in self._input for raw in records.messages_of(message.input)
        ]

    def clear_pending_input(self) -> None:
        """Remove the input added with `add_input`."""
        self._input.clear()

    def staged_input(self) -> tuple[StagedInput, ...]:
        """Return the input to be sent, in order."""
        return tuple(self._input)

    def staged_decisions(self) -> tuple[StagedDecision, ...]:
        """Return the decisions in the order in which they must be sent.

        A decision about one call outranks one about all calls of the tool, so it comes first; of
        several about all calls, only the newest is remembered for further calls.
        """
        newest: dict[tuple[str, str, str], tuple[str, str]] = {}
        for key, staged in self._decisions.items():
            if staged.decision.remember:
                newest[self._tool_of(key)] = key
        sticky = set(newest.values())
        exact = [
            replace(staged, decision=replace(staged.decision, remember=False))
            for key, staged in self._decisions.items()
            if key not in sticky
        ]
        return (*exact, *(self._decisions[key] for key in newest.values()))

    def to_json(self) -> JsonObject:
        """Return the state as JSON: the run's id, its pending requests, and the decisions."""
        data: JsonObject = {
            "schema_version": SCHEMA_VERSION,
            "run_id": self.run_id,
            "agent": self.agent,
            "waiting": [
                {"request": records.write(interruption.request), "call": interruption.to_call()}
                for interruption in self._interruptions
            ],
            "decisions": [records.write(staged) for staged in self._decisions.values()],
            "input": [records.write(message) for message in self._input],
        }
        if self.first_execution_id:
            data["first_execution_id"] = self.first_execution_id
        if self.snapshot is not None:
            data["snapshot"] = records.write_state(loop_state(self.snapshot))
        return data

    def to_string(self) -> str:
        """Return the JSON of `to_json` as text."""
        return json.dumps(self.to_json())

    @classmethod
    async def from_json(
        cls,
        initial_agent: Agent[Any] | str,
        state_json: JsonObject,
        *,
        context_override: Any = None,
        context_deserializer: Callable[[Mapping[str, Any]], Any] | None = None,
    ) -> "RunState":
        """Read a state that `to_json` wrote, perhaps in another process.

        Args:
            initial_agent: the agent that the run was started with, or its name.
            state_json: what `to_json` returned.
            context_override: the run's context, as in `Runner.run(agent, state, context=...)`, or a
                `RunContextWrapper` of it. It must equal the run's own.
            context_deserializer: makes `result.context_wrapper.context` from the context's JSON, if
                its type is not known from `context_override`.

        Raises:
            UserError: it is no such JSON, or a newer version wrote it.
        """
        try:
            written = records.read(StoredState, state_json)
            snapshot = (
                None
                if written.snapshot is None
                else snapshot_of(records.read_state(written.snapshot))
            )
        except records.UnreadableRecordError as error:
            raise _unreadable(str(error).rstrip(".")) from None
        definitions = LocalDefinitions(initial_agent, make_context=context_deserializer)
        state = cls(
            run_id=written.run_id,
            agent=written.agent,
            interruptions=[_interruption(one, definitions) for one in written.waiting],
            definitions=definitions,
            snapshot=snapshot,
            first_execution_id=written.first_execution_id,
        )
        state.is_stored = True
        state._decisions = {
            (staged.run_id, staged.decision.request_id): staged for staged in written.decisions
        }
        state._input = list(written.input)
        if isinstance(context_override, RunContextWrapper):
            context_override = cast("RunContextWrapper[Any]", context_override).context
        state.context_override = context_override
        return cast("RunState", state)

    @classmethod
    async def from_string(
        cls,
        initial_agent: Agent[Any] | str,
        state_string: str,
        *,
        context_override: Any = None,
        context_deserializer: Callable[[Mapping[str, Any]], Any] | None = None,
    ) -> "RunState":
        """Read a state that `to_string` wrote; arguments and errors are those of `from_json`."""
        try:
            data = DOORS["recording"].parse(state_string)
        except (TypeError, ValueError) as error:
            raise _unreadable(f"it is not JSON ({error})") from None
        return await cls.from_json(
            initial_agent,
            data,
            context_override=context_override,
            context_deserializer=context_deserializer,
        )

    def _stage(
        self, item: ToolApprovalItem, *, remember: bool, approved: bool, message: str | None
    ) -> None:
        request = self._request_of(item)
        kind: VoteType = "approve" if approved else "reject"
        decision = decision_about(
            request, kind, message=message, channel="state", remember=remember
        )
        key = (request.run_id, request.id)
        self._decisions.pop(key, None)  # keep the newest decision last
        self._decisions[key] = StagedDecision(run_id=request.run_id, decision=decision)

    def _request_of(self, item: ToolApprovalItem) -> ApprovalRequest:
        candidate = cast("object", item)
        if not isinstance(candidate, ToolApprovalItem):
            raise UserError(f"Pass one of state.get_interruptions(), not {candidate!r:.80}.")
        for interruption in self._interruptions:
            if interruption is candidate:
                return interruption.request
        for interruption in self._interruptions:
            if isinstance(candidate, Interruption):
                same = (interruption.run_id, interruption.id) == (candidate.run_id, candidate.id)
            else:
                same = (interruption.call_id, interruption.name) == (
                    candidate.call_id,
                    candidate.name,
                )
            if same:
                return interruption.request
        waiting = ", ".join(f"{one.name} ({one.id})" for one in self._interruptions) or "none"
        raise UserError(
            f"The run {self.run_id} has no pending request for {candidate.name!r} "
            f"({candidate.approval_id or candidate.call_id}). Pending: {waiting}."
        )

    def _tool_of(self, key: tuple[str, str]) -> tuple[str, str, str]:
        for interruption in self._interruptions:
            if (interruption.run_id, interruption.id) == key:
                return interruption.run_id, interruption.request.agent, interruption.request.name
        return (*key, "")


def is_list_input(input: object) -> bool:
    """Whether the program passed a list of items, now or at the run's start."""
    return (
        input.definitions.input_is_list if isinstance(input, RunState) else isinstance(input, list)
    )


def _interruption(waiting: StoredRequest, definitions: LocalDefinitions) -> Interruption:
    request = waiting.request
    origin = definitions.origin(request.agent, request.name)
    return Interruption(request, definitions.agent(request.agent), waiting.call, origin)


def _unreadable(why: str) -> UserError:
    return UserError(
        f"This is not the JSON of a RunState: {why}. Pass the result of state.to_json() or "
        "state.to_string()."
    )
