"""The tools of MCP servers, as function tools of an agent."""

import json
from collections.abc import Awaitable, Callable, Sequence
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, Protocol, TypeAlias, cast

from outlast.agents.approvals.policy import ApprovalPolicy, NeedsApproval
from outlast.agents.callables import call, check_callable
from outlast.agents.context.wrapper import RunContextWrapper, ToolContext
from outlast.agents.errors import ModelBehaviorError, UserError
from outlast.agents.items.tool_origin import ToolOrigin, ToolOriginType
from outlast.agents.logs import get_logger
from outlast.agents.mcp.approval import ApprovalByName
from outlast.agents.mcp.calls import call_in_run
from outlast.agents.mcp.server import (
    MCPConfig,
    MCPServer,
    MCPToolCustomDataContext,
    MCPToolMetaContext,
)
from outlast.agents.schemas.strict_schema import strict_schema
from outlast.agents.tools.custom_data import as_custom_data
from outlast.agents.tools.definition import (
    FunctionTool,
    ToolRetry,
    default_tool_error,
    title_of_stranger,
)
from outlast.agents.user_types import object_problem
from outlast.loop.values import JsonObject

logger: Final = get_logger(__name__)

Ask: TypeAlias = Callable[[MCPServer, RunContextWrapper[Any], Any], Awaitable[list[Any] | None]]


class ServedAgent(Protocol):
    """The fields of an agent with MCP servers."""

    name: str
    tools: list[Any]
    mcp_servers: list[MCPServer]
    mcp_config: MCPConfig


@dataclass(eq=False)
class MCPFunctionTool(FunctionTool):
    """A tool of an MCP server; `mcp_title` is its name for people."""

    _: KW_ONLY
    tool_origin: ToolOrigin | None = None
    mcp_title: str | None = None
    mcp_annotations: Any = None

    @property
    def server_name(self) -> str:
        """The name of the server."""
        return (self.tool_origin and self.tool_origin.mcp_server_name) or ""


def source_of(tool: FunctionTool) -> str:
    """Return the name of the MCP server that has a tool; empty for a tool of the program."""
    return tool.server_name if isinstance(tool, MCPFunctionTool) else ""


def check_mcp_config(place: str, config: object) -> None:
    """Refuse an invalid config."""
    keys = MCPConfig.__annotations__
    if not isinstance(config, dict) or set(cast("JsonObject", config)) - set(keys):
        raise UserError(f"{place} must be a dict with {', '.join(keys)}, not {config!r}.")
    error_function = cast("JsonObject", config).get("failure_error_function")
    if error_function is not None:
        what = f"{place}['failure_error_function']"
        check_callable(error_function, ("context", "error"), what=what)


async def list_tools(server: MCPServer, context: RunContextWrapper[Any], agent: Any) -> list[Any]:
    """Return a server's tools for an agent."""
    return await server.list_tools(context, agent)


async def mcp_tools_of(
    agent: ServedAgent, context: RunContextWrapper[Any], ask: Ask = list_tools
) -> list[FunctionTool]:
    """Return the tools of an agent's servers, in the order of the servers.

    `ask` lists the tools of one server, called with (server, context, agent); None leaves it out.
    """
    if not agent.mcp_servers:
        return []
    import asyncio  # imported here because it is slow, and defining agents does not need it

    lists = await asyncio.gather(*(ask(server, context, agent) for server in agent.mcp_servers))
    for server, listed in zip(agent.mcp_servers, lists, strict=True):
        if listed is not None:
            server.seen_tools = listed
    tools, problems = _named(agent, [listed or [] for listed in lists])
    for server, listed, found in zip(agent.mcp_servers, lists, problems, strict=True):
        if listed is not None:
            _note_problems(server, found)
    return tools


def tools_seen(agent: ServedAgent) -> list[FunctionTool]:
    """Return the tools of an agent's servers that this process has listed before."""
    if not agent.mcp_servers:
        return []
    try:
        return _named(
            agent, [server.cached_tools or server.seen_tools for server in agent.mcp_servers]
        )[0]
    except UserError:  # the names clash; a run reports that
        return []


def _named(
    agent: ServedAgent, lists: Sequence[Sequence[Any]]
) -> tuple[list[FunctionTool], list[dict[str, str]]]:
    """Return the tools, and for each server why tools of it are left out or have other names."""
    from outlast.agents.mcp.names import names_with_server, own_names  # only where a server lists

    problems: list[dict[str, str]] = [dict(server.listing_problems) for server in agent.mcp_servers]
    listed: list[tuple[MCPServer, Any, dict[str, str]]] = []
    for server, tools, found in zip(agent.mcp_servers, lists, problems, strict=True):
        usable = _usable(tools, found)
        listed += [(server, tool, found) for tool in usable]
    names = [(server.name, str(tool.name)) for server, tool, _ in listed]
    if agent.mcp_config.get("include_server_in_tool_names", False):
        chosen = names_with_server(names, reserved=[tool.name for tool in agent.tools])
    else:
        chosen = own_names(names, owner=f"Agent {agent.name!r}")
        for (_, tool, found), name in zip(listed, chosen, strict=True):
            if name != tool.name:
                found[tool.name] = f"is called {name} here: models take no such name"
    made: list[FunctionTool] = [
        function_tool_of(server, tool, name, agent)
        for (server, tool, _), name in zip(listed, chosen, strict=True)
    ]
    return made, problems


def _usable(tools: Sequence[Any], problems: dict[str, str]) -> list[Any]:
    """Return the tools that can be offered: an odd one does not cost the others."""
    usable: dict[str, Any] = {}
    for tool in tools:
        name = str(tool.name)
        schema: object = getattr(tool, "input_schema", None)
        kind = cast("JsonObject", schema).get("type") if isinstance(schema, dict) else schema
        if not name:
            problems[name] = "is left out: it has no name"
        elif name in usable:
            problems[name] = "is listed more than once: the first one is used"
        elif not isinstance(schema, dict) or kind not in (None, "object", ["object"]):
            problems[name] = "is left out: its inputSchema is no JSON Schema of an object"
        else:
            usable[name] = tool
    return list(usable.values())


def _note_problems(server: MCPServer, problems: dict[str, str]) -> None:
    for name, problem in problems.items():
        if server.tool_problems.get(name) != problem:
            logger.warning("MCP server %r: the tool %r %s", server.name, name, problem)
    server.tool_problems = problems


def function_tool_of(
    server: MCPServer, tool: Any, name: str, agent: ServedAgent
) -> MCPFunctionTool:
    """Make a function tool of a server's tool."""
    given = deepcopy(cast("JsonObject", tool.input_schema))
    given.setdefault("properties", {})  # some providers require it, but the protocol does not
    from outlast.agents.mcp.schemas import root_object  # only where a server lists tools

    schema = root_object(given)
    strict = None
    if agent.mcp_config.get("convert_schemas_to_strict", False):
        # A schema that had to be repaired may lack properties, and strict mode would forbid them.
        strict = _strict(given, f"Tool {name!r}")
    otherwise = agent.mcp_config.get("failure_error_function", default_tool_error)
    annotations = getattr(tool, "annotations", None)
    title = getattr(tool, "title", None) or getattr(annotations, "title", None)
    return MCPFunctionTool(
        name=name,
        description=tool.description or title or "",
        params_json_schema=schema if strict is None else strict,
        on_invoke_tool=partial(_invoke, server, tool),
        validate=partial(_problem, name, _required(schema)),
        strict_json_schema=strict is not None,
        needs_approval=_approval(server, tool, agent),
        timeout=server.tool_timeout,
        retry=_retry(server.tool_retry, annotations),
        failure_error_function=server.failure_error_function(otherwise),
        tool_input_guardrails=list(server.tool_input_guardrails or []),
        tool_output_guardrails=list(server.tool_output_guardrails or []),
        tool_origin=ToolOrigin(ToolOriginType.MCP, mcp_server_name=server.name),
        title=title_of_stranger(title) or None,
        argument_titles={},
        mcp_title=title,
        mcp_annotations=annotations,
    )


def tool_of_task(
    server: MCPServer, tool_name: str, name: str, agent: ServedAgent
) -> MCPFunctionTool:
    """Make a function tool of a tool that this process has not listed, to look at its task.

    Its arguments have been checked, and are not needed any more.
    """
    bare = SimpleNamespace(name=tool_name, input_schema={"type": "object"}, description="")
    return function_tool_of(server, bare, name, agent)


async def _invoke(server: MCPServer, tool: Any, context: ToolContext[Any], arguments: str) -> Any:
    if (problem := object_problem(context.tool_name, arguments)) is not None:
        raise ModelBehaviorError(problem)
    values: JsonObject = json.loads(arguments or "{}")
    meta = await _meta(server, tool, context, values)
    result = await call_in_run(server, tool.name, values, meta, context)
    from outlast.agents.mcp.results import output_of  # only where a server is called

    output = output_of(result, structured=server.use_structured_content)
    if server.custom_data_extractor is not None:
        about = MCPToolCustomDataContext(
            run_context=context,
            server_name=server.name,
            tool_name=tool.name,
            tool_display_name=context.tool_name,
            arguments=deepcopy(values),
            result_meta=deepcopy(getattr(result, "meta", None)),
            structured_content=deepcopy(getattr(result, "structured_content", None)),
            is_error=getattr(result, "is_error", None),
            tool_output=deepcopy(output),
        )
        context.custom_data = as_custom_data(await call(server.custom_data_extractor, about))
    return output


async def _meta(
    server: MCPServer, tool: Any, context: ToolContext[Any], arguments: JsonObject
) -> JsonObject | None:
    """Return the metadata of a call: the resolver's, the tool's, and the idempotency key."""
    found: JsonObject = {}
    if server.tool_meta_resolver is not None:
        meta_context = MCPToolMetaContext(
            run_context=context,
            server_name=server.name,
            tool_name=tool.name,
            arguments=deepcopy(arguments),
        )
        made: object = await call(server.tool_meta_resolver, meta_context)
        if made is not None and not isinstance(made, dict):
            raise UserError(
                f"The tool_meta_resolver of the MCP server {server.name!r} returned "
                f"{type(made).__name__}: return a dict or None."
            )
        found |= cast("JsonObject", made or {})
    found |= deepcopy(getattr(tool, "meta", None) or {})
    if server.idempotency_meta_key is not None:
        found[server.idempotency_meta_key] = context.idempotency_key
    return found or None


def _approval(server: MCPServer, tool: Any, agent: ServedAgent) -> NeedsApproval:
    rule = server.approval
    if isinstance(rule, bool | ApprovalPolicy):
        return rule
    if isinstance(rule, ApprovalByName):
        return rule.of(tool.name)

    async def needs_approval(
        context: RunContextWrapper[Any], _arguments: JsonObject, _call_id: str
    ) -> bool:
        return bool(await call(rule, context, agent, tool))

    return needs_approval


def _retry(retry: ToolRetry, annotations: Any) -> ToolRetry:
    """Return a tool's retry policy; one that the server calls idempotent repeats any failure."""
    hints = ("read_only_hint", "idempotent_hint")
    return replace(
        retry,
        errors=retry.errors or any(getattr(annotations, hint, None) is True for hint in hints),
    )


def _strict(schema: JsonObject, owner: str) -> JsonObject | None:
    """Return the strict form of a schema, or None; a server's schema may be anything."""
    try:
        return strict_schema(schema, owner=owner)
    except (UserError, TypeError, AttributeError, ValueError, KeyError, RecursionError):
        return None


def _required(schema: JsonObject) -> list[str]:
    names = schema.get("required")
    return [str(name) for name in cast("list[Any]", names)] if isinstance(names, list) else []


def _problem(name: str, required: Sequence[str], arguments: str) -> str | None:
    if (problem := object_problem(name, arguments)) is not None:
        return problem
    fields: JsonObject = json.loads(arguments or "{}")
    missing = [one for one in required if one not in fields]
    return f"The arguments of {name} lack {', '.join(missing)}." if missing else None
