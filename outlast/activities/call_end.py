"""The end of a tool call that a nested run answers.

The nested run's answer is the tool's result: it passes the tool's output guardrails, and then the
parent's hooks.
"""

from dataclasses import replace

from outlast.activities.errors import failure_of, user_code
from outlast.activities.guardrails.tool_checks import ToolCheck, check_result
from outlast.activities.invocation import Invocation
from outlast.activities.parent_call import ParentCall
from outlast.agents.hooks import call_hooks
from outlast.loop.checks import ENDS_CALLER


async def end_call(invocation: Invocation, parent_call: ParentCall, result: str) -> ToolCheck:
    """Run the output guardrails of a tool call, and the parent's `on_tool_end` hooks.

    Raises:
        EffectError: a hook failed.
    """
    try:
        checked = await check_result(
            parent_call.tool, parent_call.context(invocation.wrapper), result
        )
    except Exception as error:  # noqa: BLE001  a guardrail that raises ends the run
        what = f"A guardrail of the tool {parent_call.tool.name!r}"
        checked = ToolCheck(failure=failure_of(what, error))
    if checked.failure is not None:
        details = {**(checked.failure.details or {}), ENDS_CALLER: True}
        return replace(checked, failure=replace(checked.failure, details=details))
    read = result if checked.message is None else checked.message
    with user_code(f"on_tool_end of agent {parent_call.agent.name!r}"):
        await call_hooks(*parent_call.hook_calls("on_tool_end", invocation.wrapper, read))
    return checked
