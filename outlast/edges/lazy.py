"""Internal. Loads a package's names on first use (PEP 562), so that its import is fast.

A lazy package lists its names in its `__init__.pyi`, which type checkers read too, and calls
`attach(__name__)` in its `__init__.py`. So each name is written once.
"""

import sys
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType

EXTRAS = {
    "cryptography": "encrypt",
    "mcp": "mcp",
    "opentelemetry": "otel",
    "psycopg": "search",
    "pydantic_evals": "evals",
    "slack_sdk": "slack",
    "sqlalchemy": "sqlalchemy",
    "starlette": "serve",
    "websockets": "realtime",
}
"""The extras of outlast, by the top-level package that each installs for lazy names."""

ROOMS = frozenset({"evals", "mcp", "otel", "realtime", "serve"})
"""The packages of outlast that need the extra of their name, whichever of its parts is missing."""

POSIX = frozenset({"fcntl", "pwd", "resource"})
"""The modules of Python that Windows does not have."""


def attach(package: str) -> None:
    """Add the names in a package's `__init__.pyi` to the package."""
    module = sys.modules[package]
    spec = module.__spec__
    if spec is None or spec.origin is None:
        raise ImportError(f"{package} was not imported from a file, so its stub cannot be found")
    loader: object = spec.loader
    read = getattr(loader, "get_data")  # noqa: B009  a package in a zip archive has it too
    publish(module, homes(read(f"{spec.origin.removesuffix('c')}i").decode()))


def homes(stub: str) -> dict[str, str]:
    """Return the home of each name in a stub, as `package.module:name`."""
    lines = (line.partition("#")[0] for line in stub.splitlines())
    words = " ".join(lines).replace("(", " ").replace(")", " ").split()
    found: dict[str, str] = {}
    home = ""
    for before, word, after in zip(words, words[1:], words[2:], strict=False):
        if before == "from":
            home = word
        elif word == "as":
            found[after.rstrip(",")] = f"{home}:{before}"
    return found


def publish(module: ModuleType, names: Mapping[str, str]) -> None:
    """Add names that other modules define to a module."""

    def find(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
        value = load(names[name])
        setattr(module, name, value)
        return value

    def list_names() -> list[str]:
        return [*vars(module), *names]

    vars(module).update(__all__=list(names), __getattr__=find, __dir__=list_names)


def load(home: str) -> object:
    """Import the object that `package.module:name` names.

    Raises:
        ModuleNotFoundError: the object needs a package that an extra installs, or is not for
            this operating system.
    """
    module, _, name = home.partition(":")
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in POSIX:
            raise ModuleNotFoundError(
                f"{name} needs Linux or macOS: this Python has no module {package}. On Windows, use "
                "the Windows Subsystem for Linux, or a Temporal server of your own: Runner and "
                "AgentWorker take client=.",
                name=error.name,
            ) from error
        if package not in EXTRAS:
            raise
        room = home.split(".")[1]
        extra = room if room in ROOMS else EXTRAS[package]
        raise ModuleNotFoundError(
            f"{name} requires the '{extra}' extra for the {package} package: "
            f"pip install 'outlast[{extra}]'",
            name=error.name,
        ) from error
