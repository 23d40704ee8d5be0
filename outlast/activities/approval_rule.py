"""Whether a call needs a person's approval.

Calls the tool's approval rule, and its `on_approval`, which may decide instead of a person. If the
rule fails, the call needs approval (fail closed).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, cast

from outlast.activities.invocation import Invocation
from outlast.agents.callables import call
from outlast.agents.items.run_items import ToolApprovalItem
from outlast.agents.mcp.tools import MCPFunctionTool
from outlast.agents.tools.definition import FunctionTool
from outlast.agents.tools.local import LocalTool
from outlast.loop.call_forms import arguments_of
from outlast.loop.items import call_id_of
from outlast.loop.values import Json, JsonObject


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    """Whether a call needs approval, and why.

    Attributes:
        needs_approval: a person decides.
        reason: why a person decides, or why the call was refused.
        is_refused: the tool's `on_approval` refused the call.
        is_decided: a person has already decided for every call of the tool.
    """

    needs_approval: bool = False
    reason: str | None = None
    is_refused: bool = False
    is_decided: bool = False


OPEN = ApprovalRule()


async def approval_rule_of(
    tool: FunctionTool, raw: JsonObject, invocation: Invocation
) -> ApprovalRule:
    """Call the tool's approval rule, and its `on_approval` if the call needs approval.

    The rule of a tool with a remembered decision is not called.
    """
    if tool.name in invocation.decided:
        return ApprovalRule(needs_approval=True, is_decided=True)
    gate = await _ruled(tool, raw, invocation)
    if not gate.needs_approval or not isinstance(tool, LocalTool) or tool.on_approval is None:
        return gate
    item = ToolApprovalItem(agent=invocation.agent, raw_item=raw, tool_name=tool.name)
    try:
        verdict: object = await call(tool.on_approval, invocation.wrapper, item)
    except Exception as error:  # noqa: BLE001  user code
        return _shut(f"on_approval failed ({type(error).__name__}), so a person decides.")
    decided: Mapping[str, Any] = {}
    if isinstance(verdict, Mapping):
        decided = cast("Mapping[str, Any]", verdict)
    if decided.get("approve") is True:
        return OPEN
    if decided.get("approve") is False:
        reason = decided.get("reason")
        return ApprovalRule(is_refused=True, reason=str(reason) if reason else None)
    return gate


def _shut(reason: str) -> ApprovalRule:
    return ApprovalRule(needs_approval=True, reason=reason)


async def _ruled(tool: FunctionTool, raw: JsonObject, invocation: Invocation) -> ApprovalRule:
    rule = tool.needs_approval
    if isinstance(rule, bool):
        return ApprovalRule(needs_approval=rule)
    call_id, arguments = call_id_of(raw), arguments_of(raw)
    try:
        if isinstance(tool, LocalTool):
            subject: Any = tool.asked_about(invocation.wrapper, arguments)
        else:
            subject, left_out = _fields(tool, arguments)
            if left_out and not isinstance(tool, MCPFunctionTool):  # incomplete for the rule
                return _shut(f"The call leaves {left_out} out, so a person decides.")
            altered = tool.altered(arguments) if tool.altered is not None else ""
            if altered:  # the rule and the function would differ
                return _shut(f"The function parses {altered} differently, so a person decides.")
        needed = await call(rule, invocation.wrapper, subject, call_id)
        return ApprovalRule(needs_approval=bool(needed))
    except Exception as error:  # noqa: BLE001  user code
        reason = f"The approval rule failed ({type(error).__name__}), so a person decides."
        return _shut(reason)


def _fields(tool: FunctionTool, arguments: str) -> tuple[Json, str]:
    """Return a call's arguments, and the names of the arguments that it leaves out.

    Raises:
        ValueError: the arguments are not JSON; Python's NaN would pass any limit of a rule.
    """
    fields: Json = json.loads(arguments or "{}", parse_constant=_no_number)
    left_out = sorted(tool.params_json_schema.get("properties", {}).keys() - fields.keys())
    return fields, ", ".join(left_out)


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
