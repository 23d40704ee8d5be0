"""`RunResultBase`: the members that all results share, made from a state when they are read."""

from copy import deepcopy
from dataclasses import Field, fields, make_dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, cast, overload

from pydantic_core import SchemaSerializer, core_schema

from outlast.agents.agent_tools.nested_result import AgentToolInvocation
from outlast.agents.config.session_input import without_reasoning_ids
from outlast.agents.context.codec import read_context
from outlast.agents.context.encoding import has_name
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import ContentUnavailable, UserError
from outlast.agents.guardrails.guardrail import InputGuardrailResult, OutputGuardrailResult
from outlast.agents.guardrails.tool_guardrails import (
    ToolInputGuardrailResult,
    ToolOutputGuardrailResult,
)
from outlast.agents.items.raw_items import as_input, in_written_order, is_cut_short
from outlast.agents.items.run_items import InputItem, RunItem, ToolApprovalItem
from outlast.agents.schemas.agent_output import output_as, read_output
from outlast.agents.usage import Usage
from outlast.client.results.decisions import ResultDecisions
from outlast.client.results.guardrail_results import guardrail_results
from outlast.client.results.interruptions import (
    Interruption,
    interruption,
    pending_in_order,
    place_of_call,
)
from outlast.client.results.local_definitions import LocalDefinitions
from outlast.client.results.pending_waits import PendingWait, pending_waits
from outlast.client.results.run_responses import last_turn, run_responses
from outlast.client.results.run_state import RunState
from outlast.client.transport.messages import check_choice
from outlast.contract.blobs import has_references
from outlast.contract.names import SETTING_AS_TOOL
from outlast.loop.items import Item, only_text, text_of
from outlast.loop.state import OUTPUT_KINDS, Answer, LoopState, Status, in_order
from outlast.loop.values import Json, JsonObject
from outlast.loop.view import places_in_transcript, shown, size
from outlast.ports.model import ModelResponse
from outlast.pricing import Cost
from outlast.views.run import RunSnapshot, loop_state, snapshot_of

T = TypeVar("T")

ToInputListMode: TypeAlias = Literal["preserve_all", "normalized"]
"""The conversation's form: every item, or the model's next input."""

NOBODY = LocalDefinitions()
"""Definitions of a process that has none, only names."""


_FIELDS = (
    "input", "new_items", "raw_responses", "final_output", "input_guardrail_results",
    "output_guardrail_results", "tool_input_guardrail_results", "tool_output_guardrail_results",
    "context_wrapper", "interruptions", "max_turns", "_last_agent",
)  # fmt: skip
"""The fields of the SDK's results, in its order."""


class RunResultBase:
    """The readable members of a run that has ended, waits, or is still running.

    `dataclasses.asdict` and `replace` take a result as one of the SDK, although its members are
    made when they are read. As JSON, such as in a tool's output, it is its text.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]] = {
        one.name: one for one in fields(make_dataclass("RunResult", _FIELDS))
    }
    __pydantic_serializer__: ClassVar[SchemaSerializer] = SchemaSerializer(
        core_schema.any_schema(serialization=core_schema.to_string_ser_schema())
    )

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> core_schema.CoreSchema:
        """Let models and functions of pydantic take a result, as it is."""
        return core_schema.is_instance_schema(cls, serialization=core_schema.to_string_ser_schema())

    def __init__(
        self,
        state: RunSnapshot,
        definitions: LocalDefinitions = NOBODY,
        *,
        answer: Answer | None = None,
        client: Any = None,
    ) -> None:
        self._state = loop_state(state)
        self._definitions = definitions
        self._answer = answer
        self._client = client

    @property
    def snapshot(self) -> RunSnapshot:
        """The state of the run, as `RunHandle.state()` returns it."""
        return snapshot_of(self._state)

    @property
    def run_id(self) -> str:
        """The workflow id."""
        return self._state.run_id

    @property
    def status(self) -> Status:
        """The run's status: `completed`, `waiting` or `idle`.

        A waiting run waits for a person's decision, and an idle run for a message.
        """
        return self._state.status

    @cached_property
    def items(self) -> tuple[Item, ...]:
        """The whole transcript, however long the run.

        Raises:
            ContentUnavailable: large content is in a store that cannot be read.
        """
        return self._definitions.content.whole_items(self._state.items)

    @property
    def usage(self) -> Usage:
        """Requests and tokens used by the run, including nested runs."""
        state = self._state
        return Usage.of(state.usage, [response.usage for response in state.responses])

    @property
    def cost(self) -> Cost:
        """The cost of the run so far: of all its questions, and of nested runs that have ended.

        The worker that makes a model call prices it, so every process reads the same cost.
        """
        return Cost.of_state(self.snapshot)

    @property
    def turns(self) -> int:
        """The number of model calls."""
        return self._state.turns

    @property
    def agent_tool_invocation(self) -> AgentToolInvocation | None:
        """The call of an agent tool that a nested run answers; None for other runs."""
        setting: Any = (self._state.start.settings or {}).get(SETTING_AS_TOOL)
        if not isinstance(setting, dict):
            return None
        call = cast("JsonObject", setting)
        return AgentToolInvocation(
            tool_name=str(call.get("tool", "")),
            tool_call_id=str(call.get("call_id", "")),
            tool_arguments=str(call.get("arguments", "")),
        )

    @property
    def context(self) -> Json:
        """The application's context as JSON."""
        return self._state.context

    def context_as(self, context_type: type) -> Any:
        """Return the context as the application's type.

        Raises:
            UserError: the context does not fit the type.
        """
        is_own = has_name(context_type, self._state.start.context_type or "")
        return read_context(self.context, context_type, is_own=is_own)

    @cached_property
    def input(self) -> str | list[JsonObject]:
        """The input of the run: a text, or items; after a handoff's filter, the rest."""
        raws = self._input_items()
        is_list = self._definitions.input_is_list or self._state.start.session
        text = None if is_list else only_text(raws)
        return deepcopy(raws) if text is None else text

    @cached_property
    def new_items(self) -> list[RunItem]:
        """The items that the run added to its input, and its approval requests."""
        start, stop = self._span()
        requests: dict[int, list[Interruption]] = {}
        for approval in self._approvals:
            place = None if approval.run_id else place_of_call(approval.request, self._state.items)
            if place is not None and start <= place < stop:
                requests.setdefault(self._end_of_reply(place), []).append(approval)
        found: list[RunItem] = []
        for at in in_order(self._state, range(start, stop)):
            if at in self._own:
                found.append(self._own[at])
            found.extend(requests.get(at, ()))
        return found

    @property
    def all_items(self) -> list[RunItem]:
        """The input as items, and the items that the run added; `items` is the raw transcript."""
        given = [InputItem(agent=None, raw_item=raw) for raw in deepcopy(self._input_items())]
        passed_on = {id(self._own[at]) for at in self._passed_on() & self._own.keys()}
        return [*given, *(one for one in self.new_items if id(one) not in passed_on)]

    @cached_property
    def raw_responses(self) -> list[ModelResponse]:
        """The models' responses, one for each model call."""
        start, stop = self._span()
        items = self._state.items
        until = None if self._answer is None else last_turn(items[:stop])
        return run_responses(self._with_content, after=last_turn(items[:start]), until=until)

    @property
    def last_response_id(self) -> str | None:
        """The provider's id of the newest response, if any."""
        return self.raw_responses[-1].response_id if self.raw_responses else None

    @property
    def final_output(self) -> Any:
        """The answer in the agent's output type; None if there is none.

        If this process does not have the agent, the answer's JSON.

        Raises:
            UserError: the answer does not fit the agent's output type.
        """
        return self._final_output

    @final_output.setter
    def final_output(self, value: Any) -> None:
        """Show another answer in this object, as in the SDK; the run keeps its own."""
        self._final_output = value

    @cached_property
    def _final_output(self) -> Any:
        state, answer = self._state, self._answer
        if answer is None:
            answer = None if state.question.answering else newest_answer(state)
        if answer is None or answer.failure is not None:
            return None
        schema = self._definitions.output_schema(answer.agent)
        if answer is not newest_answer(state):
            text = None
            if answer.item is not None:
                text = text_of(self._definitions.content.whole_item(state.items[answer.item]).raw)
            return text if text is None or schema is None else schema.validate_json(text)
        if state.final_output is None:
            return None
        output = self._definitions.content.whole(state.final_output)
        try:
            return read_output(schema, output)
        except UserError:
            if answer.item is None:  # a tool's output need not have the type
                return output
            raise

    @property
    def is_cut_short(self) -> bool:
        """Whether the answer ends early, because a limit of tokens cut it off."""
        state, answer = self._state, self._answer
        if answer is None and not state.question.answering:
            answer = newest_answer(state)
        at = None if answer is None else answer.item
        return at is not None and is_cut_short(state.items[at].raw)

    @overload
    def final_output_as(self, cls: type[T], raise_if_incorrect_type: bool = False) -> T: ...  # noqa: FBT001, FBT002  the SDK's

    @overload
    def final_output_as(self, cls: Any, raise_if_incorrect_type: bool = False) -> Any: ...  # noqa: FBT001, FBT002  the SDK's

    def final_output_as(self, cls: Any, raise_if_incorrect_type: bool = False) -> Any:  # noqa: FBT001, FBT002  the SDK's
        """Return the answer, typed for a type checker.

        Args:
            cls: the type.
            raise_if_incorrect_type: check the type.

        Raises:
            TypeError: the answer has another type, and `raise_if_incorrect_type` is set.
        """
        return output_as(self.final_output, cls, must_fit=raise_if_incorrect_type)

    @property
    def last_agent(self) -> Any:
        """The agent that answered or is active; a `RemoteAgent` if not defined here."""
        name = self._state.agent if self._answer is None else self._answer.agent
        return self._definitions.agent(name)

    @property
    def _last_agent(self) -> Any:
        """The SDK's field behind `last_agent`, which programs read."""
        return self.last_agent

    @cached_property
    def context_wrapper(self) -> RunContextWrapper[Any]:
        """The run's context, in its original type, and its usage."""
        wrapper = RunContextWrapper(
            self._definitions.context(self.context),
            usage=self.usage,
            run_id=self.run_id,
            turn=self._state.question.turn,
        )
        wrapper.decisions = self._decisions
        return wrapper

    @property
    def pending_waits(self) -> tuple[PendingWait, ...]:
        """The calls that wait for something outside of the run; of nested runs, see their own."""
        return () if self._answer is not None else pending_waits(self._state)

    @cached_property
    def interruptions(self) -> list[Interruption]:
        """The pending approval requests, here and in nested runs."""
        if self._answer is not None:
            return []
        pending = {(approval.run_id, approval.id): approval for approval in self._approvals}
        return [pending[request.run_id, request.id] for request in pending_in_order(self._state)]

    @cached_property
    def input_guardrail_results(self) -> list[InputGuardrailResult]:
        """The results of input guardrails, in the order in which they completed."""
        return guardrail_results(self._state, "input", self._definitions)

    @cached_property
    def output_guardrail_results(self) -> list[OutputGuardrailResult]:
        """The results of output guardrails, in the order in which they completed."""
        return guardrail_results(self._state, "output", self._definitions)

    @cached_property
    def tool_input_guardrail_results(self) -> list[ToolInputGuardrailResult]:
        """The results of tool input guardrails."""
        return guardrail_results(self._state, "tool_input", self._definitions)

    @cached_property
    def tool_output_guardrail_results(self) -> list[ToolOutputGuardrailResult]:
        """The results of tool output guardrails."""
        return guardrail_results(self._state, "tool_output", self._definitions)

    def to_input_list(self, mode: ToInputListMode = "preserve_all") -> list[JsonObject]:
        """Return the conversation as input items, to start another run from.

        Args:
            mode: `preserve_all` for the input and every new item; `normalized` for the model's next
                input. They differ after a handoff whose filter changed the history.

        Raises:
            UserError: there is no such mode.
            ContentUnavailable: this process lacks the store of large content, or cannot read it.
        """
        check_choice("to_input_list(mode=...)", mode, ToInputListMode)
        state = self._state
        content = self._definitions.content
        if not content.has_store and any(has_references(item.raw) for item in state.items):
            raise ContentUnavailable(
                f"Large content of the run {self.run_id} is in a blob store, and this process has "
                "none. Set the workers' store here, too: blob_store=, or OUTLAST_BLOB_STORE."
            )
        if mode == "normalized":
            model_sees = content.whole_items(shown(state.view, state.items, len(state.items)))
            raws = [in_written_order(as_input(item.raw)) for item in model_sees]
            return deepcopy(list(without_reasoning_ids(raws, self._policy())))
        passed_on = {id(self._own[at]) for at in self._passed_on() & self._own.keys()}
        kept = [one for one in self.new_items if not _is_request(one) and id(one) not in passed_on]
        new = [one.to_input_item() for one in kept]
        return [*deepcopy(self._input_items()), *without_reasoning_ids(new, self._policy())]

    def to_state(self) -> RunState:
        """Return the waiting run as a state, to decide and resume; see `RunState`."""
        state = self._waiting_state()
        state.copy_decisions(self._decisions.waiting)
        return state

    @cached_property
    def _decisions(self) -> ResultDecisions:
        return ResultDecisions(self._waiting_state(), self._state)

    def _waiting_state(self) -> RunState:
        return RunState(
            run_id=self.run_id,
            agent=self._state.agent,
            interruptions=self.interruptions,
            definitions=self._definitions,
            client=self._client,
            snapshot=self.snapshot if self._client is None else None,
            first_execution_id=self._state.start.chain_id,
        )

    @cached_property
    def _approvals(self) -> list[Interruption]:
        """All approval requests; the same objects wherever they are shown."""
        nested = [request for request in self._state.pending_approvals if request.run_id]
        items = self._with_content.items
        return [
            interruption(request, items, self._definitions)
            for request in (*self._state.approvals, *nested)
        ]

    def _attributed_item(self, at: int) -> Item:
        """Return a transcript item; input items belong to the agent that received them."""
        item = self._with_content.items[at]
        if item.kind != "input" or item.agent:
            return item
        later = (one.agent for one in self._state.items[at:] if one.agent)
        return replace(item, agent=next(later, self._state.agent))

    def _forget(self) -> None:
        for name in _MADE & vars(self).keys():
            delattr(self, name)

    @cached_property
    def _with_content(self) -> LoopState:
        """The state, with the content of the question's own items."""
        state = self._state
        start, stop = self._span()
        own = state.items[start:stop]
        new = self._definitions.content.whole_items(own)
        if all(before is other for before, other in zip(own, new, strict=True)):
            return state
        return replace(state, items=(*state.items[:start], *new, *state.items[stop:]))

    def _input_items(self) -> list[JsonObject]:
        stored = self._definitions.content.whole_raws(self._stored_input())
        return [in_written_order(raw) for raw in stored]

    def _stored_input(self) -> list[JsonObject]:
        state = self._state
        if self._answer is not None:
            return [item.raw for item in state.items[: self._span()[0]]]
        if not _has_begun(state):
            raws = [raw for message in state.inbox for raw in message.content]
            return raws or [item.raw for item in state.items]
        everything = shown(state.view, state.items, len(state.items))
        return [item.raw for item in everything[: state.view.history]]

    def _span(self) -> tuple[int, int]:
        """Return where the items of the question begin and end."""
        state = self._state
        if self._answer is None:
            return state.question.replies_from if _has_begun(state) else len(state.items), len(
                state.items
            )
        ends = [0 if answer.item is None else answer.item + 1 for answer in state.answers]
        at = state.answers.index(self._answer)
        start, stop = max(ends[:at], default=0), max(ends[: at + 1])
        while start < stop and state.items[start].kind in {"history", "input"}:
            start += 1
        return start, stop

    @cached_property
    def _own(self) -> dict[int, RunItem]:
        hidden = set(self._state.hidden)
        return {
            at: self._definitions.run_item(self._attributed_item(at))
            for at in range(*self._span())
            if at not in hidden
        }

    def _passed_on(self) -> set[int]:
        """Return the indices of items that a handoff made part of the input only."""
        state = self._state
        if self._answer is not None or not _has_begun(state):
            return set()
        view, length = state.view, len(state.items)
        in_input = places_in_transcript(view, length, range(view.history))
        shown_after = range(view.history, size(view, length))
        return {*in_input} - {*places_in_transcript(view, length, shown_after)}

    def _end_of_reply(self, place: int) -> int:
        items = self._state.items
        turn = items[place].turn
        while place + 1 < len(items):
            following = items[place + 1]
            if following.turn != turn or following.kind in OUTPUT_KINDS:
                break
            place += 1
        return place

    def _policy(self) -> Any:
        return (self._state.start.settings or {}).get("reasoning_item_id_policy")


_MADE = {
    name for name, member in vars(RunResultBase).items() if isinstance(member, cached_property)
}


def newest_answer(state: LoopState) -> Answer | None:
    """Return the newest answer of a run, or None."""
    return state.answers[-1] if state.answers else None


def _has_begun(state: LoopState) -> bool:
    """Whether the first turn has begun; before it, the input is not in the transcript."""
    return state.question.replies_from > 0 or state.turns > 0


def _is_request(item: RunItem) -> bool:
    return isinstance(item, ToolApprovalItem)
