"""The exception that stands for a failure.

Owns: finding the class: one of ours by its code, or what users' code raised, where this process
knows that class. Must not know: how the failure travelled.
"""

import builtins
import sys
from dataclasses import dataclass
from typing import Any, cast

from outlast.agents import errors
from outlast.contract import failures
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
    """What a guardrail found that ended the run."""

    result: Any


def exception_of(
    failure: Failure, *, run_data: Any = None, tripwire: Tripwire | None = None
) -> Exception:
    """Return the exception that stands for a failure.

    What users' code raised is raised again: a builtin exception, or one of a module that this
    process has imported already. Its cause is the exception of ours, which has the run. What a
    tool raised is the other way round the cause of `ToolFailed`.

    Args:
        failure: what went wrong.
        run_data: the run up to the failure.
        tripwire: what a guardrail found that ended the run.
    """
    ours = _ours(failure, run_data, tripwire)
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


def code_of_tripwire(code: str) -> Any:
    """Return the stage of the guardrails whose tripwire a code stands for, or None."""
    return _STAGES.get(code)


_STAGES = {
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


def _raised_by_users(failure: Failure) -> Exception | None:
    """Return what users' code raised, made again, or None where that cannot be."""
    details: dict[str, Any] = failure.details or {}
    kind = _known_class(details.get("exception"))
    if kind is None:
        return None
    text = details.get("text")
    try:
        made = kind(text if isinstance(text, str) else failure.message)
    except Exception:  # noqa: BLE001  a constructor of users, which may want anything else
        return None
    return made if isinstance(cast("object", made), Exception) else None


def _known_class(name: object) -> type[Exception] | None:
    """Return the exception class of a name, if this process has it already. Nothing is imported."""
    module_name, _, qualname = name.partition(":") if isinstance(name, str) else ("", "", "")
    found: Any = builtins if module_name == "builtins" else sys.modules.get(module_name)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type) or not issubclass(found, Exception):
        return None
    return None if found.__module__ == _OURS else found
