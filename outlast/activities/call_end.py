"""The end of a call that a nested run has answered.

Owns: what the answer meets as the result of a tool: the tool's output guardrails, then the outer
run's hooks. Must not know: how the answer came about. Knows no Temporal.
"""

from dataclasses import replace

from outlast.activities.errors import failure_of, of_user_code
from outlast.activities.invocation import Invocation
from outlast.activities.outer_call import OuterCall
from outlast.activities.tool_checks import ToolCheck, check_result
from outlast.agents.hooks import call_hooks
from outlast.loop.checks import ENDS_CALLER


async def end_call(invocation: Invocation, outer: OuterCall, result: str) -> ToolCheck:
    """Ask a tool's output guardrails about its result, and tell the outer run's hooks of it.

    Args:
        invocation: the nested run.
        outer: the call that it answers.
        result: what the outer model is to read; a guardrail may have another text for it.

    Raises:
        EffectError: a hook failed.
    """
    try:
        checked = await check_result(outer.tool, outer.context(invocation.wrapper), result)
    except Exception as error:  # noqa: BLE001  a guardrail that raises ends the run
        what = f"A guardrail of the tool {outer.tool.name!r}"
        checked = ToolCheck(failure=failure_of(what, error))
    if checked.failure is not None:
        details = {**(checked.failure.details or {}), ENDS_CALLER: True}
        return replace(checked, failure=replace(checked.failure, details=details))
    read = result if checked.message is None else checked.message
    try:
        await call_hooks(*outer.hook_calls("on_tool_end", invocation.wrapper, read))
    except Exception as error:
        raise of_user_code(f"on_tool_end of agent {outer.agent.name!r}", error) from error
    return checked
