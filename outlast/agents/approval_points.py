"""The tools, handoffs and answers that an operators' policy file can name."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from outlast.agents.agent import Agent
from outlast.agents.approvals.policy import (
    ANSWER_DECISIONS,
    WITHOUT_ARGUMENTS,
    ApprovalPolicy,
    policy_of,
)
from outlast.agents.approvals.policy_file import ApprovalFile, ApprovalPoint, ApprovalPoints
from outlast.agents.calendars import Calendar, find_calendar
from outlast.agents.errors import UserError
from outlast.agents.registry import Registry, effect_of, handoffs_of
from outlast.agents.tools.definition import decisions_of
from outlast.agents.tools.hosted import HostedMCPTool, function_tools
from outlast.agents.tools.local import LocalTool
from outlast.edges import clock


def approval_points(registry: Registry) -> ApprovalPoints:
    """Return the tools, handoffs and answers of all agents."""
    agents = {name: registry.agent(name) for name in registry.names}
    has_servers = {
        name
        for name, agent in agents.items()
        if agent.mcp_servers or any(isinstance(tool, HostedMCPTool) for tool in agent.tools)
    }
    return ApprovalPoints(
        agents=tuple(agents),
        points=tuple(point for name, agent in agents.items() for point in _points_of(name, agent)),
        open_agents=frozenset(has_servers),
    )


def unproven_policies(registry: Registry, file: ApprovalFile | None) -> list[str]:
    """Return the tools, handoffs and answers whose policy needs proof of who decides, in words."""
    found: list[str] = []
    for one in approval_points(registry).points:
        policy = policy_of(one.setting if file is None else file.needs_approval(one))
        if any(not part.allows_unverified(one.effect) for part in _parts(policy)):
            what = f"the {one.kind} {one.name!r}" if one.name else "answers"
            found.append(f"The approval policy of {what} of agent {one.agent!r}")
    return found


def calendars_of(registry: Registry) -> dict[str, Calendar]:
    """Return the calendars that policies of the code have as objects, by name."""
    return {
        part.within.name: part.within
        for one in approval_points(registry).points
        for part in _parts(policy_of(one.setting))
        if isinstance(part.within, Calendar)
    }


def check_calendars(
    registry: Registry, file: ApprovalFile | None, calendars: Mapping[str, Calendar]
) -> None:
    """Refuse policies whose calendar is not there, or in whose hours a duration does not end.

    Raises:
        UserError: a policy of the code or of the operators' file cannot be counted.
    """
    of_file = file.calendars if file is not None else dict[str, Calendar]()
    tables = (of_file, calendars, calendars_of(registry))
    for one in approval_points(registry).points:
        policy = policy_of(one.setting if file is None else file.needs_approval(one))
        for part in _parts(policy):
            if part.calendar_name is None:
                continue
            try:
                calendar = find_calendar(part.calendar_name, *tables)
                for length in part.durations:
                    calendar.after(clock.now(), length)
            except UserError as error:
                raise UserError(f"The approval policy of {one.title}: {error.message}") from None


def _parts(policy: ApprovalPolicy | None) -> tuple[ApprovalPolicy, ...]:
    return () if policy is None else (policy, *policy.tiers)


def _points_of(name: str, agent: Agent[Any]) -> Iterator[ApprovalPoint]:
    for tool in function_tools(agent.tools):
        yield ApprovalPoint(
            kind="tool",
            agent=name,
            name=tool.called_name,
            decisions=decisions_of(tool.form),
            schema=None if isinstance(tool, LocalTool) else tool.params_json_schema,
            setting=tool.needs_approval,
            effect=effect_of(tool, lambda _, one: policy_of(one.needs_approval)),
        )
    for entry in handoffs_of(agent):
        yield ApprovalPoint(
            kind="handoff",
            agent=name,
            name=entry.tool_name,
            decisions=entry.decisions,
            schema=entry.input_json_schema,
            setting=entry.needs_approval,
        )
    behavior = cast("object", agent.tool_use_behavior)
    is_models = behavior == "run_llm_again"
    is_text = agent.output_type is None or agent.output_type is str
    yield ApprovalPoint(
        kind="answer",
        agent=name,
        decisions=ANSWER_DECISIONS if is_text else WITHOUT_ARGUMENTS,
        setting=agent.output_approval,
        problem=""
        if is_models
        else f"agent {name!r}: with tool_use_behavior={behavior!r:.60}, a tool's output can be the "
        "answer. Write a policy for the tool.",
    )
