"""The tools, handoffs and answers that an operators' policy file can name."""

from collections.abc import Iterator
from typing import Any, cast

from outlast.agents.agent import Agent
from outlast.agents.approvals.policy import ANSWER_DECISIONS, WITHOUT_ARGUMENTS, policy_of
from outlast.agents.approvals.policy_file import ApprovalFile, ApprovalPoint, ApprovalPoints
from outlast.agents.registry import Registry, effect_of, handoffs_of
from outlast.agents.tools.definition import decisions_of
from outlast.agents.tools.hosted import HostedMCPTool, function_tools
from outlast.agents.tools.local import LocalTool


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
        parts = () if policy is None else (policy, *policy.tiers)
        if any(not part.allows_unverified(one.effect) for part in parts):
            what = f"the {one.kind} {one.name!r}" if one.name else "answers"
            found.append(f"The approval policy of {what} of agent {one.agent!r}")
    return found


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
