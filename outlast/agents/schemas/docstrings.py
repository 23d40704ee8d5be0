"""Descriptions of functions, from Google, NumPy and Sphinx docstrings."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from outlast.agents.callables import unwrap_partial

DocstringStyle: TypeAlias = Literal["auto", "google", "numpy", "sphinx"]
"""The style of a docstring; `auto` uses the style whose parser finds the most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionDocs:
    """The content of a docstring.

    Attributes:
        description: the text before the sections; empty without a docstring.
        parameters: the descriptions of the parameters, by name without stars.
    """

    description: str = ""
    parameters: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


def read_docs(function: Callable[..., Any], style: DocstringStyle = "auto") -> FunctionDocs:
    """Read the docstring of a function, method, partial or callable object.

    If the docstring cannot be parsed, its whole text is the description.
    """
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
        parsed = parse(text, style=parsers[style])
    except (ParseError, LookupError, ValueError):  # odd text trips the parser in several ways
        return FunctionDocs(description=text)
    parameters = {
        name.strip().lstrip("*"): param.description.strip()
        for param in parsed.params
        if param.description and param.description.strip()
        for name in param.arg_name.split(",")  # NumPy allows several parameters in one entry
    }
    return FunctionDocs(description=(parsed.description or "").strip(), parameters=parameters)


def _docstring(function: Callable[..., Any]) -> str:
    inner = unwrap_partial(function)
    if inspect.isroutine(inner) or inspect.isclass(inner):
        text = inspect.getdoc(inner)
    else:  # a callable object: read __call__ or the class; getdoc would find type.__call__'s
        text = inspect.cleandoc(type(inner).__call__.__doc__ or inspect.getdoc(inner) or "")
    return (text or "").strip()
