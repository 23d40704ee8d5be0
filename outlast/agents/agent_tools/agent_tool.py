"""Agents as tools: a call of such a tool is a nested run of another agent."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Final, TypeAlias, TypedDict

from outlast.agents.agent_tools.input import (
    TEXT_ONLY,
    NestedInput,
    StructuredInputSchemaInfo,
    StructuredToolInputBuilder,
    adapter_of,
    problem_of,
    resolve_agent_tool_input,
    schema_of,
    summary_of,
)
from outlast.agents.approvals.policy import NeedsApproval
from outlast.agents.callables import called_with
from outlast.agents.checks import Rule, check_count, check_fields, check_options, optional
from outlast.agents.config.run_config import RunConfig, as_run_config
from outlast.agents.config.session_input import check_session
from outlast.agents.context.wrapper import NamedAgent
from outlast.agents.errors import ModelBehaviorError, UserError
from outlast.agents.hooks import RunHooks, check_run_hooks
from outlast.agents.items.stream_events import OnStream
from outlast.agents.schemas.altered_arguments import altered
from outlast.agents.schemas.provider_names import name_from
from outlast.agents.tools.definition import (
    EnabledPredicate,
    FunctionTool,
    ToolErrorFunction,
    ToolFunction,
    ToolRetry,
)
from outlast.loop.values import DEFAULT_MAX_TURNS, JsonObject

OutputExtractor: TypeAlias = Callable[[Any], str | Awaitable[str]]
"""Called with the nested run's result; returns the tool's output; sync or async."""

LONGEST_BACKLOG = 1024
"""The default limit of events of a nested run that wait for `on_stream`."""


@dataclass(eq=False)
class AgentTool(FunctionTool):
    """A tool that runs an agent; `Agent.as_tool` makes one.

    A call is a nested run of the calling run, with its own turns, and `timeout`, `retry` and `fast`
    have no effect. The nested run does not use the outer run's hooks, session or conversation. It
    shares the context, and the outer run counts its tokens. Only a run can call the tool:
    `on_invoke_tool` raises a `UserError`.

    Attributes:
        agent: the `Agent` to run.
        max_turns: the maximum number of model calls of the nested run.
        custom_output_extractor: converts the nested run's result into the tool's output.
        parameters: the type of the arguments, such as a pydantic model or a dataclass; None for
            one string, `input`.
        input_builder: builds the nested run's input from the arguments.
        include_input_schema: whether that input contains the JSON Schema of the arguments.
        run_config: settings of the nested run; None for the outer run's settings.
        hooks: `RunHooks` of the nested run.
        session: the session of the nested run.
        conversation_id: the nested run's conversation at the provider.
        previous_response_id: the provider's response that the nested run continues.
        on_stream: called with every event of the nested run.
        on_stream_max_pending_events: the maximum number of events that wait for `on_stream`; None
            for no limit.
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
        self.on_invoke_tool: ToolFunction = partial(_refuse, self.name)
        FunctionTool.__post_init__(self, timeout_seconds)
        owner = f"Tool {self.name!r}"
        check_fields(self, _RULES, owner)
        if self.session is not None and self.conversation_id is not None:
            raise UserError(
                f"{owner}: session and conversation_id exclude each other, because both keep the "
                "conversation. Leave one of them out."
            )
        try:
            check_run_hooks(self.hooks)
            if self.session is not None:
                check_session(self.session)
        except (TypeError, UserError) as error:
            raise UserError(f"{owner}: {error}") from None


_RULES: Final[dict[str, Rule]] = {
    "max_turns": check_count,
    "custom_output_extractor": optional(called_with("result")),
    "on_stream": optional(called_with("event")),
    "on_stream_max_pending_events": optional(
        partial(check_count, expected="a whole number from 1, or None")
    ),
    "input_builder": optional(called_with("options")),
}


class AgentToolOptions(TypedDict, total=False):
    """The options of `Agent.as_tool`; all are optional.

    They have the meaning and the default of the fields of `AgentTool`.

    Attributes:
        run_config: settings of the nested run, also as a dict.
        max_turns: independent of the outer run's limit; default 10.
        failure_error_function: returns the tool's output for the outer model when the nested run
            fails; None lets the failure end the outer run. Default `default_tool_error`.
        parameters: a pydantic model, dataclass or TypedDict for the arguments; default: one string.
    """

    on_stream: OnStream | None
    run_config: RunConfig | dict[str, Any] | None
    max_turns: int | None
    hooks: RunHooks[Any] | None
    session: Any
    conversation_id: str | None
    previous_response_id: str | None
    failure_error_function: ToolErrorFunction | None
    needs_approval: NeedsApproval
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
    """Make the tool of an agent."""
    name = name or name_from(agent.name)
    owner = f"Tool {name!r}"
    check_options(f"{owner}: as_tool", options, AgentToolOptions)
    parameters = options.get("parameters")
    adapter = None if parameters is None else adapter_of(parameters, owner)
    config = options.get("run_config")
    # The options have the names and the defaults of the tool's fields.
    fields: dict[str, Any] = {**options, "run_config": config and as_run_config(config)}
    if options.get("max_turns") is None:
        fields["max_turns"] = DEFAULT_MAX_TURNS
    return AgentTool(
        **fields,
        name=name,
        description=(agent.handoff_description or "") if description is None else description,
        params_json_schema=TEXT_ONLY if adapter is None else schema_of(adapter, owner),
        on_invoke_tool=partial(_refuse, name),
        validate=partial(problem_of, name, adapter),
        altered=None if adapter is None else partial(_altered, adapter),
        retry=ToolRetry(attempts=1),  # the nested run retries its own steps
        is_enabled=is_enabled,
        agent=agent,
        custom_output_extractor=custom_output_extractor,
    )


def arguments_of(tool: AgentTool, arguments: str) -> JsonObject:
    """Return the arguments of a call as JSON, with the defaults of their type.

    Raises:
        ModelBehaviorError: the arguments are invalid.
    """
    if tool.validate is not None and (problem := tool.validate(arguments)) is not None:
        raise ModelBehaviorError(problem)
    if tool.parameters is None:
        return json.loads(arguments)
    return _read(adapter_of(tool.parameters, f"Tool {tool.name!r}"), arguments)


def _read(adapter: Any, arguments: str) -> JsonObject:
    value = adapter.validate_json(arguments or "{}")
    return adapter.dump_python(value, mode="json", by_alias=True)


def _altered(adapter: Any, arguments: str) -> str:
    return altered(json.loads(arguments or "{}"), _read(adapter, arguments))


async def nested_input(tool: AgentTool, arguments: str) -> NestedInput:
    """Return the input of the run that a call starts; invalid arguments raise an error."""
    owner, summary = f"Tool {tool.name!r}", None
    if tool.parameters is not None:  # without strict mode's additions to the descriptions
        summary = summary_of(schema_of(adapter_of(tool.parameters, owner), owner))
    schema = tool.params_json_schema if tool.include_input_schema else None
    return await resolve_agent_tool_input(
        params=arguments_of(tool, arguments),
        schema_info=StructuredInputSchemaInfo(summary=summary, json_schema=schema),
        input_builder=tool.input_builder,
        owner=owner,
    )


async def _refuse(name: str, context: object, arguments: object) -> Any:
    raise UserError(
        f"The tool {name!r} runs an agent, and only a run can call it: give it to an agent's tools, "
        "or run the agent itself with Runner.run."
    )
