"""Options of commands, read from the docstrings of their functions.

A section `Command line:` has an entry for each option, such as `keep_open: Stay open.` The flag is
the parameter's name; `run_id (--id ID): …` names another one, and what stands for the value.
A parameter without a default is an argument. Settings such as `min=` are in its annotation.
"""

import copy
import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Annotated, Any, Final, cast, get_args, get_origin

import typer

_SECTION: Final = "\n\nCommand line:\n"
_ENTRY: Final = re.compile(r"^    (\w+)(?: \((.+?)\))?: (.+)$", re.MULTILINE)
_CONTINUATION: Final = re.compile(r"\n {5,}")


def summary_of(command: Callable[..., Any]) -> str:
    """Return a docstring without its section of options."""
    return inspect.cleandoc(command.__doc__ or "").partition(_SECTION)[0]


def parameters_of(command: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a function or dataclass, with the options that are described."""
    documented = reversed(command.__mro__) if isinstance(command, type) else [command]
    texts = [inspect.cleandoc(one.__doc__ or "").partition(_SECTION)[2] for one in documented]
    entries = _ENTRY.findall(_CONTINUATION.sub(" ", "\n".join(texts)))
    described = {name: (form.split(), words) for name, form, words in entries}
    taken = inspect.signature(command).parameters
    if unknown := described.keys() - taken.keys():
        raise TypeError(f"{command.__qualname__} describes {sorted(unknown)}, and has none such.")
    return [_option(one, *described.get(one.name, ((), ""))) for one in taken.values()]


def _option(parameter: inspect.Parameter, form: list[str], words: str) -> inspect.Parameter:
    if not words:
        return parameter
    kind, given = parameter.annotation, None
    if get_origin(kind) is Annotated:
        kind, given = get_args(kind)
    if given is None and parameter.default is inspect.Parameter.empty:
        given = typer.Argument(show_default=False)
    info: Any = copy.copy(given or typer.Option())
    info.help = words
    info.metavar = next((one for one in form if not one.startswith("-")), None)
    if isinstance(info, typer.models.OptionInfo):
        flags = tuple(one for one in form if one.startswith("-"))
        info.param_decls = flags or (f"--{parameter.name.replace('_', '-')}",)
    return parameter.replace(annotation=Annotated[kind, info])


def described(command: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function a command with the options that its docstring describes.

    A parameter that is a dataclass stands for one option for each field, which the docstring of the
    dataclass describes. Those of the first parameter come last, but its arguments first.
    """
    taken = parameters_of(command)
    groups = {
        one.name: cast("Any", one.annotation) for one in taken if is_dataclass(one.annotation)
    }
    options_of = {name: parameters_of(group) for name, group in groups.items()}
    own = [option for one in taken for option in options_of.get(one.name, [one])]
    made: Callable[..., Any] = command
    if groups:
        shared = options_of.get(taken[0].name, [])
        arguments = [one for one in shared if one.default is inspect.Parameter.empty]
        own = [*arguments, *own[len(shared) :], *(one for one in shared if one not in arguments)]
        own = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own]

        @functools.wraps(command)
        def run(**given: Any) -> Any:
            for name, group in groups.items():
                given[name] = group(**{one.name: given.pop(one.name) for one in options_of[name]})
            return command(**given)

        made = run
    vars(made)["__signature__"] = inspect.Signature(own)
    made.__annotations__ = {one.name: one.annotation for one in own}
    made.__doc__ = summary_of(command)
    return made
