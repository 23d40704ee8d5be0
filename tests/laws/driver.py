"""A shell for the loop without an engine: it keeps what the loop asked for, and tests answer it.

Owns: `Play`, which takes events into a run and checks after every one of them what has to hold of
every step, and short ways to write replies down. Must not know: what a particular run should do.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self, TypeVar

from outlast.contract.blobs import encode, is_plain
from outlast.contract.effects import EffectRequest
from outlast.contract.stages import Stage, StageChange, advanced
from outlast.loop.actions import (
    CancelMode,
    CaseAction,
    CaseDeed,
    ClaimAction,
    HoldAction,
    HoldMode,
    ReleaseAction,
    SayAction,
)
from outlast.loop.approvals import ApprovalRequest, ApprovalTerms, Decision, DecisionType
from outlast.loop.calls import (
    AgentResult,
    BegunResponse,
    HandoffResult,
    ModelReply,
    OutsideWait,
    PlannedCall,
    PreparedRun,
    RequiredApproval,
    ToolResult,
)
from outlast.loop.changes import Change
from outlast.loop.checks import CheckResult, FinalizedAnswer, RequiredStep
from outlast.loop.effect_results import RESPONSE_NOT_FOUND
from outlast.loop.effects import (
    CallModel,
    CancelEffect,
    CheckInput,
    Command,
    CountHours,
    Effect,
    EffectAnswered,
    EffectFailed,
    FinalizeAnswer,
    Finish,
    KeepLineOpen,
    LendBudget,
    NotifyAfterEnd,
    NotifyParent,
    NotifyPeople,
    OffloadItems,
    PrepareRun,
    ReportToTeam,
    RunAgent,
    RunHandoff,
    RunTool,
    SaveSession,
)
from outlast.loop.events import (
    BudgetLent,
    CancelRequested,
    ConversationRated,
    EffectBlocked,
    Event,
    LineAttached,
    LineReplied,
    MessageReceived,
    MessageWithdrawn,
    NestedReported,
    PersonActed,
    RetryRequested,
    RunEnded,
    RunForked,
    RunStarted,
    SignalUnreadable,
    TeamAnswered,
    TimePassed,
    ValueDelivered,
)
from outlast.loop.invariants import check, violations
from outlast.loop.items import Item, Message, SendMode
from outlast.loop.machine import advance
from outlast.loop.notices import ALL_DELIVERED
from outlast.loop.open_hours import (
    CountedHours,
    CountedReply,
    Durations,
    Hours,
    HoursCounted,
    HoursOfReply,
)
from outlast.loop.problems import judged_at_ms
from outlast.loop.revision import revised
from outlast.loop.start import Start
from outlast.loop.state import LoopState
from outlast.loop.stored import OFFLOAD_ABOVE, Moved, Offload, long_texts
from outlast.loop.values import Failure, Json, JsonObject
from tests.laws.background_laws import check_background
from tests.laws.compaction_laws import check_compaction
from tests.laws.fallback_laws import check_fallback, follows
from tests.laws.people_laws import PeopleLaws, at_time_of
from tests.laws.step_laws import (
    StageLaws,
    check_approvals,
    check_calls,
    check_items,
    check_messages,
    check_nothing_happened,
    check_notices,
    check_readers,
    check_reports,
    check_requests,
    check_saves,
    check_storage,
    check_tool_users,
    check_unchecked,
    check_view,
    is_due,
    is_inert,
    was_taken,
)
from tests.laws.team_laws import TeamLaws
from tests.laws.wait_laws import WaitLaws

E = TypeVar("E", bound=Effect)

STARTED_AT_MS = 1_000_000

Part = tuple[JsonObject, dict[str, Any] | None]
"""One item of a reply, and the plan's entry for it when it is a call."""

# --- Writing replies down ------------------------------------------------------------------------


def said(text: str) -> Part:
    """A message of the model."""
    content = [{"type": "output_text", "text": text}]
    return {"type": "message", "role": "assistant", "content": content}, None


def refused(text: str) -> Part:
    """A message in which the model refuses."""
    content = [{"type": "refusal", "refusal": text}]
    return {"type": "message", "role": "assistant", "content": content}, None


def thought() -> Part:
    """A reasoning item."""
    return {"type": "reasoning", "summary": []}, None


def searched() -> Part:
    """Something that the provider did on its own."""
    return {"type": "web_search_call", "id": "ws1"}, None


def tool(name: str, call_id: str, arguments: str = "{}", **plan: Any) -> Part:
    """A call of a tool."""
    raw = {"type": "function_call", "name": name, "call_id": call_id, "arguments": arguments}
    return raw, {"kind": "tool", **plan}


def patch(call_id: str, **plan: Any) -> Part:
    """A call in a form of its own: to change a file."""
    operation = {"type": "delete_file", "path": "a"}
    return {"type": "apply_patch_call", "call_id": call_id, "operation": operation}, {
        "kind": "tool",
        **plan,
    }


def hosted(name: str, request_id: str, **plan: Any) -> Part:
    """A provider's request to call a tool of an MCP server."""
    head = {"type": "mcp_approval_request", "id": request_id, "server_label": "crm"}
    return {**head, "name": name, "arguments": "{}"}, {"kind": "tool", **plan}


def gated(name: str, call_id: str, arguments: str = "{}", **plan: Any) -> Part:
    """A call of a tool that a person has to approve."""
    return tool(name, call_id, arguments, needs_approval=True, **plan)


def nested(target: str, call_id: str, **plan: Any) -> Part:
    """A call of an agent that works as a tool."""
    raw, _ = tool(f"ask_{target.lower()}", call_id)
    return raw, {"kind": "agent", "target": target, **plan}


def transfer(target: str, call_id: str, **plan: Any) -> Part:
    """A handoff to an agent."""
    raw, _ = tool(f"transfer_to_{target.lower()}", call_id)
    return raw, {"kind": "handoff", "target": target, "target_model": f"model-{target}", **plan}


def unknown(name: str, call_id: str, problem: str = "There is no such tool.") -> Part:
    """A call of something that nobody offers."""
    raw, _ = tool(name, call_id)
    return raw, {"kind": "unknown", "problem": problem}


def with_approval(plan: JsonObject) -> JsonObject:
    """Return a plan whose fields of an approval, such as `terms`, are in one; see `gated`."""
    rest = {name: value for name, value in plan.items() if name not in APPROVAL_FIELDS}
    if not rest.pop("needs_approval", False):
        return rest
    asked = {name: value for name, value in plan.items() if name in APPROVAL_FIELDS}
    return {**rest, "approval": RequiredApproval(**asked, source=rest.get("source", ""))}


APPROVAL_FIELDS = ("reason", "terms", "schema", "tool_digest")


def reply_of(*parts: Part, **fields: Any) -> ModelReply:
    """A model's reply with these items, in this order."""
    calls = tuple(
        PlannedCall(item=at, **with_approval(plan))
        for at, (_, plan) in enumerate(parts)
        if plan is not None
    )
    return ModelReply(items=tuple(raw for raw, _ in parts), calls=calls, **fields)


def message(message_id: str, text: str = "", at_ms: int = 0) -> Message:
    """What a person said."""
    content = ({"role": "user", "content": text or f"text of {message_id}"},)
    return Message(message_id, content, at_ms)


SITUATIONS = (
    "preparing",
    "thinking",
    "running",
    "waiting",
    "mixed",
    "held",
    "transferring",
    "idle",
    "checking",
    "held up",
    "finalizing",
    "nested",
    "saving",
)
"""Every place a run can be in while it is open; see `play_in`."""

BUSY = tuple(name for name in SITUATIONS if name != "idle")


def play_in(situation: str, **start: Any) -> "Play":
    """Return a run that got as far as one of `SITUATIONS`.

    `running` has two tools running (c1, c2), `waiting` one approval (a1 for c1), `mixed` one of
    each (c1 runs, a1 for c2), `held` a tool (c1) that a handoff to Billing (h1) waits for, and
    `transferring` the callback of that handoff; `idle` needs `keep_open`. `checking` runs input
    guardrails before the first model call, `held up` beside it; `finalizing` has an answer that
    is not given yet, `nested` an agent that works as a tool (c1), `saving` a session.
    """
    if situation == "preparing":
        return Play(**start)
    play = Play(session=situation == "saving", **start)
    play.prepared(required_steps=DUTIES_OF_SITUATION.get(situation, ()))
    if situation == "finalizing":
        play.replies(said("Hello to you."), required_steps=("finalize_answer",))
    if situation in REPLY_OF_SITUATION:
        play.replies(*REPLY_OF_SITUATION[situation])
    return play


def everything_stored(
    effect: OffloadItems, state: LoopState, at_ms: int
) -> EffectAnswered[Offload]:
    """The event that all content of a range is stored outside now."""
    key = "sha256:" + "0" * 64
    moved = [
        Moved(at, path, len(encode(text)), 0)
        for at in range(effect.start, effect.stop)
        for path, text in long_texts(state.items[at].raw, 1)
        if path[-1] in {"content", "output"}
    ]
    result = Offload(keys=(key,), moved=tuple(moved))
    return EffectAnswered(at_ms=at_ms, effect=effect.effect, result=result)


WITHIN = ApprovalTerms(
    remind_every_ms=3_600_000,
    hours=Hours(
        within="support-hours",
        open=Durations(expires_in_ms=4 * 3_600_000, remind_in_ms=3_600_000),
    ),
)
"""Terms whose times count the hours of a calendar, which nobody has counted yet."""


def clock_of(effect: CountHours, factor: int = 3) -> HoursCounted:
    """Return what a calendar of short days makes of durations."""
    return HoursCounted(
        requests=tuple(
            CountedHours(
                request_id=one.request_id,
                clock=Durations(
                    expires_in_ms=one.open.expires_in_ms and one.open.expires_in_ms * factor,
                    escalations_ms=tuple(ms * factor for ms in one.open.escalations_ms),
                    remind_in_ms=one.open.remind_in_ms
                    and one.open.remind_in_ms * factor * (one.reminders + 1),
                ),
                from_ms=one.from_ms,
                reminders=one.reminders,
            )
            for one in effect.requests
        ),
        reply=None if effect.reply is None else reply_of_calendar(effect.reply, factor),
    )


def reply_of_calendar(asked: HoursOfReply, factor: int = 3) -> CountedReply:
    """Return what that calendar makes of a reply: people are back half way to its time."""
    due_ms = asked.since_ms + asked.lasts_ms * factor
    return CountedReply(
        since_ms=asked.since_ms,
        due_ms=due_ms,
        warn_ms=None if asked.warn_ms is None else max(due_ms - asked.warn_ms, asked.since_ms),
        away=asked.away,
        back_ms=(asked.since_ms + due_ms) // 2 if asked.away else None,
    )


def play_with_everything() -> "Play":
    """Return a run that asked for one effect of every kind at least."""
    play = Play(session=True, said=message("start", "x" * (OFFLOAD_ABOVE + 1)))
    play.prepared(required_steps=("check",), stores=True, notifies=True)
    play.offloaded()
    play.checked()
    play.saved()
    play.replies(tool("look_up", "c0"))
    play.parks("c0", cleanup=True)
    play.hears("m2", mode="interrupt")
    play.returns("c0")
    calls = tool("look_up", "c1"), nested("Orders", "c2"), transfer("Billing", "h1", callback=True)
    play.replies(*calls, compaction="beside")
    play.returns("c1")
    play.worked(final_output="shipped")
    play.called_back()
    play.attached()
    play.holds()
    play.notified()
    play.releases()
    play.notified()
    play.replies(begun=BegunResponse(response_id="resp_1", number=1))
    play.hears("m3", mode="interrupt")
    play.replies(gated("look_up", "c3", terms=WITHIN))
    play.notified()
    play.counted()
    play.decided("a1")
    play.notified()
    play.returns("c3")
    play.replies(said("Done."), required_steps=("finalize_answer",))
    return play


REPLY_OF_SITUATION: dict[str, tuple[Part, ...]] = {
    "running": (tool("look_up", "c1"), tool("count", "c2")),
    "waiting": (gated("refund", "c1"),),
    "mixed": (tool("look_up", "c1"), gated("refund", "c2")),
    "held": (transfer("Billing", "h1"), tool("look_up", "c1")),
    "transferring": (transfer("Billing", "h1", callback=True),),
    "idle": (said("Hello to you."),),
    "nested": (nested("Billing", "c1"),),
}
DUTIES_OF_SITUATION: dict[str, tuple[RequiredStep, ...]] = {
    "checking": ("check_first",),
    "held up": ("check",),
}


# --- Playing a run -------------------------------------------------------------------------------


class Play:
    """A run and the shell around it.

    Attributes:
        state: where the run is.
        passed_ms: how much time has passed besides the events.
        events: everything that happened, oldest first.
        commands: everything the loop asked for, oldest first.
        outstanding: effects asked for and neither answered nor stopped, by number.
        accepted: messages that reached the run, in order of arrival, each once.
        opened: what the worker knew of the starting agent.
        requests: what each effect asked when it was issued, by number.
        stored: items whose content is stored outside of the run, as they were, by index.
        stages: what is under way.
        changes: what of the run began and ended, oldest first.
    """

    run_id = "support-42"

    def __init__(
        self,
        *,
        agent: str = "Triage",
        said: Message | None = None,
        silent: bool = False,
        context: Json = None,
        max_turns: int | None = 10,
        keep_open: bool = False,
        **fields: Any,
    ) -> None:
        self.state = LoopState()
        self.passed_ms = 0
        self.events: list[Event] = []
        self.commands: list[Command] = []
        self.outstanding: dict[int, Effect] = {}
        self.accepted: list[Message] = []
        self.heard_before: list[Message] = []
        self.timed = LoopState()
        self.opened: PreparedRun | None = None
        self.requests: dict[int, EffectRequest[Any]] = {}
        self.stored: dict[int, Item] = {}
        self.stages: tuple[Stage, ...] = ()
        self.changes: list[StageChange] = []
        self._stage_laws = StageLaws()
        self._people_laws = PeopleLaws()
        self._wait_laws = WaitLaws()
        self.team_laws = TeamLaws()
        self.take(
            RunStarted(
                at_ms=self.now_ms,
                run_id=self.run_id,
                agent=agent,
                message=None if silent else said or message("start", "Hello", self.now_ms),
                context=context,
                thread=fields.pop("thread", None),
                remembered=fields.pop("remembered", ()),
                start=Start(
                    started_at_ms=self.now_ms,
                    max_turns=max_turns,
                    keep_open=keep_open,
                    **fields,
                ),
            )
        )

    @classmethod
    def ready(cls, **start: Any) -> Self:
        """A run whose first model call is out."""
        play = cls(**start)
        play.prepared()
        return play

    @property
    def now_ms(self) -> int:
        """A second later with every event, and after `passes` by as much more."""
        return STARTED_AT_MS + 1_000 * len(self.events) + self.passed_ms

    def take(self, event: Event) -> tuple[Command, ...]:
        """Take an event into the run, and check what has to hold of every step."""
        before = self.before = self.state
        self.heard_before = [*self.accepted]
        inert = bool(self.events) and is_inert(before, self.outstanding, self.accepted, event)
        self.state, commands = advance(before, event)
        self.stages, changes = advanced(self.stages, before, event, self.state)
        self.events.append(event)
        self.changes.extend(changes)
        self.commands.extend(commands)
        due = bool(self.events[:-1]) and is_due(before, event.at_ms)
        counts = event
        if isinstance(event, PersonActed):
            counts = replace(event, at_ms=judged_at_ms(before, event))
        timed = self.timed = at_time_of(before, counts) if due else before
        if was_taken(before, self.state, commands, event) if due else not inert:
            self._book(event)
        for command in commands:
            self._dispatch(command)
        if inert:
            check_nothing_happened(before, self.state, commands, event)
        self._check_step(before, commands)
        self._people_laws.check(before, timed, event, self.state, commands)
        check_compaction(before, event, self.state, commands)
        check_background(before, event, self.state)
        check_fallback(before, event, self.state)
        self._wait_laws.check(before, timed, event, self.state, commands)
        self._stage_laws.check(event, self.state, self.stages, changes)
        self.team_laws.check(before, event, self.state, commands)
        return commands

    # What tests say happened ------------------------------------------------------------------

    def prepared(self, model: str = "", **briefing: Any) -> tuple[Command, ...]:
        """The agent is known."""
        effect = self.only(PrepareRun).effect
        known = PreparedRun(model=model, **briefing)
        return self.take(EffectAnswered(at_ms=self.now_ms, effect=effect, result=known))

    def checked(self, **result: Any) -> tuple[Command, ...]:
        """Input guardrails have run."""
        effect = self.only(CheckInput).effect
        found = CheckResult(**result)
        return self.take(EffectAnswered(at_ms=self.now_ms, effect=effect, result=found))

    def concluded(self, **conclusion: Any) -> tuple[Command, ...]:
        """It is decided what becomes of the answer."""
        effect = self.only(FinalizeAnswer).effect
        made = FinalizedAnswer(**conclusion)
        return self.take(EffectAnswered(at_ms=self.now_ms, effect=effect, result=made))

    def saved(self) -> tuple[Command, ...]:
        """The session has its items."""
        effect = self.only(SaveSession).effect
        return self.take(EffectAnswered(at_ms=self.now_ms, effect=effect, result=None))

    def offloaded(self) -> tuple[Command, ...]:
        """The content of items is stored outside of the run."""
        effect = self.only(OffloadItems)
        return self.take(everything_stored(effect, self.state, self.now_ms))

    def worked(self, **result: Any) -> tuple[Command, ...]:
        """The agent that works as a tool is done."""
        effect = self.only(RunAgent).effect
        done = AgentResult(**result)
        return self.take(EffectAnswered(at_ms=self.now_ms, effect=effect, result=done))

    def reported(
        self, *requests: ApprovalRequest, nested_id: str = "", waits: tuple[str, ...] = ()
    ) -> tuple[Command, ...]:
        """A nested run says what people have to decide there, or what it waits for instead."""
        name = nested_id or self.only(RunAgent).nested_id
        requests = tuple(
            one
            if one.run_id.startswith(name)
            else replace(one, run_id=f"{name}/{one.run_id}".strip("/"))
            for one in requests
        )
        return self.take(
            NestedReported(at_ms=self.now_ms, nested_id=name, requests=requests, waits=waits)
        )

    def replies(self, *parts: Part, **fields: Any) -> tuple[Command, ...]:
        """The model replies."""
        effect = self.only(CallModel).effect
        reply = reply_of(*parts, **fields)
        return self.take(EffectAnswered(at_ms=self.now_ms, effect=effect, result=reply))

    def returns(
        self, call_id: str, output: Json = "ok", *changes: Change, **fields: Any
    ) -> tuple[Command, ...]:
        """A tool returns."""
        effect = self.running(call_id).effect
        result = ToolResult(output=output, changes=changes, **fields)
        return self.take(EffectAnswered(at_ms=self.now_ms, effect=effect, result=result))

    def parks(
        self,
        call_id: str,
        name: str = "courier",
        *changes: Change,
        unproven: str = "",
        **fields: Any,
    ) -> tuple[Command, ...]:
        """A tool begins to wait for something outside of the run."""
        effect = self.running(call_id).effect
        wait = OutsideWait(name=name, **fields)
        result = ToolResult(output=None, wait=wait, changes=changes, unproven=unproven)
        return self.take(EffectAnswered(at_ms=self.now_ms, effect=effect, result=result))

    def delivered(
        self,
        call_id: str,
        value: Json = "picked up",
        name: str = "courier",
        delivery_id: str = "d1",
        **fields: Any,
    ) -> tuple[Command, ...]:
        """A value comes for a call of the present turn, if the test does not say otherwise."""
        address: dict[str, Any] = {
            "question": len(self.state.answers),
            "turn": self.state.question.turn,
            **fields,
        }
        return self.take(
            ValueDelivered(
                at_ms=self.now_ms,
                call_id=call_id,
                name=name,
                value=value,
                delivery_id=delivery_id,
                **address,
            )
        )

    def called_back(self, *changes: Change, **fields: Any) -> tuple[Command, ...]:
        """A handoff's callback has run."""
        effect = self.only(RunHandoff).effect
        result = HandoffResult(changes=changes, **fields)
        return self.take(EffectAnswered(at_ms=self.now_ms, effect=effect, result=result))

    def fails(self, effect: Effect, code: str = "broken", text: str = "It broke.") -> Failure:
        """An effect fails for good. Returns the failure."""
        failure = Failure(code=code, message=text)
        self.take(EffectFailed(at_ms=self.now_ms, effect=effect.effect, failure=failure))
        return failure

    def hears(
        self, message_id: str, text: str = "", mode: SendMode = "steer", *authors: str
    ) -> tuple[Command, ...]:
        """A person says something more; the authors are members of the team."""
        said = replace(message(message_id, text, self.now_ms), mode=mode, authors=authors)
        return self.take(MessageReceived(at_ms=self.now_ms, message=said))

    def attached(self, line: str = "l1", owner: str = "") -> tuple[Command, ...]:
        """A realtime line opens."""
        return self.take(
            LineAttached(at_ms=self.now_ms, line=line, label="phone call", owner=owner)
        )

    def notified(self) -> tuple[Command, ...]:
        """People have heard of it."""
        effect = self.only(NotifyPeople).effect
        return self.take(EffectAnswered(at_ms=self.now_ms, effect=effect, result=ALL_DELIVERED))

    def counted(self, factor: int = 3) -> tuple[Command, ...]:
        """A worker has counted hours of a calendar: the clock takes several times as long."""
        effect = self.only(CountHours)
        result = clock_of(effect, factor)
        return self.take(EffectAnswered(at_ms=self.now_ms, effect=effect.effect, result=result))

    def hung_up(self) -> tuple[Command, ...]:
        """The realtime line ends."""
        return self.take(
            EffectAnswered(at_ms=self.now_ms, effect=self.only(KeepLineOpen).effect, result=None)
        )

    def speaks(
        self, *parts: Part, heard: str = "", line: str = "l1", token: str = "", **fields: Any
    ) -> tuple[Command, ...]:
        """The model speaks on the line, after the user said something or of its own accord."""
        fields.setdefault("response_id", f"spoken-{len(self.events)}")
        said: list[JsonObject] = [{"role": "user", "content": heard}] if heard else []
        reply = reply_of(*parts, **fields)
        return self.take(
            LineReplied(at_ms=self.now_ms, line=line, said=said, reply=reply, token=token)
        )

    def retried(self, answers: int | None = None) -> tuple[Command, ...]:
        """Ask the last question again."""
        count = len(self.state.answers) if answers is None else answers
        return self.take(RetryRequested(at_ms=self.now_ms, answers=count))

    def withdraws(self, message_id: str) -> tuple[Command, ...]:
        """A person takes a message back."""
        return self.take(MessageWithdrawn(at_ms=self.now_ms, message_id=message_id))

    def decided(
        self,
        request_id: str,
        kind: DecisionType = "approve",
        *,
        verified: bool = False,
        **fields: Any,
    ) -> tuple[Command, ...]:
        """A person decides about an approval request."""
        decision = Decision(request_id=request_id, type=kind, **fields)
        return self.take(PersonActed(at_ms=self.now_ms, action=decision, verified=verified))

    def claimed(self, request_id: str, by: str = "ann", minutes: int = 5, **fields: Any) -> None:
        """A person begins to work on an approval request."""
        action = ClaimAction(by=by, request_id=request_id, minutes=minutes, **fields)
        self.take(PersonActed(at_ms=self.now_ms, action=action))

    def passes(self, ms: int) -> tuple[Command, ...]:
        """Time passes, and something may be due."""
        self.passed_ms += ms
        return self.take(TimePassed(at_ms=self.now_ms))

    def holds(
        self, by: str = "ann", mode: HoldMode = "after_turn", **fields: Any
    ) -> tuple[Command, ...]:
        """A person takes the conversation over, or hands it over."""
        action = HoldAction(by=by, mode=mode, **fields)
        return self.take(PersonActed(at_ms=self.now_ms, action=action))

    def says(self, text: str, by: str = "ann", message_id: str = "") -> tuple[Command, ...]:
        """The person who has the conversation speaks to the user."""
        name = message_id or f"s{len(self.events)}"
        action = SayAction(by=by, message_id=name, text=text)
        return self.take(PersonActed(at_ms=self.now_ms, action=action))

    def releases(self, by: str = "ann", **fields: Any) -> tuple[Command, ...]:
        """A person gives the conversation back."""
        action = ReleaseAction(by=by, **fields)
        return self.take(PersonActed(at_ms=self.now_ms, action=action))

    def case(self, do: CaseDeed, by: str = "ann", **fields: Any) -> tuple[Command, ...]:
        """A person does something with the case of the conversation."""
        action = CaseAction(do=do, by=by, **fields)
        return self.take(PersonActed(at_ms=self.now_ms, action=action))

    def rates(self, score: int, text: str = "") -> tuple[Command, ...]:
        """The customer says what they think of the conversation."""
        return self.take(ConversationRated(at_ms=self.now_ms, score=score, text=text))

    def team_says(
        self, to: str = "", team: str = "", report: int | None = None, **fields: Any
    ) -> tuple[Command, ...]:
        """The team says whose the conversation is, in answer to the newest report."""
        case = self.state.case
        return self.take(
            TeamAnswered(
                at_ms=self.now_ms,
                team=team or case.team,
                chain_id=fields.pop("chain_id", self.state.start.chain_id),
                report=case.report if report is None else report,
                to=to,
                **fields,
            )
        )

    def cancelled(self, mode: CancelMode = "immediate") -> tuple[Command, ...]:
        """A person wants the run to stop."""
        return self.take(CancelRequested(at_ms=self.now_ms, mode=mode))

    def hears_noise(self) -> tuple[Command, ...]:
        """A signal comes that nobody can read."""
        return self.take(SignalUnreadable(at_ms=self.now_ms, name="signal x", problem="No."))

    # What tests look at -----------------------------------------------------------------------

    def only(self, kind: type[E]) -> E:
        """Return the one outstanding effect of a kind."""
        (effect,) = [one for one in self.outstanding.values() if isinstance(one, kind)]
        return effect

    def running(self, call_id: str) -> RunTool:
        """Return the outstanding run of a tool call."""
        (effect,) = [
            one
            for one in self.outstanding.values()
            if isinstance(one, RunTool) and one.call_id == call_id
        ]
        return effect

    @property
    def running_ids(self) -> list[str]:
        """The calls whose tools run, in the order in which they were started."""
        return [one.call_id for one in self.outstanding.values() if isinstance(one, RunTool)]

    @property
    def issued(self) -> list[Effect]:
        """Every effect the loop asked for."""
        return [one for one in self.commands if isinstance(one, Effect)]

    @property
    def stopped(self) -> list[int]:
        """The numbers of the effects the loop wanted stopped."""
        return [one.effect for one in self.commands if isinstance(one, CancelEffect)]

    @property
    def finish(self) -> Finish:
        """The one end of the run."""
        (finish,) = [one for one in self.commands if isinstance(one, Finish)]
        return finish

    @property
    def kinds(self) -> list[str]:
        """The kinds of the items."""
        return [item.kind for item in self.state.items]

    @property
    def outputs(self) -> dict[str, Json]:
        """What each call came to, in the order of the transcript."""
        raws = [item.raw for item in self.state.items]
        return {
            raw["call_id"]: raw["output"] for raw in raws if raw.get("type", "").endswith("output")
        }

    def answers(self) -> list[tuple[tuple[str, ...], str | None]]:
        """What was answered, with the code of the failure of what could not be."""
        return [(one.to, one.failure and one.failure.code) for one in self.state.answers]

    # The shell --------------------------------------------------------------------------------

    def _book(self, event: Event) -> None:
        answered = self.outstanding.get(getattr(event, "effect", 0))
        match event:
            case RunStarted(message=Message() as first):
                self.accepted.append(first)
            case MessageReceived():
                self.accepted.append(event.message)
            case LineReplied():
                if event.message.content or not self.timed.question.answering:
                    self.accepted.append(event.message)
            case EffectAnswered(result=Offload(moved=all_moved)) if isinstance(
                answered, OffloadItems
            ):
                moved = {one.item for one in all_moved}
                self.stored = {at: self.before.items[at] for at in moved} | self.stored
                del self.outstanding[event.effect]
            case EffectAnswered(result=PreparedRun() as opened) if isinstance(answered, PrepareRun):
                self.opened = opened
                del self.outstanding[event.effect]
            case MessageWithdrawn():
                self.accepted = [one for one in self.accepted if one.id != event.message_id]
            case (
                PersonActed()
                | TimePassed()
                | RetryRequested()
                | NestedReported()
                | BudgetLent()
                | TeamAnswered()
                | ConversationRated()
                | CancelRequested()
                | SignalUnreadable()
                | EffectBlocked()
                | RunEnded()
                | RunForked()
                | RunStarted()
                | LineAttached()
                | ValueDelivered()
            ):
                pass
            case _:
                del self.outstanding[event.effect]

    def _has_moved(self, call: CallModel, before: LoopState) -> bool:
        """Whether a model call goes on: of a line, by somebody else, at the provider, or its next model."""
        event = self.events[-1]
        if isinstance(event, EffectFailed) and event.failure.details is not None:
            lost = [one for one in before.pending if one.effect == event.effect]
            if RESPONSE_NOT_FOUND in event.failure.details.values() and any(
                isinstance(one, CallModel) and one.previous_response_id for one in lost
            ):
                return True  # the whole conversation is sent again
        return (
            call.begun is not None
            or follows(call, self.events[-1], before)
            or any(
                replace(one, effect=call.effect, line=call.line) == call
                for one in before.pending
                if isinstance(one, CallModel) and one.line
            )
        )

    def _dispatch(self, command: Command) -> None:
        match command:
            case Finish():
                assert not self.outstanding, "the run ended with effects in flight"
            case CancelEffect():
                del self.outstanding[command.effect]
            case NotifyAfterEnd():
                assert self.state.phase == "closed", "people hear of it while the run goes on"
            case NotifyParent():
                assert self.state.start.parent is not None
            case ReportToTeam():
                pass
            case LendBudget():
                assert command.nested_id in {one.nested_id for one in self.state.lent}
            case _:
                self.outstanding[command.effect] = command

    def whole(self, state: LoopState) -> LoopState:
        """Return a state with the content that is stored outside."""
        items = tuple(
            self.stored[at] if at in self.stored and not is_plain(item.raw) else item
            for at, item in enumerate(state.items)
        )
        return revised(state, items=items)

    def _check_step(self, before: LoopState, commands: Sequence[Command]) -> None:
        after = self.state
        assert violations(after) == []
        check(after)
        whole = self.whole(after)
        check_items(self.whole(before), whole)
        check_readers(self.whole(before), whole)
        assert tuple(self.outstanding.values()) == after.pending, "pending is not what is out"
        numbers = [one.effect for one in commands if isinstance(one, Effect)]
        # What one event asks for and stops again, as where a request expires when somebody takes the
        # conversation over, has a number and no command.
        waiting, made = {one.effect for one in after.pending}, after.next_effect
        stopped = [at for at in range(before.next_effect, made) if at not in waiting]
        assert sorted(numbers + stopped) == list(range(before.next_effect, made)), (
            "effects are not numbered in order, each once"
        )
        assert numbers == sorted(numbers), "effects are not asked for in order"
        models = [one for one in commands if isinstance(one, CallModel)]
        moved = [one for one in models if self._has_moved(one, before)]
        spoken = self.timed.phase == "idle" and isinstance(self.events[-1], LineReplied)
        turns = len(models) - len(moved) + (spoken and self.accepted != self.heard_before)
        match self.events[-1]:
            case EffectAnswered(effect=effect, result=ModelReply(withheld=True)):
                # It was counted when the call was scheduled, and repeated events change nothing.
                turns -= any(one.effect == effect for one in before.pending)
            case _:
                pass
        counted = after.turns - before.turns
        assert turns <= counted <= turns + len(stopped), "a turn is not a model call"
        assert all(one.turn == after.question.turn for one in models)
        finishes = sum(isinstance(one, Finish) for one in commands)
        closes = (after.phase == "closed") - (before.phase == "closed")
        assert finishes == closes, "a run ends exactly once"
        assert all(not isinstance(one, Finish) for one in commands[:-1]), "the end comes last"
        check_messages(whole, self.accepted, self.opened)
        check_calls(after)
        check_approvals(before, after)
        check_reports(after, self.commands)
        check_notices(before, after, commands)
        check_saves(before, after, self.issued, self.opened)
        check_storage(after)
        check_tool_users(after)
        check_unchecked(after)
        check_view(after)
        check_requests(whole, self.requests)
