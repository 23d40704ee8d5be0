"""One row for each kind of effect: everything that the shell needs to know about it.

The workflow, its clients, the activities and runs in memory all read `KINDS`: names, bounds,
requests, results, failures and labels. `CONTRIBUTING.md` shows how to add an effect.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from outlast.contract import failures, names, policies
from outlast.contract.failures import EngineFailure
from outlast.edges.rendering import call_line, joined
from outlast.loop import effects, phrases
from outlast.loop.calls import ExecutionOptions
from outlast.loop.effects import Effect
from outlast.loop.items import Item
from outlast.loop.state import LoopState, items_of, items_to_save, items_to_summarise, redacted_in
from outlast.loop.values import Failure

E_co = TypeVar("E_co", covariant=True)

INLINE_ITEMS: Final = 12
"""The request of a model call with more items is not measured but passed by claim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hidden:
    """What a run hides from people, for the spans of an effect.

    Attributes:
        values: the texts of the values, of the run itself, its parent and its nested runs.
        arguments: the redacted arguments of its calls: the agent, the tool, and their names.
    """

    values: tuple[str, ...] = ()
    arguments: tuple[tuple[str, str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class EffectRequest(Generic[E_co]):
    """An activity's argument: an effect, and the transcript items that it covers.

    `hidden` is what its spans leave out, None where nothing is hidden. It grows while people are
    asked, and changes nothing that the activity does.
    """

    effect: E_co
    items: tuple[Item, ...] = ()
    hidden: Hidden | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectKind:
    """The shell's description of one kind of effect.

    Attributes:
        effect: the class of the command.
        activity: the activity type; a type that ends with a colon is followed by the effect's name.
        function: the function that carries the effect out, as `module:function`.
        label: the effect's name in messages about its failure.
        failure_code: the default code of a failure.
        timeout_code: the code of a time-out, if it differs.
        line: one line that describes the effect, for the timeline of the Temporal UI.
        policy: time-outs and retries.
        wait_for_worker_ms: how long the effect waits for a worker that can carry it out.
        heartbeat_ms: how long its worker may miss heartbeats, where the run does not say.
        items: the transcript items that the effect covers; None if it covers none.
        inline: whether that many items may be written into history with the request.
    """

    effect: type[Any]
    activity: str
    function: str
    label: Callable[[Any], str]
    failure_code: str
    timeout_code: str | None = None
    line: Callable[[LoopState, Any], str]
    policy: Callable[[Any], ExecutionOptions]
    wait_for_worker_ms: int = policies.WAIT_FOR_A_WORKER_MS
    heartbeat_ms: int = policies.HEARTBEAT_MS
    items: Callable[[LoopState, Any], tuple[Item, ...]] | None = None
    inline: Callable[[Any], bool] = lambda effect: True


def _prepare_policy(effect: effects.PrepareRun) -> ExecutionOptions:
    slow = {names.SETTING_SESSION, names.SETTING_AS_TOOL, names.SETTING_RUN_START}
    return policies.LOAD if slow & (effect.settings or {}).keys() else policies.PREPARE


def _model_line(state: LoopState, effect: effects.CallModel) -> str:
    model = f" · {state.model}" if state.model else ""
    origin = f" · handoff from {state.handoff_path[-2]}" if _took_over(state, effect) else ""
    waits = "" if effect.begun is None else " · in the background"
    tried = "; ".join(one.line for one in effect.tried)
    instead = f" · in place of {tried}" if tried else ""
    return joined(effect.agent, model, f" · turn {effect.turn}", origin, waits, instead)


def _took_over(state: LoopState, effect: effects.CallModel) -> bool:
    """Whether a model call follows a handoff to its agent; a rejected one led to no agent."""
    if effect.turn != state.question.turn or len(state.handoff_path) < 2 or not state.items:
        return False
    last = state.items[-1]
    done = phrases.handed_over(effect.agent)
    took_over = last.target == effect.agent or last.raw.get("output") == done
    return last.kind == "handoff_output" and took_over


def _notice_line(_state: LoopState, effect: effects.NotifyPeople) -> str:
    told = (
        f"{one.event} {one.request.id if one.request else ''}".strip() for one in effect.notices
    )
    return joined("notify people: ", ", ".join(told))


def _hours_line(_state: LoopState, effect: effects.CountHours) -> str:
    asked = [*effect.requests, *([effect.reply] if effect.reply is not None else [])]
    within = dict.fromkeys(one.within for one in asked)
    return joined("count the hours of ", ", ".join(within))


def _never_inline(effect: Any) -> bool:
    del effect
    return False


ROWS: Final = (
    EffectKind(
        effect=effects.PrepareRun,
        activity=names.ACTIVITY_PREPARE,
        function="outlast.activities.effects.prepare_run:prepare_run",
        label=lambda effect: f"The start of {effect.agent}",
        failure_code=failures.USER_ERROR,
        line=lambda _, effect: joined(effect.agent, " · look up"),
        policy=_prepare_policy,
    ),
    EffectKind(
        effect=effects.CheckInput,
        activity=names.ACTIVITY_CHECK,
        function="outlast.activities.effects.check_input:check_input",
        label=lambda effect: f"An input guardrail of {effect.agent}",
        failure_code=failures.USER_ERROR,
        line=lambda _, effect: joined(effect.agent, " · input guardrails"),
        policy=lambda _: policies.CHECK,
    ),
    EffectKind(
        effect=effects.CallModel,
        activity=names.ACTIVITY_MODEL,
        function="outlast.activities.effects.call_model:call_model",
        label=lambda effect: f"The model call of {effect.agent}",
        failure_code=failures.MODEL_CALL_FAILED,
        line=_model_line,
        policy=lambda effect: policies.MODEL if effect.begun is None else policies.BEGUN,
        items=items_of,
        inline=lambda effect: effect.input_length <= INLINE_ITEMS,
    ),
    EffectKind(
        effect=effects.CancelResponse,
        activity=names.ACTIVITY_CANCEL_RESPONSE,
        function="outlast.activities.effects.cancel_response:cancel_response",
        label=lambda effect: f"The cancellation of the response {effect.response_id}",
        failure_code=failures.MODEL_CALL_FAILED,
        line=lambda _, effect: joined("cancel the response ", effect.response_id),
        policy=lambda _: policies.CANCEL_RESPONSE,
    ),
    EffectKind(
        effect=effects.CompactView,
        activity=names.ACTIVITY_COMPACT,
        function="outlast.activities.effects.compact_view:compact_view",
        label=lambda effect: f"The summary for {effect.agent}",
        failure_code=failures.MODEL_CALL_FAILED,
        line=lambda _, effect: joined(effect.agent, f" · summarise {effect.entries} items"),
        policy=lambda _: policies.COMPACT,
        items=items_to_summarise,
        inline=_never_inline,
    ),
    EffectKind(
        effect=effects.RunTool,
        activity=names.TOOL_PREFIX,
        function="outlast.activities.effects.run_tool:run_tool",
        label=lambda effect: f"The tool {effect.name}",
        failure_code=failures.TOOL_FAILED,
        timeout_code=failures.TOOL_TIMEOUT,
        line=lambda _, effect: call_line(effect.name, effect.arguments),
        policy=lambda effect: effect.policy,
        wait_for_worker_ms=policies.WAIT_FOR_A_TOOL_MS,
    ),
    EffectKind(
        effect=effects.CleanUp,
        activity=names.CLEANUP_PREFIX,
        function="outlast.activities.effects.run_tool:clean_up",
        label=lambda effect: f"The clean-up of the tool {effect.name}",
        failure_code=failures.TOOL_FAILED,
        line=lambda _, effect: joined("clean up: ", call_line(effect.name, effect.arguments)),
        policy=lambda effect: effect.policy,
        wait_for_worker_ms=policies.WAIT_FOR_A_TOOL_MS,
    ),
    EffectKind(
        effect=effects.RunAgent,
        activity=names.WORKFLOW,  # a nested run
        function="",
        label=lambda effect: f"The tool {effect.name}",
        failure_code=failures.TOOL_FAILED,
        line=lambda _, effect: call_line(effect.name, effect.arguments),
        policy=lambda _: policies.NESTED,
    ),
    EffectKind(
        effect=effects.RunHandoff,
        activity=names.HANDOFF_PREFIX,
        function="outlast.activities.effects.run_handoff:run_handoff",
        label=lambda effect: f"The callback of the handoff {effect.name}",
        failure_code=failures.USER_ERROR,
        line=lambda _, effect: joined(effect.agent, " → ", effect.target),
        policy=lambda effect: effect.policy,
        items=lambda state, effect: () if effect.input_length is None else items_of(state, effect),
        inline=lambda effect: effect.input_length is None,
    ),
    EffectKind(
        effect=effects.FinalizeAnswer,
        activity=names.ACTIVITY_FINALIZE,
        function="outlast.activities.effects.finalize_answer:finalize_answer",
        label=lambda effect: f"The end of {effect.agent}'s answer",
        failure_code=failures.USER_ERROR,
        line=lambda _, effect: joined(effect.agent, " · finalize the answer"),
        policy=lambda _: policies.CHECK,
        items=items_of,
        inline=_never_inline,
    ),
    EffectKind(
        effect=effects.SaveSession,
        activity=names.ACTIVITY_SAVE,
        function="outlast.activities.effects.save_session:save_session",
        label=lambda _: "Saving the session",
        failure_code=failures.SESSION_FAILED,
        line=lambda _, effect: f"save items {effect.start} to {effect.stop}",
        policy=lambda _: policies.SAVE,
        items=items_to_save,
        inline=_never_inline,
    ),
    EffectKind(
        effect=effects.OffloadItems,
        activity=names.ACTIVITY_OFFLOAD,
        function="outlast.activities.effects.offload_items:offload_items",
        label=lambda _: "Storing content outside of the run",
        failure_code=failures.CONTENT_UNAVAILABLE,
        line=lambda _, effect: f"store the content of items {effect.start} to {effect.stop}",
        policy=lambda _: policies.OFFLOAD,
        items=lambda state, effect: state.items[effect.start : effect.stop],
        inline=_never_inline,
    ),
    EffectKind(
        effect=effects.KeepLineOpen,
        activity=names.ACTIVITY_LINE,
        function="outlast.realtime.keep_line_open:keep_line_open",
        label=lambda effect: f"The line {effect.line}",
        failure_code=failures.MODEL_CALL_FAILED,
        line=lambda _, effect: joined("On the line: ", effect.label or effect.line),
        policy=lambda _: policies.LINE,
        heartbeat_ms=policies.LINE_HEARTBEAT_MS,
    ),
    EffectKind(
        effect=effects.NotifyPeople,
        activity=names.ACTIVITY_NOTIFY,
        function="outlast.activities.effects.notify_people:notify_people",
        label=lambda _: "The notification of people",
        failure_code=failures.INTERNAL,
        line=_notice_line,
        policy=lambda _: policies.NOTIFY,
    ),
    EffectKind(
        effect=effects.CountHours,
        activity=names.ACTIVITY_HOURS,
        function="outlast.activities.effects.count_hours:count_hours",
        label=lambda _: "The count of a calendar's hours",
        failure_code=failures.USER_ERROR,
        line=_hours_line,
        policy=lambda _: policies.HOURS,
    ),
)

KINDS: Final = {row.effect: row for row in ROWS}
_BY_ACTIVITY: Final = {row.activity: row for row in ROWS}


def kind_of(effect: Effect) -> EffectKind:
    """Return the row of an effect's kind."""
    return KINDS[type(effect)]


def kind_of_activity(activity: str) -> EffectKind | None:
    """Return the row with an activity type, or None if no effect uses it."""
    prefix, colon, _ = activity.partition(":")
    return _BY_ACTIVITY.get(prefix + colon)


def activity_type(effect: Effect) -> str:
    """Return the activity type of an effect; every tool and handoff has its own."""
    activity = kind_of(effect).activity
    named = isinstance(effect, effects.RunTool | effects.RunHandoff)
    return activity + effect.name if named else activity


def request_of(state: LoopState, effect: Effect) -> EffectRequest[Effect]:
    """Return the request of an effect: always the same, but for what the run hides by now."""
    items = kind_of(effect).items
    return EffectRequest(
        effect=effect,
        items=items(state, effect) if items is not None else (),
        hidden=hidden_by(state),
    )


def hidden_by(state: LoopState) -> Hidden | None:
    """Return what a run hides from people; None for nothing."""
    redacting = [one for one in state.approvals if one.terms.redact]
    if not redacting and not state.redacted:
        return None
    arguments = dict.fromkeys((one.agent, one.name, one.terms.redact) for one in redacting)
    return Hidden(
        values=tuple(dict.fromkeys(one.text for one in redacted_in(state))),
        arguments=tuple(arguments),
    )


def payload_of(request: EffectRequest[Effect]) -> EffectRequest[Effect] | Effect:
    """Return the payload of a request: the request, or its effect alone if there is no more."""
    return request if request.items or request.hidden is not None else request.effect


def failure_of(effect: Effect, engine: EngineFailure) -> Failure:
    """Return the failure that an activity's failure means to the run."""
    kind = kind_of(effect)
    label = kind.label(effect)
    if engine.kind == "cancelled":
        return Failure(code=failures.CANCELLED, message=f"{label} was cancelled.")
    if engine.kind == "timeout":
        return Failure(
            code=kind.timeout_code or kind.failure_code,
            message=f"{label} did not finish in time, on any attempt. Is a worker running, and is "
            "its time-out long enough?",
        )
    code = engine.code if engine.kind == "application" and engine.code else kind.failure_code
    if code == failures.WORKER_LACKS:
        code = failures.USER_ERROR
    return Failure(code=code, message=engine.message or f"{label} failed.", details=engine.details)
