"""The entry point of the `outlast` command; reports packages that the other modules import."""

import os
import sys
from contextlib import suppress
from importlib.util import find_spec
from typing import NoReturn

from outlast.cli.exit_codes import ExitCode


def main() -> int:
    """Run the command line; ends the process with its exit code."""
    absent = [package for package in ("rich", "typer") if find_spec(package) is None]
    if absent:
        sys.stderr.write(
            f"The outlast command needs {' and '.join(absent)}, which this Python does not have: "
            'pip install "outlast[cli,dev]"\n'
        )
        return ExitCode.FAILED
    if find_spec("fcntl") is None:
        sys.stderr.write(
            "The outlast command needs Linux or macOS. On Windows, run it in the Windows Subsystem "
            "for Linux.\n"
        )
        return ExitCode.FAILED
    from outlast.cli.app import app

    try:
        app()
    except SystemExit as ending:
        _end(ending.code if isinstance(ending.code, int) else ExitCode.FAILED)
    return ExitCode.OK


def _end(code: int) -> NoReturn:
    """End the process without finalizing the interpreter.

    The Temporal SDK's threads may then still release the interpreter lock, and Python would abort
    and lose the exit code.
    """
    with suppress(BrokenPipeError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
