"""Agents as tools: a tool whose call is a run of another agent.

Owns: `AgentTool`, what its arguments may be, and how they become the input of the nested run. Must
not know: how that run is carried; it is a run of its own, and nothing here starts one.
"""

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, TypeAlias, TypedDict, cast

from outlast.agents.agent_tools.input import (
    TEXT_ONLY,
    NestedInput,
    StructuredToolInputBuilder,
    StructuredToolInputBuilderOptions,
    adapter_of,
    checked_input,
    default_tool_input_builder,
    problem_of,
    schema_of,
    summary_of,
)
from outlast.agents.callables import call, check_callable
from outlast.agents.checks import check_count
from outlast.agents.config.run_config import RunConfig, as_run_config
from outlast.agents.config.session_input import check_session
from outlast.agents.context.wrapper import NamedAgent, ToolContext
from outlast.agents.errors import ModelBehaviorError, UserError
from outlast.agents.hooks import RunHooks, check_run_hooks
from outlast.agents.items.stream_events import OnStream
from outlast.agents.schemas.altered_arguments import altered
from outlast.agents.tools.definition import (
    ApprovalPredicate,
    EnabledPredicate,
    FunctionTool,
    ToolErrorFunction,
    ToolRetry,
    default_tool_error,
)
from outlast.loop.values import DEFAULT_MAX_TURNS, JsonObject

OutputExtractor: TypeAlias = Callable[[Any], str | Awaitable[str]]
"""Called with the nested run's result; returns what the outer model reads; sync or async."""

LONGEST_BACKLOG = 1024
"""How many events of a nested run wait for its `on_stream`, where the tool says nothing else."""


@dataclass(eq=False)
class AgentTool(FunctionTool):
    """A tool that runs an agent.

    `Agent.as_tool` makes one.

    Its call is a run of its own, with its own turns, under the run that calls it. So it is never
    invoked, and `timeout`, `retry` and `fast` do not count. The nested run takes no part in the
    outer run's hooks, session and conversation; the context is shared, tokens are counted.

    Attributes:
        agent: the agent that is run: an `Agent`.
        max_turns: how many model calls the nested run takes at most.
        custom_output_extractor: makes the tool's result of the nested run's.
        parameters: the type of the arguments, such as a pydantic model or a dataclass; None is
            one text, `input`.
        input_builder: makes the nested run's input of the arguments.
        include_input_schema: whether that input says what the arguments' schema is.
        run_config: settings of the nested run; None for those of the outer one.
        hooks: `RunHooks` of the nested run.
        session: the session of the nested run.
        conversation_id: its conversation at the provider.
        previous_response_id: the response that it follows at the provider.
        on_stream: called with every event of the nested run.
        on_stream_max_pending_events: how many of them wait for it; None for no bound.
    """

    _: KW_ONLY
    agent: NamedAgent
    max_turns: int = DEFAULT_MAX_TURNS
    custom_output_extractor: OutputExtractor | None = None
    parameters: Any = None
    input_builder: StructuredToolInputBuilder | None = None
    include_input_schema: bool = False
    run_config: RunConfig | None = None
    hooks: Any = None
    session: Any = None
    conversation_id: str | None = None
    previous_response_id: str | None = None
    on_stream: OnStream | None = None
    on_stream_max_pending_events: int | None = LONGEST_BACKLOG

    def __post_init__(self, timeout_seconds: float | None) -> None:
        """Check the fields.

        Raises:
            UserError: a field does not fit. The message names the tool and the field.
        """
        FunctionTool.__post_init__(self, timeout_seconds)
        owner = f"Tool {self.name!r}"
        check_count(f"{owner}: max_turns", self.max_turns)
        if self.custom_output_extractor is not None:
            what = f"{owner}: custom_output_extractor"
            check_callable(self.custom_output_extractor, ("result",), what=what)
        _check_stream(self.on_stream, self.on_stream_max_pending_events, owner)
        if self.input_builder is not None:
            check_callable(self.input_builder, ("options",), what=f"{owner}: input_builder")
        config = cast("object", self.run_config)
        if config is not None and not isinstance(config, RunConfig):
            raise UserError(f"{owner}: run_config must be a RunConfig, not {config!r}.")
        try:
            check_run_hooks(self.hooks)
        except (TypeError, UserError) as error:
            raise UserError(f"{owner}: {error}") from None
        if self.session is not None and self.conversation_id is not None:
            raise UserError(
                f"{owner}: session and conversation_id exclude each other, because both keep the "
                "conversation. Leave one of them out."
            )
        _check_session(self.session, owner)


def tool_name_of(agent_name: str) -> str:
    """Return an agent's name as the name of a tool, with what none allows replaced."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", agent_name).lower()


class AgentToolOptions(TypedDict, total=False):
    """The options of `Agent.as_tool`; all may be left out.

    Attributes:
        on_stream: called by the worker with each event of the nested run, one after the other, as
            an `AgentToolStreamEvent`; what it raises is logged.
        run_config: settings of the nested run; default those of the outer one.
        max_turns: how many model calls the nested run takes at most, whatever the outer run's
            limit; default 10.
        hooks: `RunHooks` of the nested run; it has no part in those of the outer one.
        session: the nested run's session; default none.
        conversation_id: the nested run's conversation at the provider.
        previous_response_id: the response that the nested run follows at the provider.
        failure_error_function: what the outer model reads of a nested run that failed; None lets
            the failure end the outer run. Default `default_tool_error`.
        needs_approval: whether a human decides before each call, or a predicate that is called
            with (context, arguments, call id); default false.
        parameters: a pydantic model, dataclass or TypedDict for the arguments; default one text.
        input_builder: makes the nested run's input of the arguments.
        include_input_schema: whether that input tells the arguments' schema; default false.
        on_stream_max_pending_events: how many events wait for `on_stream` before the nested model
            is read more slowly; None for no bound; default 1024.
    """

    on_stream: OnStream | None
    run_config: RunConfig | dict[str, Any] | None
    max_turns: int | None
    hooks: RunHooks[Any] | None
    session: Any
    conversation_id: str | None
    previous_response_id: str | None
    failure_error_function: ToolErrorFunction | None
    needs_approval: bool | ApprovalPredicate
    parameters: type[Any] | None
    input_builder: StructuredToolInputBuilder | None
    include_input_schema: bool
    on_stream_max_pending_events: int | None


def make_agent_tool(
    agent: NamedAgent,
    *,
    name: str | None,
    description: str | None,
    custom_output_extractor: OutputExtractor | None,
    is_enabled: bool | EnabledPredicate,
    options: AgentToolOptions,
) -> AgentTool:
    """Make the tool of an agent.

    Args:
        agent: the agent.
        name: what the outer model calls it; None for the agent's name.
        description: what the outer model is told; None for the agent's `handoff_description`.
        custom_output_extractor: makes the tool's result of the nested run's.
        is_enabled: whether the tool is offered.
        options: see `AgentToolOptions`.

    Raises:
        UserError: an argument does not fit, or the type of the parameters has no schema.
    """
    name = name or tool_name_of(agent.name)
    owner = f"Tool {name!r}"
    _check_options(options, owner)
    parameters = options.get("parameters")
    adapter = None if parameters is None else adapter_of(parameters, owner)
    config, turns = options.get("run_config"), options.get("max_turns")
    return AgentTool(
        name=name,
        description=(agent.handoff_description or "") if description is None else description,
        params_json_schema=TEXT_ONLY if adapter is None else schema_of(adapter, owner),
        on_invoke_tool=_refuse_to_run,
        validate=partial(problem_of, name, adapter),
        altered=None if adapter is None else partial(_altered, adapter),
        needs_approval=options.get("needs_approval", False),
        retry=ToolRetry(attempts=1),  # the nested run retries its own steps
        is_enabled=is_enabled,
        failure_error_function=options.get("failure_error_function", default_tool_error),
        agent=agent,
        max_turns=DEFAULT_MAX_TURNS if turns is None else turns,
        custom_output_extractor=custom_output_extractor,
        parameters=parameters,
        input_builder=options.get("input_builder"),
        include_input_schema=options.get("include_input_schema", False),
        run_config=None if config is None else as_run_config(config),
        hooks=options.get("hooks"),
        session=options.get("session"),
        conversation_id=options.get("conversation_id"),
        previous_response_id=options.get("previous_response_id"),
        on_stream=options.get("on_stream"),
        on_stream_max_pending_events=options.get("on_stream_max_pending_events", LONGEST_BACKLOG),
    )


def _check_options(options: AgentToolOptions, owner: str) -> None:
    if unknown := sorted(options.keys() - AgentToolOptions.__annotations__.keys()):
        raise UserError(
            f"{owner}: as_tool has no option {', '.join(unknown)}. "
            f"Its options are {', '.join(AgentToolOptions.__annotations__)}."
        )


def _check_stream(on_stream: object, backlog: object, owner: str) -> None:
    if on_stream is not None:
        check_callable(on_stream, ("event",), what=f"{owner}: on_stream")
    if backlog is not None:
        place = f"{owner}: on_stream_max_pending_events"
        check_count(place, backlog, wanted="a whole number from 1, or None")


def _check_session(session: object, owner: str) -> None:
    try:
        if session is not None:
            check_session(session)
    except UserError as error:
        raise UserError(f"{owner}: {error.message}") from None


def check_arguments(tool: AgentTool, arguments: str) -> str | None:
    """Return None when arguments fit a tool, and a sentence for the model when they do not."""
    return None if tool.validate is None else tool.validate(arguments)


def arguments_of(tool: AgentTool, arguments: str) -> JsonObject:
    """Return the arguments of a call as JSON, with the defaults of their type filled in.

    The nested run's `RunContextWrapper.tool_input` is this, where the tool `takes_more_than_text`.

    Raises:
        ModelBehaviorError: they do not fit; the message is what `check_arguments` returns.
    """
    if (problem := check_arguments(tool, arguments)) is not None:
        raise ModelBehaviorError(problem)
    if tool.parameters is None:
        return json.loads(arguments)
    return _read(adapter_of(tool.parameters, f"Tool {tool.name!r}"), arguments)


def _read(adapter: Any, arguments: str) -> JsonObject:
    value = adapter.validate_json(arguments or "{}")
    return adapter.dump_python(value, mode="json", by_alias=True)


def _altered(adapter: Any, arguments: str) -> str:
    return altered(json.loads(arguments or "{}"), _read(adapter, arguments))


def takes_more_than_text(tool: AgentTool) -> bool:
    """Say whether a tool's arguments are more than one text."""
    return tool.parameters is not None


def _summary(tool: AgentTool) -> str | None:
    """Return what the parameters mean, as far as their type says it: strict mode adds to that."""
    if tool.parameters is None:
        return None
    owner = f"Tool {tool.name!r}"
    return summary_of(schema_of(adapter_of(tool.parameters, owner), owner))


async def nested_input(tool: AgentTool, arguments: str) -> NestedInput:
    """Return the input of the run that a call starts.

    Args:
        tool: the tool.
        arguments: the call's arguments as JSON text.

    Raises:
        ModelBehaviorError: the arguments do not fit.
        UserError: the tool's `input_builder` returned something else than an input.
        Exception: whatever the `input_builder` raised.
    """
    values = arguments_of(tool, arguments)
    options = StructuredToolInputBuilderOptions(
        params=values,
        summary=_summary(tool),
        json_schema=tool.params_json_schema if tool.include_input_schema else None,
    )
    if tool.input_builder is not None:
        built = await call(tool.input_builder, options)
        return checked_input(built, f"Tool {tool.name!r}: input_builder")
    if options["summary"] is None and options["json_schema"] is None:
        text = values.get("input")
        is_text = len(values) == 1 and isinstance(text, str)
        return cast("str", text) if is_text else json.dumps(values, ensure_ascii=False)
    return default_tool_input_builder(options)


async def _refuse_to_run(context: ToolContext[Any], arguments: str) -> Any:
    """Stand where a function tool has its function."""
    del arguments
    raise UserError(
        f"The tool {context.tool_name!r} is an agent: its call is a run of its own, so it cannot "
        "be invoked. Run the agent that has it, or its own agent, with Runner.run."
    )
