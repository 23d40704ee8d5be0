"""Loads the application that a worker hosts from `MODULE[:NAME]`."""

import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from outlast.agents.agent import Agent
from outlast.agents.errors import UserError

DEFAULT_NAME = "agents"


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """The agents of a module, and the types of their runs' contexts."""

    agents: tuple[Agent[Any], ...]
    context_types: tuple[type, ...]


def load_application(target: str, app_dir: Path) -> Application:
    """Import `MODULE[:NAME]`.

    NAME is an agent or a list of agents, by default `agents`. The module may define `context_type`
    or `context_types` for context types that no tool annotates.

    Args:
        target: `MODULE[:NAME]`, as on the command line.
        app_dir: the directory to search first.

    Raises:
        UserError: the module or name does not exist, the import raises, or there are no agents.
    """
    module_name, _, name = target.partition(":")
    if not module_name or module_name.endswith(".py") or "/" in module_name:
        raise UserError(
            f"{target!r} is not a module. Write it as in an import, such as `my_app.agents`, or "
            "`my_app.agents:triage` for one name in it."
        )
    directory = app_dir.expanduser().resolve()
    if not directory.is_dir():
        raise UserError(f"--app-dir {app_dir} is not a directory.")
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))
    module = _imported(module_name, directory)
    found = _agents_in(module, name or DEFAULT_NAME)
    return Application(agents=found, context_types=_context_types_in(module))


def _imported(name: str, directory: Path) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise UserError(
                f"There is no module {error.name!r} in {directory} or among the installed "
                "packages. Say where it is with --app-dir."
            ) from error
        raise UserError(
            f"The module {name} needs {error.name!r}, which is not installed here."
        ) from error
    except Exception as error:
        raise UserError(
            f"The module {name} cannot be imported: {type(error).__name__}: {error}. Add --debug "
            "to see where."
        ) from error


def _agents_in(module: ModuleType, name: str) -> tuple[Agent[Any], ...]:
    value: Any = vars(module).get(name)
    where = f"{module.__name__}:{name}"
    if value is None:
        offered = [key for key, one in vars(module).items() if _has_agents(one)]
        choices = ", ".join(f"{module.__name__}:{key}" for key in offered)
        hint = f"It has {choices}." if offered else "It holds no agents at all."
        raise UserError(f"The module {module.__name__} has no {name!r}. {hint}")
    if isinstance(value, Agent):
        return (cast("Agent[Any]", value),)
    if not isinstance(cast("object", value), list | tuple):
        raise UserError(
            f"{where} is of type {type(value).__name__}, but has to be an Agent or a list of them."
        )
    entries: list[Any] = [*value]
    for entry in entries:
        if not isinstance(entry, Agent):
            raise UserError(
                f"{where} holds a {type(entry).__name__}, but every entry has to be an Agent."
            )
    if not entries:
        raise UserError(f"{where} is empty: a worker needs at least one agent.")
    return tuple(entries)


def _has_agents(value: Any) -> bool:
    entries: list[Any] = [*value] if isinstance(cast("object", value), list | tuple) else [value]
    return bool(entries) and all(isinstance(entry, Agent) for entry in entries)


def _context_types_in(module: ModuleType) -> tuple[type, ...]:
    single: Any = vars(module).get("context_type")
    several: Any = vars(module).get("context_types", ())
    types = [*([single] if single is not None else []), *several]
    for one in types:
        if not isinstance(one, type):
            raise UserError(
                f"{module.__name__}: context_type has to be a class and context_types a list of "
                f"classes, but there is {one!r}."
            )
    return tuple(types)
