"""The exit codes of `outlast`: their meanings, and the errors that have them."""

from enum import IntEnum
from typing import Final

from outlast.agents import errors


class ExitCode(IntEnum):
    """The exit codes. Scripts rely on them: never change the meaning of one."""

    OK = 0
    FAILED = 1
    USAGE = 2
    WAITING = 3
    NOT_FOUND = 4
    REFUSED = 5
    NO_SERVER = 6
    CANCELLED = 7
    INTERRUPTED = 130


MEANINGS: Final = {
    ExitCode.OK: "done",
    ExitCode.FAILED: "the run failed, or something that is needed is missing or unsafe",
    ExitCode.USAGE: "wrong arguments, or a mistake in the program",
    ExitCode.WAITING: "the run waits: for a person to decide or to give the conversation back, or for something outside",
    ExitCode.NOT_FOUND: "there is no such run or schedule, or the run has ended",
    ExitCode.REFUSED: "the run refused a decision or a delivery: late, unknown, not theirs, or not what it asks for",
    ExitCode.NO_SERVER: "no Temporal server answers",
    ExitCode.CANCELLED: "the run was cancelled",
    ExitCode.INTERRUPTED: "interrupted with Ctrl-C; the run continues",
}

_CODES: Final[dict[type[errors.AgentsException], ExitCode]] = {
    errors.AgentsException: ExitCode.FAILED,
    errors.UserError: ExitCode.USAGE,
    errors.RunNotFound: ExitCode.NOT_FOUND,
    errors.ScheduleNotFound: ExitCode.NOT_FOUND,
    errors.RunClosed: ExitCode.NOT_FOUND,
    errors.RunCancelled: ExitCode.CANCELLED,
    errors.DecisionRefused: ExitCode.REFUSED,
    errors.DeliveryRefused: ExitCode.REFUSED,
    errors.IdentityRefused: ExitCode.REFUSED,
    errors.ServerUnavailable: ExitCode.NO_SERVER,
}


def exit_code_of(error: errors.AgentsException) -> ExitCode:
    """Return the exit code of an error's class or nearest base class.

    A user error that failed a run is a failed run; without a run, the command was wrong.
    """
    code = next(_CODES[kind] for kind in type(error).__mro__ if kind in _CODES)
    return ExitCode.FAILED if code is ExitCode.USAGE and error.run_data is not None else code


def epilog() -> str:
    """Return the table of exit codes for the end of `outlast --help`."""
    rows = [f"{code:>3}  {meaning}" for code, meaning in MEANINGS.items()]
    return "\n".join(["Exit codes:", *rows])
