"""Tries every public name and feature in an environment that has outlast without its extras.

Run as `python without_extras.py ROOM...` with the public modules, such as `mcp`. It writes JSON: how
many names are there, the extra that each of the others names in its error, and the errors that name
none. It imports nothing of the tests, so that it also runs where only outlast is installed.
"""

import contextlib
import importlib
import io
import json
import os
import re
import sys
from collections.abc import Callable
from typing import Any

import outlast
from outlast import archive, blobs, models, search
from outlast.client.identity import from_token

EXTRA = re.compile(r"outlast\[(\w+)[\],]")
AGENT: Any = outlast.Agent(name="A")


def run_command() -> None:
    """Run the `outlast` command, which writes what it lacks."""
    entry = importlib.import_module("outlast.cli.entry")
    with contextlib.redirect_stderr(io.StringIO()) as written:
        entry.main()
    raise ImportError(written.getvalue())


def archive_in_a_bucket() -> None:
    """Open the archive that the environment names."""
    os.environ["OUTLAST_ARCHIVE"] = "s3://bucket"
    archive.archive_from_environment()


FEATURES: dict[str, Callable[[], object]] = {
    "a blob store in a bucket": lambda: blobs.store_from_url("s3://bucket"),
    "a graph": lambda: importlib.import_module("outlast.extensions.visualization").draw_graph(
        AGENT
    ),
    "a model of LiteLLM": lambda: models.LitellmModel("a/b"),
    "a person of a token": lambda: from_token("a.b.c", issuer="i", audience="a", key="k"),
    "a socket to a model": lambda: outlast.OpenAIResponsesWSModel(
        "gpt-5", outlast.AsyncOpenAI(api_key="key")
    ),
    "an archive in a bucket": archive_in_a_bucket,
    "an index of search in PostgreSQL": lambda: search.open_index("postgresql://host/database"),
    "encryption": lambda: importlib.import_module("outlast.encryption"),
    "the command": run_command,
}


def error_of(use: Callable[[], object]) -> str | None:
    """Use something, and return the error that says what is missing."""
    try:
        use()
    except Exception as error:  # noqa: BLE001  whatever a user would see
        return f"{type(error).__name__}: {error}"
    return None


def names(rooms: list[str]) -> dict[str, Callable[[], object]]:
    """Return how to load each public name."""
    found: dict[str, Callable[[], object]] = {}
    for module in ["outlast", *(f"outlast.{room}" for room in rooms)]:
        if error_of(lambda module=module: importlib.import_module(module)):
            found[module] = lambda module=module: importlib.import_module(module)
            continue
        loaded = importlib.import_module(module)
        for name in getattr(loaded, "__all__", ()):
            found[f"{module}.{name}"] = lambda loaded=loaded, name=name: getattr(loaded, name)
    return found


def main() -> None:
    """Write what is there, what needs an extra, and what does not say so."""
    errors = {name: error_of(use) for name, use in {**names(sys.argv[1:]), **FEATURES}.items()}
    missing = {name: error for name, error in errors.items() if error is not None}
    extras = {name: found[1] for name, error in missing.items() if (found := EXTRA.search(error))}
    silent = {name: error for name, error in missing.items() if name not in extras}
    report = {"there": len(errors) - len(missing), "extras": extras, "silent": silent}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
