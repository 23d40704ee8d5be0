"""The public names of a version with their parameters, and what of them another version breaks.

A version's names are written as a stub, a section for each public module, so that people can read
how they changed; griffe compares two of them.
"""

import ast
import importlib
import inspect
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast, get_args, get_origin

import griffe

import outlast
from outlast.edges import lazy

INDEX = Path(__file__).parents[2] / "docs/reference/api/index.md"
TIERS = INDEX.with_name("tiers.toml")
TIER_NAMES = ("stable", "sdk", "provisional")
SECTION = "# --- "
SHOWN = (type(None), bool, int, float, str)
"""Types of defaults that are written; others are `...`."""


def modules() -> list[str]:
    """Return the public modules, as the reference lists them."""
    text = INDEX.read_text(encoding="utf-8").partition("## Public modules")[2]
    found = re.findall(r"^\| `(outlast[.\w]*)` \|", text, re.MULTILINE)
    assert found, f"{INDEX} has no table of public modules"
    return found


def written() -> str:
    """Return the stub of this version."""
    return "".join(f"{SECTION}{name}\n{_section(name)}" for name in modules())


def broken(before: str, after: str) -> list[str]:
    """Return what of the first stub a program cannot use any more with the second one, in words."""
    old, new = _parsed(before), _parsed(after)
    found = [f"{name}: the module is gone" for name in old.keys() - new.keys()]
    for name in old.keys() & new.keys():
        found += [
            f"{one.obj.path}: {one.explain(griffe.ExplanationStyle.MARKDOWN)}"
            for one in griffe.find_breaking_changes(old[name], new[name])
            if one.obj.name != "model_config"  # which only some versions of pydantic set
            and not isinstance(one, griffe.AttributeChangedValueBreakage)
        ]
        found += _lost_words(old[name], new[name])
    return sorted(found)


def _lost_words(old: griffe.Module, new: griffe.Module) -> list[str]:
    """Return the words that a literal has no more; further ones break no program.

    Only some versions of griffe compare values.
    """
    return [
        f"{one.path}: has no {word!r} any more"
        for name, one in old.attributes.items()
        for word in sorted(_words_of(one) - _words_of(new.attributes.get(name)))
        if name in new.attributes
    ]


def _words_of(one: griffe.Attribute | None) -> set[str]:
    text = str(one.value) if one is not None and one.value is not None else ""
    return set(cast("list[str]", ast.literal_eval(text))) if text.startswith("[") else set()


def _parsed(stub: str) -> dict[str, griffe.Module]:
    parts = re.split(rf"^{SECTION}(\S+)\n", stub, flags=re.MULTILINE)[1:]
    return {
        name: griffe.visit(name, filepath=Path("names.pyi"), code=code)
        for name, code in zip(parts[::2], parts[1::2], strict=True)
    }


def names_of(name: str) -> list[str]:
    """Return the names of a public module."""
    module = importlib.import_module(name)
    names = list(vars(module).get("__all__", []))
    if name == "outlast":
        names = list(
            lazy.homes((Path(outlast.__file__).parent / "__init__.pyi").read_text("utf-8"))
        )
    own = [key for key, one in vars(module).items() if getattr(one, "__module__", "") == name]
    names = names or [*own, *(key for key in vars(module) if key.isupper())]
    return sorted(one for one in names if not one.startswith("_"))


def without_a_tier(tiers: Mapping[str, Mapping[str, Sequence[str]]]) -> list[str]:
    """Return what is wrong with a list of the tiers of all public names, in words.

    Args:
        tiers: the names of each public module, by tier: the content of `TIERS`.
    """
    found = [f"{one}: no public module" for one in tiers.keys() - set(modules())]
    for module in modules():
        listed = Counter(name for names in tiers.get(module, {}).values() for name in names)
        names = set(names_of(module))
        found += [f"{module}.{one}: has no tier" for one in sorted(names - listed.keys())]
        found += [f"{module}.{one}: is no public name" for one in sorted(listed.keys() - names)]
        found += [f"{module}.{one}: has two tiers" for one, count in listed.items() if count > 1]
    unknown = {tier for names in tiers.values() for tier in names} - set(TIER_NAMES)
    return [*found, *(f"{one}: no tier" for one in sorted(unknown))]


def tiers() -> dict[str, dict[str, list[str]]]:
    """Return the tiers of all public names, as the reference lists them."""
    return tomllib.loads(TIERS.read_text(encoding="utf-8"))


def _section(name: str) -> str:
    module = importlib.import_module(name)
    return "".join(
        line + "\n" for one in names_of(name) for line in _object(one, getattr(module, one))
    )


def _object(name: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value) and get_origin(value) is None:
        yield f"class {name}:"
        yield from (f"    {line}" for line in [*_members(value)] or ["..."])
    elif inspect.isroutine(value):
        yield f"{_word(value)} {name}{_parameters(value)}: ..."
    elif get_origin(value) is Literal:
        yield f"{name} = {sorted(map(str, get_args(value)))}"
    else:
        yield f"{name}: Any"


def _members(kind: type) -> Iterator[str]:
    ours = [one for one in kind.__mro__ if one.__module__.partition(".")[0] == "outlast"]
    fields = {name for one in ours for name in inspect.get_annotations(one)}
    parts: dict[str, Any] = {
        name: one for home in reversed(ours) for name, one in vars(home).items()
    }
    for name in sorted(fields | parts.keys()):
        if name.startswith("_") and name != "__init__":
            continue
        part: Any = parts.get(name)
        for wrapper in (classmethod, staticmethod):
            if isinstance(part, wrapper):
                yield f"@{wrapper.__name__}"
                part = cast("Any", part).__func__
        if inspect.isfunction(part):
            yield f"{_word(part)} {name}{_parameters(part)}: ..."
        else:
            yield f"{name}: Any"


def _word(function: Any) -> str:
    return "async def" if inspect.iscoroutinefunction(function) else "def"


def _parameters(function: Any) -> str:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return "(*args, **kwargs)"
    parts = [
        one.replace(annotation=one.empty, default=_default(one.default))
        for one in signature.parameters.values()
    ]
    return str(signature.replace(parameters=parts, return_annotation=signature.empty))


class _Text(str):
    """A default as it is written."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _default(value: Any) -> Any:
    if value is inspect.Parameter.empty:
        return value
    return _Text(repr(value)) if type(value) in SHOWN else _Text("...")
