"""Loads agents and webhooks from `MODULE[:NAME]` or `FILE[:NAME]`."""

import inspect
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, cast

from outlast.agents.agent import Agent
from outlast.agents.argument_names import near_name
from outlast.agents.errors import AgentsException, UserError
from outlast.agents.installed_sdk import agent_words, is_sdk_agent, refuse_agent
from outlast.cli.target import Location, locate

if TYPE_CHECKING:
    from outlast.deliveries import Webhooks
    from outlast.worker import AgentWorkerConfig

AGENTS: Final = "agents"
CONFIG: Final = "worker_config"
WEBHOOKS: Final = "webhooks"
DEFAULT_NAMES: Final = (CONFIG, AGENTS)
"""The names that are looked up where the target has none, in this order."""


def load_config(target: str, app_dir: Path) -> "AgentWorkerConfig":
    """Import a target, and return the arguments of its `AgentWorker`.

    A target is `MODULE[:NAME]` or `FILE[:NAME]`. NAME is an agent, a list of agents, an
    `AgentWorkerConfig`, or a function that returns one of these. Its default is `worker_config`,
    then `agents`, then the only agent of the module. The module may define `context_type` or
    `context_types` for context types that no tool annotates.
    """
    location = locate(target, app_dir)
    module = _import(location)
    name, value = _value_in(module, location)
    where = f"{location.shown}:{name}"
    if not isinstance(value, Agent | list | tuple | Mapping) and callable(value):
        value, where = _made_by(value, where), f"{where}()"
    entry = cast("object", value)
    values: Mapping[str, Any] = (
        _check_names(cast("Mapping[str, Any]", entry), where)
        if isinstance(entry, Mapping)
        else {"agents": entry}
    )
    listed = [*values.get("context_types", ()), *_context_types_in(module)]
    config = {**values, "agents": _agents(values["agents"], where), "context_types": listed}
    return cast("AgentWorkerConfig", config)


def load_webhooks(target: str, app_dir: Path) -> "Webhooks":
    """Import a target `MODULE[:NAME]` or `FILE[:NAME]`, and return its webhooks.

    The default of NAME is `webhooks`.
    """
    from outlast.deliveries import Webhooks

    location = locate(target, app_dir)
    name = location.name or WEBHOOKS
    value = vars(_import(location)).get(name)
    if not isinstance(value, Webhooks):
        found = "is missing" if value is None else f"is of type {type(value).__name__}"
        raise UserError(
            f"--webhooks needs an object of outlast.deliveries.Webhooks, and {location.shown}:{name} "
            f"{found}."
        )
    if not value:
        raise UserError(
            f"{location.shown}:{name} takes no webhook. Decorate a function with @{name}.on(...)."
        )
    return value


def load_object(target: str, app_dir: Path) -> Any:
    """Import a target `MODULE:NAME` or `FILE:NAME`, and return the object."""
    location = locate(target, app_dir)
    held = vars(_import(location))
    if location.name not in held:
        what = f"no {location.name!r}" if location.name else "several objects: name one"
        raise UserError(f"{location.shown} has {what}, as in `{location.shown}:redact`.")
    return held[location.name]


def _import(location: Location) -> ModuleType:
    if str(location.directory) not in sys.path:
        sys.path.insert(0, str(location.directory))
    name = location.module
    try:
        module = import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise UserError(
                f"There is no module {error.name!r} in {location.directory} or among the installed "
                "packages. Say where it is with --app-dir."
            ) from error
        raise UserError(
            f"{location.shown} needs {error.name!r}, which is not installed here."
        ) from error
    except Exception as error:  # importing runs the user's code
        raise UserError(
            f"{location.shown} cannot be imported: {_in_words(error)}. Add --debug to see where."
        ) from error
    loaded = getattr(module, "__file__", None)
    if location.file is not None and (loaded is None or Path(loaded).resolve() != location.file):
        raise UserError(
            f"{location.file} cannot be imported, because another module is named {name!r}: "
            f"{loaded or 'a built-in one'}. Rename the file."
        )
    return module


def _value_in(module: ModuleType, location: Location) -> tuple[str, Any]:
    held = vars(module)
    if location.name:
        if location.name not in held:
            raise UserError(
                f"{location.shown} has no {location.name!r}. {_choices(location, held)}"
            )
        return location.name, held[location.name]
    for name in DEFAULT_NAMES:
        if held.get(name) is not None:
            return name, held[name]
    agents = {id(value): (name, value) for name, value in held.items() if _is_agent(value)}
    if len(agents) == 1:
        return next(iter(agents.values()))
    if agents:
        names = [name for name, _ in agents.values()]
        raise UserError(
            f"{location.shown} has {len(names)} agents and nothing says which of them to run. "
            f"Write `agents = [{', '.join(names)}]` in it, or name one: `{location.shown}:{names[0]}`."
        )
    choices = _modules(module, location) or _choices(location, held)
    raise UserError(f"{location.shown} has neither {CONFIG!r} nor {AGENTS!r}. {choices}")


def _modules(package: ModuleType, location: Location) -> str:
    """Name the modules of a package, which is easily taken for its module of the same name."""
    paths = list(package.__path__) if location.file is None and hasattr(package, "__path__") else []
    names = [f"{location.shown}.{found.name}" for found in iter_modules(paths) if not found.ispkg]
    if not names:
        return ""
    return (
        f"It is a package: name one of its modules, {' or '.join(f'`{name}`' for name in names)}."
    )


def _choices(location: Location, held: Mapping[str, Any]) -> str:
    offered = [name for name, value in held.items() if _has_agents(value)]
    theirs = next((value for value in held.values() if is_sdk_agent(value)), None)
    if not offered and theirs is not None:
        return f"{agent_words(theirs)}."
    if not offered:
        return "It holds no agents: define one, such as `desk = Agent(name='Desk')`."
    return f"It has {', '.join(f'{location.shown}:{name}' for name in offered)}."


def _made_by(factory: Callable[[], Any], where: str) -> Any:
    try:
        made = factory()
    except AgentsException as error:
        raise UserError(f"{where}() failed: {error}") from error
    except Exception as error:  # the function is the user's code
        raise UserError(
            f"{where}() failed: {_in_words(error)}. Add --debug to see where."
        ) from error
    if inspect.iscoroutine(made):
        made.close()
        raise UserError(
            f"{where} is an async function. Make it a plain one: `def`, not `async def`."
        )
    return made


def _check_names(values: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    from temporalio.worker import Worker

    from outlast.worker import AgentWorkerConfig

    options = inspect.signature(cast("Callable[..., Any]", Worker)).parameters
    allowed = {*AgentWorkerConfig.__annotations__, *options} - {"client"}
    for name in values:
        if name not in allowed:
            hint = near_name(str(name), allowed) or " The options are those of AgentWorker."
            raise UserError(f"{where} has the unknown option {name!r}.{hint}")
    if "agents" not in values:
        raise UserError(f"{where} has no 'agents'. Add them: {{'agents': [my_agent], ...}}.")
    return values


def _agents(value: object, where: str) -> list[Agent[Any]]:
    refuse_agent(value)
    if isinstance(value, Agent):
        return [cast("Agent[Any]", value)]
    if not isinstance(value, list | tuple):
        raise UserError(
            f"{where} is of type {type(value).__name__}, but must be an Agent, a list of them, "
            "an AgentWorkerConfig, or a function that returns one of these."
        )
    entries: list[Any] = [*cast("list[Any]", value)]
    for entry in entries:
        refuse_agent(entry)
        if not isinstance(entry, Agent):
            raise UserError(
                f"{where} holds a {type(entry).__name__}, but every entry must be an Agent."
            )
    if not entries:
        raise UserError(f"{where} is empty: a worker needs at least one agent.")
    return entries


def _is_agent(value: object) -> bool:
    return isinstance(value, Agent)


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
                f"{module.__name__}: context_type must be a class and context_types a list of "
                f"classes, but there is {one!r}."
            )
    return tuple(types)


def _in_words(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".")
