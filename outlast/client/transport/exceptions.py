"""The exception of a failure: outlast's own for its code, or user code's imported class."""

import builtins
import sys
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from outlast.agents import errors
from outlast.client.transport.provider_errors import as_openai_error, openai_error
from outlast.contract import failures
from outlast.loop.checks import GuardrailStage
from outlast.loop.values import Failure

_ERRORS: dict[str, type[errors.AgentsException]] = {
    kind.code: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.AgentsException)
}
_ERRORS[failures.INVALID_OUTPUT] = errors.ModelBehaviorError
_OURS = errors.AgentsException.__module__


@dataclass(frozen=True, slots=True, kw_only=True)
class Tripwire:
    """The result of the guardrail that ended a run."""

    result: Any


def exception_of(
    failure: Failure, *, run_data: Any = None, tripwire: Tripwire | None = None
) -> Exception:
    """Return the exception of a failure.

    An exception of user code is raised again if it is a builtin, or from a module that this process
    has imported. Its cause is outlast's own exception, which has the run. An exception of a tool is
    instead the cause of `ToolFailed`; but one of outlast's, such as `MaxTurnsExceeded` of a run that
    the tool started, is raised again.
    """
    ours = as_openai_error(_ours(failure, run_data, tripwire))
    if isinstance(ours, errors.ToolFailed) and (own := _raised_by_tool(failure)) is not None:
        own.run_data, own.__cause__ = run_data, ours
        return own
    theirs = _raised_by_users(failure)
    if theirs is None:
        return ours
    if isinstance(ours, errors.ToolFailed):
        ours.__cause__ = theirs
        return ours
    if isinstance(theirs, errors.AgentsException):
        theirs.run_data = run_data
    theirs.__cause__ = ours
    return theirs


STAGES_OF_TRIPWIRES: Final[dict[str, GuardrailStage]] = {
    failures.INPUT_GUARDRAIL: "input",
    failures.OUTPUT_GUARDRAIL: "output",
    failures.TOOL_INPUT_GUARDRAIL: "tool_input",
    failures.TOOL_OUTPUT_GUARDRAIL: "tool_output",
}


def _ours(failure: Failure, run_data: Any, tripwire: Tripwire | None) -> errors.AgentsException:
    error = _ERRORS.get(failure.code, errors.AgentsException)(failure.message, run_data=run_data)
    details: dict[str, Any] = failure.details or {}
    error.details = failure.details
    match error:
        case errors.ModelRefusalError():
            error.refusal = failure.message
        case errors.ModelTimeoutError():
            error.timeout_seconds = details.get("timeout_seconds")
        case errors.ToolTimeoutError():
            error.tool_name = details.get("tool_name")
            error.timeout_seconds = details.get("timeout_seconds")
        case errors.InputGuardrailTripwireTriggered() | errors.OutputGuardrailTripwireTriggered():
            error.guardrail_result = tripwire.result if tripwire else None
        case (
            errors.ToolInputGuardrailTripwireTriggered()
            | errors.ToolOutputGuardrailTripwireTriggered()
        ):
            error.guardrail = tripwire.result.guardrail if tripwire else None
            error.output = tripwire.result.output if tripwire else None
        case _:
            pass
    return error


def _raised_by_tool(failure: Failure) -> errors.AgentsException | None:
    """Return outlast's own exception that a tool raised, or None; a `UserError` is not one."""
    kind = _ERRORS.get(str((failure.details or {}).get("code")))
    if kind is None or kind in {errors.AgentsException, errors.UserError}:
        return None
    return _ours(replace(failure, code=kind.code), None, None)


def _raised_by_users(failure: Failure) -> Exception | None:
    details: dict[str, Any] = failure.details or {}
    kind = _imported_class(details.get("exception"))
    if kind is None:
        return None
    text = details.get("text")
    try:
        made = kind(text if isinstance(text, str) else failure.message)
    except Exception:  # noqa: BLE001  a user's constructor may need other arguments
        return openai_error(kind, text if isinstance(text, str) else failure.message)
    return made if isinstance(cast("object", made), Exception) else None


def _imported_class(name: object) -> type[Exception] | None:
    module_name, _, qualname = name.partition(":") if isinstance(name, str) else ("", "", "")
    found: Any = builtins if module_name == "builtins" else sys.modules.get(module_name)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type) or not issubclass(found, Exception):
        return None
    return None if found.__module__ == _OURS else found
