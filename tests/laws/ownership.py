"""Whose objects a run uses: customers whose objects have equal names, and a ledger of every use.

Owns: `Customer`, which brings every kind of object that a start can bring, and `Ledger`, which says
of each kind whether runs used their own objects. Whose run it is, the ledger reads in the run's own
data only. Must not know: how a process keeps the objects of its runs.
"""

import asyncio
import json
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any, Final, cast

from outlast.agents.agent import Agent
from outlast.agents.agent_tools.agent_tool import AgentTool
from outlast.agents.config import settings
from outlast.agents.config.compaction import Compaction
from outlast.agents.config.model_settings import ModelSettings
from outlast.agents.config.retry import ModelRetrySettings, RetryDecision
from outlast.agents.config.run_config import RunConfig
from outlast.agents.context.wrapper import RunContextWrapper, ToolContext
from outlast.agents.guardrails.guardrail import (
    GuardrailFunctionOutput,
    InputGuardrail,
    OutputGuardrail,
)
from outlast.agents.guardrails.tool_guardrails import (
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolOutputGuardrail,
)
from outlast.agents.handoffs.handoff import Handoff, handoff
from outlast.agents.hooks import AgentHooks, RunHooks
from outlast.agents.tools.definition import FunctionTool, ToolRetry
from outlast.agents.tools.function_tool import function_tool
from outlast.agents.tools.use_behavior import ToolsToFinalOutputResult
from outlast.client.start.options import CODES, RunOptions, StartOptions
from outlast.extensions.machine.computer import Computer
from outlast.extensions.machine.computer_tool import ComputerTool
from outlast.extensions.machine.computers import ComputerProvider
from outlast.ports.model import ModelError, ModelRequest
from outlast.sessions.encrypted import EncryptedSession
from outlast.sessions.sqlite import SQLiteSession
from outlast.testing import ScriptedModel, call, computer_call, refuse, say
from tests.mcp_servers import Shelf, said, tool
from tests.workflow.replies import last_user_text

SHARED: Final = "the worker"
"""The owner of a worker's own definitions, which all its runs share."""

OWN, UNUSED, MIXED = "own", "not used", "ANOTHER'S"

CALLER: ContextVar[str] = ContextVar("caller", default=SHARED)
"""Who starts a run, as the program's own code sees it."""

QUESTIONS: Final = ("refuse", "invalid", "loop")
"""The questions of the plan `questions`: each fails in a way that an error handler answers."""

_SAYS = re.compile(r"I am (\w+)")

_PLACES: Final = ("context", "run_context", "context_wrapper", "tool_context", "error")
"""The attributes of callables' arguments that lead to the data of a run."""


def owner_of(data: Any) -> str:
    """Return whose run some data belongs to, as the data says; all names, if it says several."""
    if isinstance(data, tuple):  # the arguments of a call
        arguments = cast("tuple[Any, ...]", data)
        return next((found for one in arguments if (found := owner_of(one))), "")
    if isinstance(data, Mapping) and "customer" in data:
        return str(cast("Mapping[str, Any]", data)["customer"])
    if isinstance(name := getattr(cast("Any", data), "customer", None), str):
        return name
    whole = cast("Any", data)
    for place in _PLACES:
        if (inner := getattr(whole, place, None)) is not None and (found := owner_of(inner)):
            return found
    return "+".join(sorted(set(_SAYS.findall(repr(whole)))))


@dataclass(frozen=True, slots=True)
class Use:
    """One use of an object by a run.

    Attributes:
        kind: what the object is: a field of the program's definitions or options, or a sentence.
        object_owner: who brought the object.
        run_owner: whose run it is, by the run's data.
    """

    kind: str
    object_owner: str
    run_owner: str

    @property
    def is_own(self) -> bool:
        return self.object_owner in {self.run_owner, SHARED} and bool(self.run_owner)


@dataclass
class Ledger:
    """Every use of an object, and doors at which tools wait so that runs overlap.

    Attributes:
        keys: the idempotency keys of a tool's attempts, by the owner of the run.
    """

    uses: list[Use] = field(default_factory=list[Use])
    keys: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    _doors: dict[str, asyncio.Event] = field(default_factory=dict[str, asyncio.Event])
    _arrived: dict[str, asyncio.Event] = field(default_factory=dict[str, asyncio.Event])

    def note(self, kind: str, owner: str, data: Any) -> None:
        """Note that a run with this data has used somebody's object."""
        self.uses.append(Use(kind, owner, owner_of(data)))

    def noting(self, kind: str, owner: str, then: Any = None) -> Callable[..., Any]:
        """Return a function that notes its calls; `then` is its result, or makes it."""

        def noted(*arguments: Any) -> Any:
            self.note(kind, owner, arguments)
            return then(*arguments) if callable(then) else then

        return noted

    def model(self, kind: str, owner: str, script: Callable[[ModelRequest], Any]) -> ScriptedModel:
        """Return a model object that notes whose conversation it reads."""

        def reply(request: ModelRequest) -> Any:
            self.note(kind, owner, request.input)
            return script(request)

        return ScriptedModel(always=reply)

    # --- Doors ----------------------------------------------------------------------------------

    def close_door(self, owner: str) -> None:
        """Have the tool `look` of somebody's run wait."""
        self._doors[owner] = asyncio.Event()
        self._arrived[owner] = asyncio.Event()

    def open_door(self, owner: str) -> None:
        """Let that run go on."""
        self._doors[owner].set()

    async def arrived(self, owner: str) -> None:
        """Wait until that run is at its door."""
        async with asyncio.timeout(60):
            await self._arrived[owner].wait()

    async def pass_door(self, owner: str) -> None:
        """Wait at somebody's door, if it is closed."""
        if owner in self._doors:
            self._arrived[owner].set()
            await self._doors[owner].wait()

    # --- The law --------------------------------------------------------------------------------

    @property
    def mixed(self) -> list[Use]:
        """The uses of an object by a run that is not its owner's."""
        return [use for use in self.uses if not use.is_own]

    def table(self, kinds: Iterable[str], *owners: str) -> dict[str, str]:
        """Return the worst verdict of each kind over the runs of these customers.

        A kind that is not asked for is in the table if a run has used another's object.
        """
        uses: dict[tuple[str, str], set[Use]] = defaultdict(set)
        for use in self.uses:
            uses[use.kind, use.run_owner].add(use)
        strangers = {use.kind for use in self.mixed}
        found: dict[str, str] = {}
        for kind in sorted({*kinds, *strangers}):
            verdicts = {_verdict(uses[kind, owner], owner) for owner in owners}
            worst = (one for one in (MIXED, UNUSED, SHARED, OWN) if one in verdicts)
            found[kind] = MIXED if kind in strangers else next(worst, UNUSED)
        return found


def _verdict(uses: set[Use], run_owner: str) -> str:
    """Say of the uses of a kind whether somebody's run used its own object, another's, or none."""
    if not all(use.is_own for use in uses):
        return MIXED
    if any(use.object_owner == run_owner for use in uses):
        return OWN
    return SHARED if uses else UNUSED


OF_THE_START: Final = frozenset({
    "RunConfig.call_model_input_filter",
    "RunConfig.call_model_output_filter",
    "RunConfig.handoff_history_mapper",
    "RunConfig.handoff_input_filter",
    "RunConfig.input_guardrails",
    "RunConfig.model",
    "RunConfig.model_provider",
    "RunConfig.model_settings",
    "RunConfig.output_guardrail_blocked_message",
    "RunConfig.output_guardrails",
    "RunConfig.session_input_callback",
    "RunConfig.tool_error_formatter",
    "StartOptions.error_handlers[invalid_final_output]",
    "StartOptions.error_handlers[max_turns]",
    "StartOptions.error_handlers[model_refusal]",
    "StartOptions.hooks",
    "StartOptions.session",
    "StartOptions.session: EncryptedSession",
    "StartOptions.session: SQLiteSession",
    "a class as a value of the context",
    "a context of a class made in a function",
    "a live value deeper in the context",
    "a live value in a dict context",
    "a live value in a field of the context",
    "a tool of an agent that a handoff made",
    "a value of a class made in a function",
    "instructions of an agent that a handoff made",
    "made Agent.hooks",
    "made Agent.instructions",
    "made Agent.output_guardrails",
    "made Agent.output_type",
    "made Handoff.input_type",
    "made Handoff.is_enabled",
    "made Handoff.needs_approval",
    "made Handoff.on_handoff",
    "output_info of a class made in a function",
    "the class of the answer",
    "the computer that a provider made",
})  # fmt: skip
"""The kinds that are a run's own wherever it is hosted: its options, and what was made of its data."""

_ALWAYS: Final = {
    "Agent.hooks",
    "Agent.input_guardrails",
    "Agent.instructions",
    "Agent.mcp_servers",
    "Agent.prompt",
    "Agent.tool_use_behavior",
    "FunctionTool.custom_data_extractor",
    "FunctionTool.is_enabled",
    "FunctionTool.needs_approval",
    "FunctionTool.on_invoke_tool",
    "FunctionTool.tool_input_guardrails",
    "FunctionTool.tool_output_guardrails",
    "Handoff.is_enabled",
    "RunConfig.call_model_input_filter",
    "RunConfig.call_model_output_filter",
    "RunConfig.input_guardrails",
    "RunConfig.output_guardrails",
    "RunConfig.session_input_callback",
    "StartOptions.hooks",
    "the caller's context variables",
}

KINDS: Final[dict[str, frozenset[str]]] = {
    "plain": frozenset({
        *_ALWAYS,
        "Agent.compaction",
        "Agent.model",
        "Agent.output_approval",
        "AgentTool.custom_output_extractor",
        "AgentTool.hooks",
        "AgentTool.input_builder",
        "AgentTool.on_stream",
        "AgentTool.parameters",
        "AgentTool.run_config",
        "AgentTool.session",
        "ComputerTool.computer",
        "FunctionTool.altered",
        "FunctionTool.failure_error_function",
        "FunctionTool.read",
        "FunctionTool.timeout_error_function",
        "FunctionTool.validate",
        "Handoff.input_filter",
        "Handoff.needs_approval",
        "Handoff.on_invoke_handoff",
        "RunConfig.handoff_input_filter",
        "RunConfig.model_provider",
        "StartOptions.session",
        "a class as a value of the context",
        "a live value deeper in the context",
        "a live value in a dict context",
        "a tool in a nested run",
        "a tool of an agent that a handoff made",
        "a value of a class made in a function",
        "instructions of an agent that a handoff made",
        "made Agent.hooks",
        "made Agent.instructions",
        "made Agent.output_guardrails",
        "made Agent.output_type",
        "made Handoff.input_type",
        "made Handoff.is_enabled",
        "made Handoff.needs_approval",
        "made Handoff.on_handoff",
        "output_info of a class made in a function",
        "the computer that a provider made",
    }),
    "trip": frozenset({
        *_ALWAYS,
        "Agent.output_guardrails",
        "Agent.output_type",
        "Handoff.input_type",
        "Handoff.needs_approval",
        "Handoff.on_handoff",
        "RunConfig.handoff_history_mapper",
        "RunConfig.model",
        "RunConfig.model_settings",
        "RunConfig.output_guardrail_blocked_message",
        "RunConfig.tool_error_formatter",
        "StartOptions.session: EncryptedSession",
        "a context of a class made in a function",
        "a live value in a field of the context",
    }),
    "questions": frozenset({
        *_ALWAYS,
        "Agent.model",
        "StartOptions.error_handlers[invalid_final_output]",
        "StartOptions.error_handlers[max_turns]",
        "StartOptions.error_handlers[model_refusal]",
        "StartOptions.session: SQLiteSession",
        "a class as a value of the context",
        "a live value deeper in the context",
        "a live value in a dict context",
        "a value of a class made in a function",
        "output_info of a class made in a function",
        "the class of the answer",
    }),
}  # fmt: skip
"""What the runs of each plan use; the plans together use every kind."""


class Lockbox:
    """A live value: an object that is not data."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.lock = threading.Lock()


def _class_of(owner: str) -> type[Any]:
    """Make a class within a function: another one for each customer, of one name."""

    @dataclass
    class Record:
        text: str

    Record.owner = owner  # pyright: ignore[reportAttributeAccessIssue]
    return Record


def _context_class_of(owner: str) -> type[Any]:
    @dataclass
    class Context:
        customer: str
        lock: Any = None

    Context.owner = owner  # pyright: ignore[reportAttributeAccessIssue]
    return Context


def _owner(made: object) -> str:
    """Return the owner of a live value, or of an object's class, as its maker has written it."""
    return str(getattr(made, "owner", getattr(type(made), "owner", "nobody")))


# --- Scripts: what models say, which depends on the conversation only ---------------------------


def _turns(request: ModelRequest, *turns: list[Any], last: Any) -> Any:
    """Return the first turn that has a call without an output, else the last reply."""
    done = {item.get("call_id") for item in request.input if "output" in item}
    return next((one for one in turns if any(c["call_id"] not in done for c in one)), last)


def answer(text: str) -> Any:
    """Return an answer of the class that `_class_of` makes."""
    return say(json.dumps({"response": {"text": text}}))


def _question(request: ModelRequest) -> int:
    return sum(item.get("role") == "user" for item in request.input)


def desk_script(request: ModelRequest) -> Any:
    """Say what the desk's model says: the user's words tell which plan it follows."""
    words, n, me = last_user_text(request), _question(request), f"I am {owner_of(request.input)}"
    if "refuse" in words:
        return refuse("I refuse.")
    if "invalid" in words:
        return say("This is no JSON.")
    if "loop" in words:
        return [call("look", f"loop-{len(request.input)}", text=me)]
    pay = [[call("pay", f"p-{n}", text=me)]] if "pay" in words else []
    if "trip" in words:
        first = [call("nobody", f"n-{n}", text=me), call("look", f"l-{n}", text=me)]
        return _turns(request, *pay, first, [call("to_clerk", f"t-{n}", text=me)], last=say("{}"))
    if "short" in words:
        return _turns(request, [call("look", f"s-{n}", text=me)], last=answer("Done."))
    work = [
        call("look", f"l-{n}", text=me),
        call("fail", f"f-{n}", text=me),
        call("hang", f"h-{n}", text=me),
        call("raw", f"r-{n}", text=me),
        call("ask_helper", f"a-{n}", text=me),
        call("find", f"m-{n}", text=me),
        computer_call(f"c-{n}", {"type": "type", "text": me}),
    ]
    return _turns(request, *pay, work, [call("to_personal", f"o-{n}", text=me)], last=say("{}"))


def helper_script(request: ModelRequest) -> Any:
    """Say what the helper's model says, in a nested run."""
    me = f"I am {owner_of(request.input)}"
    first, second = (f"assist-{number}-{_question(request)}" for number in (1, 2))
    turns = [[call("assist", first, text=me)], [call("assist", second, text=me)]]
    return _turns(request, *turns, last=say(f"Helped, {me}."))


def personal_script(request: ModelRequest) -> Any:
    """Say what the models of the provider say: an agent that a handoff made, and the one after."""
    me, n = f"I am {owner_of(request.input)}", _question(request)
    if any(one.name == "mine" for one in request.tools):
        to_clerk = [call("to_clerk", f"k-{n}", text=me)]
        return _turns(request, [call("mine", f"i-{n}", text=me)], to_clerk, last=say("{}"))
    return answer("bad" if "trip" in last_user_text(request) else "Done.")


# --- Definitions --------------------------------------------------------------------------------

_TEXT: Final = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}


def _passes(*_arguments: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)


def _allows(*_arguments: Any) -> ToolGuardrailFunctionOutput:
    return ToolGuardrailFunctionOutput.allow()


def _same(data: Any) -> Any:
    return data


def _model_data(call_data: Any) -> Any:
    return call_data.model_data


def _params(options: Any) -> str:
    return str(options["params"])


def _joined(history: list[Any], new: list[Any]) -> list[Any]:
    return [*history, *new]


def _hooks_of(base: type[Any], kind: str, owner: str, ledger: Ledger) -> Any:
    """Return hooks whose every method notes its call."""

    async def step(_self: object, *arguments: Any, **named: Any) -> None:
        ledger.note(kind, owner, (*arguments, *named.values()))

    methods = {name: step for name in dir(base) if name.startswith("on_")}
    return type(f"Noting{base.__name__}", (base,), methods)()


class _Screen(Computer):
    """A computer that notes what is typed on it."""

    def __init__(self, owner: str, ledger: Ledger) -> None:
        self._owner = owner
        self._ledger = ledger

    def type(self, text: str) -> None:
        self._ledger.note("the computer that a provider made", self._owner, text)

    def screenshot(self) -> str:
        return "data:image/png;base64,iVBORw0KGgo="

    def _refuse(self, *_arguments: Any) -> None:
        raise NotImplementedError

    _unused: Any = _refuse
    click = double_click = scroll = wait = move = keypress = drag = _unused


class _Shelf(Shelf):
    """An MCP server that notes who lists and calls its tools."""

    def __init__(self, owner: str, ledger: Ledger) -> None:
        answer = ledger.noting("Agent.mcp_servers", owner, said("found"))
        super().__init__(tool("find", inputSchema=_TEXT), answer=answer)
        self._note = ledger.noting("Agent.mcp_servers", owner)

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[Any]:
        if run_context is not None:
            self._note(run_context)
        return await super().list_tools(run_context, agent)


class Provider:
    """A provider of models with a customer's key."""

    def __init__(self, owner: str, ledger: Ledger) -> None:
        self.key = f"the key of {owner}"
        self._model = ledger.model("RunConfig.model_provider", owner, personal_script)

    def get_model(self, _name: str | None) -> ScriptedModel:
        return self._model

    async def aclose(self) -> None:
        return


def _tools_of(owner: str, ledger: Ledger) -> list[Any]:
    def noting(name: str, then: Any = None) -> Any:
        return ledger.noting(f"FunctionTool.{name}", owner, then)

    @function_tool(
        is_enabled=noting("is_enabled", True),
        needs_approval=noting("needs_approval", False),
        tool_input_guardrails=[ToolInputGuardrail(noting("tool_input_guardrails", _allows))],
        tool_output_guardrails=[ToolOutputGuardrail(noting("tool_output_guardrails", _allows))],
        custom_data_extractor=noting("custom_data_extractor"),
    )
    async def look(ctx: ToolContext[Any], text: str) -> str:
        me = owner_of(ctx)
        ledger.note("FunctionTool.on_invoke_tool", owner, ctx)
        ledger.keys.setdefault(me, []).append(ctx.idempotency_key)
        ledger.note("the caller's context variables", CALLER.get(), ctx)
        _note_context(ledger, ctx)
        await ledger.pass_door(me)
        return text

    @function_tool(needs_approval=noting("needs_approval", True))
    async def pay(ctx: RunContextWrapper[Any], text: str) -> str:
        ledger.note("FunctionTool.on_invoke_tool", owner, ctx)
        return text

    @function_tool(failure_error_function=noting("failure_error_function", "It failed."))
    async def fail(text: str) -> str:
        raise ValueError(text)

    @function_tool(
        timeout=timedelta(seconds=0.05),
        retry=ToolRetry(attempts=1),
        timeout_error_function=noting("timeout_error_function", "It hangs."),
    )
    async def hang(text: str) -> str:
        await asyncio.Event().wait()
        return text

    async def invoke(ctx: ToolContext[Any], _arguments: str) -> str:
        ledger.note("FunctionTool.on_invoke_tool", owner, ctx)
        return "raw"

    raw = FunctionTool(
        "raw",
        "A tool from parts.",
        _TEXT,
        invoke,
        validate=noting("validate"),
        altered=noting("altered", ""),
        read=noting("read"),
        needs_approval=noting("needs_approval", False),
    )
    return [look, pay, fail, hang, raw]


def _note_context(ledger: Ledger, ctx: RunContextWrapper[Any]) -> None:
    """Note whose the live values and classes of a run's context are."""
    context = ctx.context
    if not isinstance(context, dict):
        ledger.note("a context of a class made in a function", _owner(context), ctx)
        ledger.note("a live value in a field of the context", _owner(context.lock), ctx)
        return
    context = cast("dict[str, Any]", context)
    for kind, value in (
        ("a live value in a dict context", context.get("lock")),
        ("a live value deeper in the context", context.get("shelf", {}).get("lock")),
        ("a value of a class made in a function", context.get("record")),
        ("a class as a value of the context", context.get("class")),
    ):
        if value is not None:
            ledger.note(kind, _owner(value), ctx)


def _helper_tool_of(owner: str, ledger: Ledger) -> Any:
    """Make the agent tool, whose calls are nested runs."""
    from pydantic import BaseModel, field_validator

    def noting(name: str, then: Any = None) -> Any:
        return ledger.noting(name, owner, then)

    class Arguments(BaseModel):
        text: str

        @field_validator("text")
        @classmethod
        def check(cls, text: str) -> str:
            ledger.note("AgentTool.parameters", owner, text)
            return text

    @function_tool
    async def assist(ctx: RunContextWrapper[Any], text: str) -> str:
        ledger.note("a tool in a nested run", owner, ctx)
        _note_context(ledger, ctx)
        return text

    helper = Agent[Any](
        name="Helper",
        instructions=noting("Agent.instructions", "Helper"),
        tools=[assist],
        model=ledger.model("Agent.model", owner, helper_script),
        compaction=Compaction(window=16, summarize=noting("Agent.compaction", "A summary.")),
        output_approval=noting("Agent.output_approval", False),
    )
    return helper.as_tool(
        "ask_helper",
        "Ask.",
        custom_output_extractor=noting("AgentTool.custom_output_extractor", "Helped."),
        parameters=Arguments,
        input_builder=noting("AgentTool.input_builder", _params),
        run_config=RunConfig(call_model_input_filter=noting("AgentTool.run_config", _model_data)),
        hooks=_hooks_of(RunHooks, "AgentTool.hooks", owner, ledger),
        # A worker's tool would have one conversation with everybody.
        session=None if owner == SHARED else MemorySession("AgentTool.session", owner, ledger),
        on_stream=noting("AgentTool.on_stream"),
    )


def _clerk_of(owner: str, ledger: Ledger, *, made: str = "") -> Agent[Any]:
    answer = _class_of(owner)

    def judge(_ctx: Any, _agent: Any, output: Any) -> GuardrailFunctionOutput:
        ledger.note(f"{made}Agent.output_type", _owner(output), _ctx)
        return _passes()

    return Agent[Any](
        name="Clerk",
        instructions=ledger.noting(f"{made}Agent.instructions", owner, "Clerk"),
        hooks=_hooks_of(AgentHooks, f"{made}Agent.hooks", owner, ledger),
        output_type=answer,
        output_guardrails=[
            OutputGuardrail(ledger.noting(f"{made}Agent.output_guardrails", owner, judge))
        ],
    )


def _to_clerk(owner: str, ledger: Ledger, *, made: str = "") -> Handoff[Any]:
    given = _class_of(owner)

    def on_handoff(ctx: RunContextWrapper[Any], data: Any) -> None:
        ledger.note(f"{made}Handoff.on_handoff", owner, ctx)
        ledger.note(f"{made}Handoff.input_type", _owner(data), ctx)

    return handoff(
        _clerk_of(owner, ledger, made=made),
        tool_name_override="to_clerk",
        on_handoff=on_handoff,
        input_type=given,
        is_enabled=ledger.noting(f"{made}Handoff.is_enabled", owner, True),
        needs_approval=ledger.noting(f"{made}Handoff.needs_approval", owner, False),
    )


def _to_personal(owner: str, ledger: Ledger) -> Handoff[Any]:
    """Make the handoff whose callback makes the next agent, of the run's own data."""

    async def on_invoke(ctx: RunContextWrapper[Any], _arguments: str) -> Agent[Any]:
        me = owner_of(ctx)
        ledger.note("Handoff.on_invoke_handoff", owner, ctx)

        @function_tool
        async def mine(ctx: RunContextWrapper[Any], text: str) -> str:
            ledger.note("a tool of an agent that a handoff made", me, ctx)
            return text

        return Agent[Any](
            name="Personal",
            instructions=ledger.noting("instructions of an agent that a handoff made", me, "Yours"),
            tools=[mine],
            handoffs=[_to_clerk(me, ledger, made="made ")],
        )

    return Handoff(
        tool_name="to_personal",
        tool_description="To your own agent.",
        agent_name="Personal",
        input_json_schema=_TEXT,
        on_invoke_handoff=on_invoke,
        input_filter=ledger.noting("Handoff.input_filter", owner, _same),
        is_enabled=ledger.noting("Handoff.is_enabled", owner, True),
        needs_approval=ledger.noting("Handoff.needs_approval", owner, False),
    )


def desk_of(owner: str, ledger: Ledger) -> Agent[Any]:
    """Make somebody's graph of agents: each customer has one, and all names are equal."""

    def noting(name: str, then: Any = None) -> Any:
        return ledger.noting(name, owner, then)

    def create(*, run_context: RunContextWrapper[Any]) -> Computer:
        ledger.note("ComputerTool.computer", owner, run_context)
        return _Screen(owner_of(run_context), ledger)

    return Agent[Any](
        name="Desk",
        instructions=noting("Agent.instructions", "Desk"),
        prompt=noting("Agent.prompt", {"id": "pmpt_1"}),
        tools=[
            *_tools_of(owner, ledger),
            _helper_tool_of(owner, ledger),
            ComputerTool(ComputerProvider(create)),
        ],
        mcp_servers=[_Shelf(owner, ledger)],
        handoffs=[_to_personal(owner, ledger), _to_clerk(owner, ledger)],
        model=ledger.model("Agent.model", owner, desk_script),
        input_guardrails=[InputGuardrail(noting("Agent.input_guardrails", _passes))],
        output_type=_class_of(owner),
        hooks=_hooks_of(AgentHooks, "Agent.hooks", owner, ledger),
        tool_use_behavior=noting("Agent.tool_use_behavior", ToolsToFinalOutputResult(False)),
    )


# --- What a start brings ------------------------------------------------------------------------


class MemorySession:
    """A program's own session: an object with a store of its own, of the same id as all others."""

    def __init__(self, kind: str, owner: str, ledger: Ledger | None) -> None:
        self.session_id = "1"
        self.items: list[Any] = []
        self._note = None if ledger is None else ledger.noting(kind, owner)
        if ledger is not None:
            self.items.append({"role": "user", "content": f"Long ago. I am {owner}."})

    async def get_items(self, limit: int | None = None) -> list[Any]:
        return self.items[-limit:] if limit else list(self.items)

    async def add_items(self, items: list[Any]) -> None:
        self.items.extend(items)
        if self._note is not None:
            self._note(list(self.items))

    async def pop_item(self) -> Any | None:
        return self.items.pop() if self.items else None

    async def clear_session(self) -> None:
        self.items.clear()


def _fails_once(owner: str, ledger: Ledger) -> ScriptedModel:
    """Return a model object that fails at each first call of a run."""
    seen: set[str] = set()

    def script(request: ModelRequest) -> Any:
        me = owner_of(request.input)
        if me not in seen:
            seen.add(me)
            raise ModelError(f"Too busy. I am {me}.", code="overloaded", retryable=True)
        is_desk = any(one.name == "look" for one in request.tools)
        return (desk_script if is_desk else personal_script)(request)

    return ledger.model("RunConfig.model", owner, script)


def _guardrails_of(owner: str, ledger: Ledger) -> dict[str, Any]:
    info = _class_of(owner)

    def check(*_arguments: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info=info("checked"), tripwire_triggered=False)

    def judge(_ctx: Any, _agent: Any, output: Any) -> GuardrailFunctionOutput:
        is_bad = getattr(output, "text", "") == "bad"
        return GuardrailFunctionOutput(output_info=info("judged"), tripwire_triggered=is_bad)

    inputs = ledger.noting("RunConfig.input_guardrails", owner, check)
    answers = ledger.noting("RunConfig.output_guardrails", owner, judge)
    return {
        "input_guardrails": [InputGuardrail(inputs)],
        "output_guardrails": [OutputGuardrail(answers)],
    }


def _options_of(owner: str, ledger: Ledger, plan: str) -> dict[str, Any]:
    """Return the options of somebody's start, as `Runner` takes them."""

    def noting(name: str, then: Any = None) -> Any:
        return ledger.noting(f"RunConfig.{name}", owner, then)

    def handling(kind: str) -> Any:
        return ledger.noting(f"StartOptions.error_handlers[{kind}]", owner, {"text": "Handled."})

    record = _class_of(owner)
    config: dict[str, Any] = _guardrails_of(owner, ledger) | {
        "call_model_input_filter": noting("call_model_input_filter", _model_data),
        "call_model_output_filter": noting("call_model_output_filter", _model_data),
        "tool_error_formatter": noting("tool_error_formatter"),
        "session_input_callback": noting("session_input_callback", _joined),
        "heartbeat_timeout": timedelta(seconds=20),
    }
    options: dict[str, Any] = {
        "hooks": _hooks_of(RunHooks, "StartOptions.hooks", owner, ledger),
        "error_handlers": {
            kind: handling(kind) for kind in ("max_turns", "model_refusal", "invalid_final_output")
        },
    }
    if "trip" in plan:
        retry = ModelRetrySettings(
            max_retries=2, policy=noting("model_settings", RetryDecision(True, delay=0.0))
        )
        config |= {
            "model": _fails_once(owner, ledger),
            "model_settings": ModelSettings(retry=retry),
            "nest_handoff_history": True,
            "handoff_history_mapper": noting("handoff_history_mapper", _same),
            "output_guardrail_blocked_message": noting("output_guardrail_blocked_message", "No."),
        }
        options |= {
            "context": _context_class_of(owner)(owner, Lockbox(owner)),
            "session": EncryptedSession(
                "1", MemorySession("", owner, None), f"{owner}'s long secret key"
            ),
        }
    else:
        config |= {
            "model_provider": Provider(owner, ledger),
            "handoff_input_filter": noting("handoff_input_filter", _same),
        }
        options["context"] = {
            "customer": owner,
            "lock": Lockbox(owner),
            "shelf": {"lock": Lockbox(owner)},
            "record": record("of the context"),
            "class": record,
        }
        is_plain = plan != "questions"
        options["session"] = (
            MemorySession("StartOptions.session", owner, ledger) if is_plain else SQLiteSession("1")
        )
        options["max_turns"] = 12 if is_plain else 2
    return options | {"run_config": RunConfig(**config)}


class Customer:
    """Somebody whose runs have objects of their own.

    Attributes:
        name: in the data of the runs.
        agent: the customer's own graph of agents, for a program that hosts its runs.
    """

    def __init__(self, name: str, ledger: Ledger) -> None:
        self.name = name
        self.ledger = ledger
        self.agent = desk_of(name, ledger)
        self._options: dict[str, dict[str, Any]] = {}

    def __repr__(self) -> str:
        return f"Customer({self.name!r})"

    def asks(self, plan: str) -> str:
        """Return the input of a run: whose it is, and what its models are to do."""
        return f"I am {self.name}. {QUESTIONS[0] if plan == 'questions' else plan}, please."

    def options(self, plan: str) -> dict[str, Any]:
        """Return the options of a start; every start of a plan brings the same objects."""
        if plan not in self._options:
            self._options[plan] = _options_of(self.name, self.ledger, plan)
        return dict(self._options[plan])

    async def read(self, plan: str, result: Any = None) -> None:
        """Note whose the session's items and the classes in a result are."""
        session = self.options(plan)["session"]
        if not isinstance(session, MemorySession):
            kind = f"StartOptions.session: {type(session).__name__}"
            self.ledger.note(kind, self.name, await session.get_items())
        checked: list[Any] = [] if result is None else result.input_guardrail_results
        for one in checked:
            if one.output.output_info is not None:
                kind = "output_info of a class made in a function"
                self.ledger.note(kind, _owner(one.output.output_info), result)
        # The class of an answer of an agent that a handoff made is not known to the program.
        if result is not None and not isinstance(result.final_output, dict | None):
            self.ledger.note("the class of the answer", _owner(result.final_output), result)


# --- Completeness -------------------------------------------------------------------------------

COVERED: Final = {
    "Agent.handoffs": "Handoff.on_invoke_handoff",
    "Agent.tools": "FunctionTool.on_invoke_tool",
    "AgentTool.agent": "a tool in a nested run",
    "Handoff.agent": "Agent.output_type",
    "RunConfig.tool_not_found_behavior": "RunConfig.tool_error_formatter",
    "StartOptions.context": "a live value in a dict context",
    "StartOptions.error_handlers": "StartOptions.error_handlers[max_turns]",
    "StartOptions.run_config": "RunConfig.call_model_input_filter",
}
"""Fields whose objects are another kind's."""

WITH_THEIR_OWNER: Final = {
    "Agent.mcp_config": "its failure_error_function is found through the agent, as its tools are",
    "Agent.model_settings": "its retry policy is found through the agent, as its hooks are",
    "FunctionTool.result_type": "found through the tool, as its function is",
    "FunctionTool.context_type": "found through the tool; a run's own class is told apart by name",
    "RunOptions.blob_store": "belongs to a client: a second one is refused",
    "RunOptions.client": "where a run is; its namespace is a part of the key of a run's objects",
}
"""Fields with objects that are found through another object, which has a kind."""

_DATA: Final = {
    "Agent": "name handoff_description reset_tool_choice",
    "AgentTool": "max_turns include_input_schema conversation_id previous_response_id "
    "on_stream_max_pending_events",
    "FunctionTool": "title argument_titles name description params_json_schema defaults strict_json_schema timeout "
    "timeout_behavior retry fast effect defer_loading namespace allowed_callers "
    "output_json_schema",
    "Handoff": "tool_name tool_description agent_name input_json_schema nest_handoff_history "
    "strict_json_schema",
    "RunConfig": "session_settings nest_handoff_history conversation_history_wrappers "
    "reasoning_item_id_policy tracing_disabled tracing trace_include_sensitive_data workflow_name "
    "trace_id group_id trace_metadata tool_name_collision_policy tool_execution heartbeat_timeout "
    "resolved_stays_open reply_times "
    "stream_interval takeover budgets",
    "StartOptions": "max_turns customer author previous_response_id auto_previous_response_id conversation_id",
    "RunOptions": "id task_queue patience tenant program",
}

DATA_ONLY: Final = {f"{of}.{name}" for of, names in _DATA.items() for name in names.split()}
"""Fields that are written into the run's history, or its place: no objects of the program."""


def fields_with_objects() -> set[str]:
    """Return the fields and options of the code that may hold objects of a program."""
    found: set[str] = set()
    for kind in (Agent, Handoff, FunctionTool, AgentTool, RunConfig):
        inherited = {one.name for one in fields(FunctionTool)} if kind is AgentTool else set[str]()
        own = [one.name for one in fields(kind) if one.name not in inherited]
        found |= {f"{kind.__name__}.{name}" for name in own}
    own_options = RunOptions.__optional_keys__ - StartOptions.__optional_keys__
    found |= {f"StartOptions.{name}" for name in StartOptions.__optional_keys__}
    found |= {f"RunOptions.{name}" for name in own_options}
    found |= {f"RunConfig.{name}" for name in (*settings.NAMED, *settings.NAMED_LISTS)}
    found |= {f"RunConfig.{key.removesuffix('_ref')}" for key in _REFERENCES}
    found |= {f"StartOptions.{key}" for key in (settings.HOOKS, settings.ERROR_HANDLERS)}
    return found | {f"StartOptions.error_handlers[{kind}]" for kind in CODES}


_REFERENCES: Final = (settings.MODEL_REF, settings.BLOCKED_MESSAGE_REF)


def uncovered() -> dict[str, set[str]]:
    """Return what no run of a customer tries: new fields, and entries of tables that are no field."""
    there = fields_with_objects()
    kinds = frozenset[str]().union(*KINDS.values())
    said = {*COVERED, *WITH_THEIR_OWNER, *DATA_ONLY}
    return {
        "fields without a kind": there - kinds - said,
        "entries without a field": said - there,
        "kinds that no plan uses": set(COVERED.values()) - kinds,
        "fields that are data and have a kind": said & kinds,
    }
