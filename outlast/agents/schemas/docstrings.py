"""Descriptions of functions, from Google, NumPy and Sphinx docstrings."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from outlast.agents.callables import unwrap_partial

DocstringStyle: TypeAlias = Literal["auto", "google", "numpy", "sphinx"]
"""The style of a docstring; `auto` uses the style whose parser finds the most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionDocs:
    """The text before a docstring's sections, and what it says about parameters."""

    description: str = ""
    parameters: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


def read_docs(function: Callable[..., Any], style: DocstringStyle = "auto") -> FunctionDocs:
    """Read a callable's docstring; if it cannot be parsed, its whole text is the description."""
    text = _docstring(function)
    if not text:
        return FunctionDocs()
    # Imported here: many tools have no docstring, and clients read no docstrings.
    from docstring_parser import DocstringStyle as ParserStyle
    from docstring_parser import ParseError, parse

    parsers = {
        "auto": ParserStyle.AUTO,
        "google": ParserStyle.GOOGLE,
        "numpy": ParserStyle.NUMPYDOC,
        "sphinx": ParserStyle.REST,
    }
    try:
        parsed = parse(_with_plain_entries(text, function), style=parsers[style])
    except (ParseError, LookupError, ValueError):  # odd text trips the parser in several ways
        return FunctionDocs(description=text)
    parameters = {
        name.strip().lstrip("*"): param.description.strip()
        for param in parsed.params
        if param.description and param.description.strip()
        for name in param.arg_name.split(",")  # NumPy allows several parameters in one entry
    }
    return FunctionDocs(description=(parsed.description or "").strip(), parameters=parameters)


_SECTION = re.compile(r"(Args|Arguments|Parameters|Params):\s*$")
_ENTRY = re.compile(r"\s+(\*{0,2})(?P<name>\w+)\s*(?P<kind>\(.*?\))?\s*(?P<sign>:|-)(?=\s|$)")


def _with_plain_entries(text: str, function: Callable[..., Any]) -> str:
    """Return a docstring whose Google sections have the entries that the parser reads.

    People also write `name (int) - text`, and continue an entry without an indentation. Only the
    function's own parameters begin entries, so a continuation may have a colon.
    """
    names = _parameter_names(function)
    lines: list[str] = []
    indent: str | None = None  # that of the entries of the section
    is_inside = False
    for line in text.split("\n"):
        before = line[: len(line) - len(line.lstrip())]
        if line.strip() and not before:
            is_inside, indent = _SECTION.match(line) is not None, None
        entry = _ENTRY.match(line) if is_inside and line.strip() else None
        if entry is not None and entry["name"] in names:
            indent = before if indent is None else indent
            if entry["sign"] == "-":
                line = f"{line[: entry.start('sign')].rstrip()}:{line[entry.end('sign') :]}"  # noqa: PLW2901
        elif is_inside and indent is not None and line.strip() and len(before) <= len(indent):
            line = f"{indent}    {line.lstrip()}"  # noqa: PLW2901
        lines.append(line)
    return "\n".join(lines)


def _parameter_names(function: Callable[..., Any]) -> frozenset[str]:
    try:
        return frozenset(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # a builtin without a signature
        return frozenset()


def _docstring(function: Callable[..., Any]) -> str:
    inner = unwrap_partial(function)
    if inspect.isroutine(inner) or inspect.isclass(inner):
        text = inspect.getdoc(inner)
    else:  # a callable object: read __call__ or the class; getdoc would find type.__call__'s
        text = inspect.cleandoc(type(inner).__call__.__doc__ or inspect.getdoc(inner) or "")
    return (text or "").strip()
