"""Objects of the installed OpenAI Agents SDK (`agents`), taken where ours are.

Packages for the SDK import it themselves, and hand its tools, guardrails, handoffs, settings,
sessions and models to programs. Nothing here imports it: only who has such an object has it.
"""

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any, Final, TypeVar, cast
from weakref import WeakKeyDictionary

from outlast.agents.callables import call
from outlast.agents.context.wrapper import RunContextWrapper, ToolContext
from outlast.agents.errors import UserError
from outlast.agents.items.run_items import RunItemBase
from outlast.agents.usage import AnyUsage, Usage

Ours = TypeVar("Ours")

PACKAGE: Final = "agents"

_NAMES: Final[WeakKeyDictionary[type, frozenset[str]]] = WeakKeyDictionary()
"""The names of the SDK's classes that each class is of."""


def sdk() -> Any:
    """Return the SDK's package if it is imported, else None.

    A program may have a package of its own with this name.
    """
    package: Any = sys.modules.get(PACKAGE)
    tool = getattr(package, "FunctionTool", None)
    return package if getattr(tool, "__module__", "") == f"{PACKAGE}.tool" else None


def sdk_names(value: object) -> frozenset[str]:
    """Return the names of the SDK's classes that an object is of; empty for other objects."""
    return sdk_names_of(type(value))


def sdk_names_of(kind: type) -> frozenset[str]:
    """Return the names of the SDK's classes that a class is, or is derived from."""
    if sdk() is None:
        return frozenset()
    if kind not in _NAMES:
        _NAMES[kind] = frozenset(
            one.__name__ for one in kind.__mro__ if one.__module__.partition(".")[0] == PACKAGE
        )
    return _NAMES[kind]


def is_sdk_agent(value: object) -> bool:
    """Whether an object is an agent of the SDK, of any kind."""
    return not sdk_names(value).isdisjoint(("Agent", "AgentBase", "RealtimeAgent"))


def agent_words(value: Any) -> str:
    """Return the sentences for an agent of the SDK, which no run can have."""
    return (
        f"{getattr(value, 'name', None)!r} is an Agent of the OpenAI Agents SDK (`agents`), whose "
        "runs are not recorded. Make it with outlast: `from outlast import Agent`. Its tools, "
        "guardrails, handoffs, settings, sessions and models may stay those of the SDK"
    )


def refuse_agent(value: object) -> None:
    """Refuse an agent of the SDK.

    Raises:
        UserError: it is one.
    """
    if is_sdk_agent(value):
        raise UserError(f"{agent_words(value)}.")


def as_ours(value: Any, kind: type[Ours]) -> Any:
    """Return an object of the SDK's class of the same name as `kind`; any other unchanged.

    Both are dataclasses, and fields that only the SDK's has are left out.
    """
    if isinstance(value, kind) or kind.__name__ not in sdk_names(value):
        return value
    return kind(**_common_fields(value, kind))


def set_fields(value: Any) -> dict[str, Any]:
    """Return the fields of a record of the SDK that are set, by name."""
    found = {one.name: getattr(value, one.name) for one in fields(value) if one.init}
    return {name: one for name, one in found.items() if one is not None}


def adopted(entries: object, adopt: Callable[[Any], Any]) -> Any:
    """Return a list with its objects of the SDK as ours; any other value, and a list without any."""
    if not isinstance(entries, list | tuple):
        return entries
    given = cast("Sequence[object]", entries)
    taken = [adopt(entry) if sdk_names(entry) else entry for entry in given]
    is_same = all(one is other for one, other in zip(given, taken, strict=True))
    return given if is_same else taken


# --- Contexts -------------------------------------------------------------------------------------


def sdk_context(context: RunContextWrapper[Any]) -> Any:
    """Return the SDK's context of a run or a call; its `context` is the same object.

    It also has `run_id`, and of a call `attempt` and `idempotency_key`.
    """
    package = sdk()
    values: dict[str, Any] = {
        "context": context.context,
        "usage": _sdk_usage(context.usage),
        "tool_input": context.tool_input,
    }
    shown: dict[str, Any] = {"run_id": context.run_id}
    if isinstance(context, ToolContext):
        kind = sys.modules[f"{PACKAGE}.tool_context"].ToolContext
        names = (
            "tool_name",
            "tool_call_id",
            "tool_arguments",
            "tool_call",
            "tool_namespace",
            "agent",
        )
        values |= {name: getattr(context, name) for name in names}
        shown |= {"attempt": context.attempt, "idempotency_key": context.idempotency_key}
    else:
        kind = package.RunContextWrapper
        values["turn_input"] = context.turn_input
    made = kind(**_taken_by(kind, values))
    for name, value in shown.items():
        setattr(made, name, value)
    return made


def with_sdk_context(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a callable of the SDK, whose first argument is a context, take ours."""

    @wraps(function)
    async def called(context: RunContextWrapper[Any], *arguments: Any) -> Any:
        theirs = sdk_context(context)
        try:
            return await call(function, theirs, *arguments)
        finally:
            context.context = theirs.context

    return called


def predicate(value: Any) -> Any:
    """Return a flag, or a predicate of the SDK called with (context, ...), which then takes ours."""
    return with_sdk_context(value) if callable(value) else value


def _sdk_usage(usage: AnyUsage) -> Any:
    made = sdk().Usage(
        requests=usage.requests,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens,
    )
    made.input_tokens_details.cached_tokens = usage.cached_tokens
    made.output_tokens_details.reasoning_tokens = usage.reasoning_tokens
    return made


# --- Tools and guardrails -------------------------------------------------------------------------


def function_tool_parts(tool: Any) -> dict[str, Any]:
    """Return the fields of a `FunctionTool` for a tool of the SDK, but its guardrails.

    Raises:
        UserError: the tool is an agent of the SDK.
    """
    if getattr(tool, "_is_agent_tool", False) or getattr(tool, "_agent_instance", None) is not None:
        raise UserError(
            f"The tool {tool.name!r} is an agent of the OpenAI Agents SDK (`agents`), whose runs are "
            "not recorded. Make the agent with outlast, and use its as_tool(...)."
        )
    names = (
        "name", "description", "params_json_schema", "strict_json_schema", "defer_loading",
        "allowed_callers", "output_json_schema", "timeout_seconds", "timeout_behavior",
    )  # fmt: skip
    parts = {name: getattr(tool, name) for name in names if hasattr(tool, name)}
    explain = getattr(tool, "timeout_error_function", None)
    extract = getattr(tool, "custom_data_extractor", None)
    return {
        **parts,
        "on_invoke_tool": _invocation(tool),
        "is_enabled": predicate(tool.is_enabled),
        "needs_approval": predicate(getattr(tool, "needs_approval", False)),
        "timeout_error_function": predicate(explain),
        "custom_data_extractor": None if extract is None else _extractor(tool, extract),
        "failure_error_function": None,  # the tool answers for its errors itself, or ends the run
    }


def tool_namespace(tool: Any) -> tuple[str, str] | None:
    """Return the name and the description of a tool's namespace in the SDK, if it has one."""
    name = getattr(tool, "_tool_namespace", None)
    return None if name is None else (name, getattr(tool, "_tool_namespace_description", "") or "")


def _invocation(tool: Any) -> Callable[..., Any]:
    async def invoke(context: ToolContext[Any], arguments: str) -> Any:
        return _output(await with_sdk_context(tool.on_invoke_tool)(context, arguments))

    return invoke


def _output(value: Any) -> Any:
    """Return a tool's result with the SDK's parts, such as an image, as dicts."""
    if isinstance(value, list):
        return [_output(entry) for entry in cast("list[Any]", value)]
    is_part = any(name.startswith("ToolOutput") for name in sdk_names(value))
    return value.model_dump(exclude_none=True) if is_part else value


def _extractor(tool: Any, extract: Callable[..., Any]) -> Callable[..., Any]:
    async def extracted(about: Any) -> Any:
        kind = sys.modules[f"{PACKAGE}.tool"].FunctionToolCustomDataContext
        context = sdk_context(about.tool_context)
        theirs = kind(tool_context=context, tool=tool, output=about.output, raw_item=about.raw_item)
        return await call(extract, theirs)

    return extracted


def guardrail_parts(guardrail: Any) -> dict[str, Any]:
    """Return the fields of a guardrail for one of the SDK, of any of the four kinds."""
    function = guardrail.guardrail_function
    is_of_tool = not sdk_names(guardrail).isdisjoint(("ToolInputGuardrail", "ToolOutputGuardrail"))
    parts: dict[str, Any] = {
        "guardrail_function": _tool_check(function) if is_of_tool else with_sdk_context(function),
        "name": guardrail.get_name(),
    }
    if "InputGuardrail" in sdk_names(guardrail):
        parts["run_in_parallel"] = getattr(guardrail, "run_in_parallel", True)
    return parts


def _tool_check(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    async def checked(data: Any) -> Any:
        theirs = sdk_context(data.context)
        kind = getattr(sdk(), type(data).__name__)
        more = {"output": data.output} if hasattr(data, "output") else {}
        try:
            return await call(function, kind(context=theirs, agent=data.agent, **more))
        finally:
            data.context.context = theirs.context

    return checked


# --- Handoffs -------------------------------------------------------------------------------------


def handoff_parts(entry: Any) -> dict[str, Any]:
    """Return the fields of a `Handoff` for one of the SDK.

    Raises:
        UserError: it leads to an agent of the SDK.
    """
    reference = getattr(entry, "_agent_ref", None)
    target = None if reference is None else reference()
    refuse_agent(target)
    names = (
        "tool_name", "tool_description", "input_json_schema", "agent_name", "strict_json_schema",
        "nest_handoff_history",
    )  # fmt: skip
    enabled, edit = entry.is_enabled, entry.input_filter
    return {
        **{name: getattr(entry, name) for name in names if hasattr(entry, name)},
        "on_invoke_handoff": _chosen(entry.on_invoke_handoff),
        "agent": target,
        "is_enabled": _with_sdk_agent(enabled) if callable(enabled) else enabled,
        "input_filter": None if edit is None else _filter(edit),
    }


def _chosen(function: Callable[..., Any]) -> Callable[..., Any]:
    async def invoke(context: RunContextWrapper[Any], arguments: str) -> Any:
        agent = await with_sdk_context(function)(context, arguments)
        refuse_agent(agent)
        return agent

    return invoke


def _with_sdk_agent(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a predicate of the SDK that can be called with our context and agent."""

    async def called(context: RunContextWrapper[Any], agent: Any) -> Any:
        return await with_sdk_context(function)(context, _sdk_agent(agent))

    return called


def _sdk_agent(agent: Any) -> Any:
    instructions = getattr(agent, "instructions", None)
    return sdk().Agent(
        name=getattr(agent, "name", "") or "",
        handoff_description=getattr(agent, "handoff_description", None),
        instructions=instructions if isinstance(instructions, str) else None,
    )


def _filter(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let an input filter of the SDK take our data, with items of the SDK's classes."""

    @wraps(function)
    async def filtered(data: Any) -> Any:
        kind = sdk().HandoffInputData
        known: dict[int, tuple[Any, RunItemBase]] = {}
        values = {
            "input_history": data.input_history,
            "pre_handoff_items": _sdk_items(data.pre_handoff_items, known),
            "new_items": _sdk_items(data.new_items, known),
            "run_context": None if data.run_context is None else sdk_context(data.run_context),
        }
        got: Any = await call(function, kind(**_taken_by(kind, values)))
        if not isinstance(got, kind):
            return got
        shown = getattr(got, "input_items", None)
        return data.clone(
            input_history=got.input_history,
            pre_handoff_items=_our_items(got.pre_handoff_items, known),
            new_items=_our_items(got.new_items, known),
            input_items=None if shown is None else _our_items(shown, known),
        )

    return filtered


def _sdk_items(
    items: Iterable[RunItemBase], known: dict[int, tuple[Any, RunItemBase]]
) -> tuple[Any, ...]:
    classes = sys.modules[f"{PACKAGE}.items"]
    made: list[Any] = []
    for item in items:
        kind = getattr(classes, type(item).__name__, None)
        if kind is None:  # a class of ours alone
            made.append(item)
            continue
        values = _common_fields(item, kind) | {"raw_item": item.raw_item}
        for name in ("agent", "source_agent", "target_agent"):
            if name in values:
                values[name] = _sdk_agent(values[name])
        values.pop("tool_origin", None)
        theirs = kind(**values)
        vars(theirs)["_kept_agents"] = [values[name] for name in values if name.endswith("agent")]
        known[id(theirs)] = theirs, item
        made.append(theirs)
    return tuple(made)


def _our_items(
    items: Iterable[Any], known: Mapping[int, tuple[Any, RunItemBase]]
) -> tuple[Any, ...]:
    """Return items of the SDK as ours: those that it got, and new ones by their classes' names."""
    return tuple(known[id(one)][1] if id(one) in known else _our_item(one) for one in items)


def _our_item(item: Any) -> Any:
    classes = {kind.__name__: kind for kind in RunItemBase.__subclasses__()}
    kind = next((classes[name] for name in sdk_names(item) if name in classes), None)
    return item if kind is None else kind(**_common_fields(item, kind))


# --- Models ---------------------------------------------------------------------------------------


def is_sdk_model(model: object) -> bool:
    """Whether a model is of the SDK's class, so that it may look at the classes of its arguments."""
    return "Model" in sdk_names(model)


def sdk_model_arguments(leading: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a model call with the SDK's classes."""
    package, schema = sdk(), leading["output_schema"]
    interface = sys.modules[f"{PACKAGE}.models.interface"]
    return {
        **leading,
        "model_settings": _sdk_settings(leading["model_settings"]),
        "tools": [_sdk_tool(tool) for tool in leading["tools"]],
        "output_schema": None if schema is None else _sdk_schema(schema),
        "handoffs": [
            package.Handoff(
                tool_name=entry.tool_name,
                tool_description=entry.tool_description,
                input_json_schema=entry.input_json_schema,
                on_invoke_handoff=_never,
                agent_name=entry.agent_name,
                strict_json_schema=entry.strict_json_schema,
            )
            for entry in leading["handoffs"]
        ],
        "tracing": interface.ModelTracing(leading["tracing"].value),
    }


def _sdk_settings(settings: Any) -> Any:
    kind = sdk().ModelSettings
    values = _common_fields(settings, kind)
    values.pop("retry", None)  # the engine retries
    if (timeout := values.pop("timeout", None)) is not None:
        values["timeout"] = timeout.total_seconds()
    if settings.include is not None:
        values["response_include"] = settings.include
    return kind(**{name: value for name, value in values.items() if value is not None})


def _sdk_tool(tool: Any) -> Any:
    package = sdk()
    kind = getattr(package, type(tool).__name__, None)
    if hasattr(tool, "params_json_schema"):
        return package.FunctionTool(
            name=tool.name,
            description=tool.description,
            params_json_schema=tool.params_json_schema,
            on_invoke_tool=_never,
            strict_json_schema=tool.strict_json_schema,
        )
    if kind is None or not is_dataclass(kind):
        raise UserError(
            f"A model of the OpenAI Agents SDK knows no tool {tool.name!r}, a {type(tool).__name__}."
        )
    return cast("Any", kind)(**_common_fields(tool, kind))


def _sdk_schema(schema: Any) -> Any:
    base = sdk().AgentOutputSchemaBase
    names = ("is_plain_text", "name", "json_schema", "is_strict_json_schema", "validate_json")
    return type(type(schema).__name__, (base,), {
        name: staticmethod(getattr(schema, name)) for name in names
    })()  # fmt: skip


async def _never(*_: Any) -> Any:
    raise UserError("The run calls its tools and handoffs itself, and no model does.")


def response_parts(response: Any) -> dict[str, Any]:
    """Return the fields of a `ModelResponse` for one of the SDK."""
    usage = response.usage
    known = {one.name for one in fields(Usage)} - {"request_usage_entries"}
    return {
        "output": list(response.output),
        "usage": Usage(**{name: getattr(usage, name) for name in known if hasattr(usage, name)}),
        "response_id": response.response_id,
        "request_id": getattr(response, "request_id", None),
        "raw_usage": getattr(response, "raw_usage", None),
    }


# --- Records --------------------------------------------------------------------------------------


def _common_fields(value: Any, kind: Any) -> dict[str, Any]:
    names = {one.name for one in fields(kind) if one.init}
    given = [one.name for one in fields(value) if one.init and one.name in names]
    return {name: getattr(value, name) for name in given}


def _taken_by(kind: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that this version's class takes."""
    taken = inspect.signature(kind).parameters
    return {name: value for name, value in values.items() if name in taken}
