"""What a docstring tells the model: what a function does and what its parameters mean.

Owns: reading Google, NumPy and Sphinx docstrings. Must not know: tools, schemas.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from outlast.agents.callables import unwrap_partial

DocstringStyle: TypeAlias = Literal["auto", "google", "numpy", "sphinx"]
"""How a docstring is written; `auto` takes the style that finds most in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionDocs:
    """What a docstring says.

    Attributes:
        description: the text before the sections; empty without a docstring.
        parameters: the description of each parameter that has one, by its name without stars.
    """

    description: str = ""
    parameters: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


def read_docs(function: Callable[..., Any], style: DocstringStyle = "auto") -> FunctionDocs:
    """Read the docstring of a function, method, partial or callable object.

    A docstring that cannot be parsed is not an error: its whole text is the description.
    """
    text = _docstring(function)
    if not text:
        return FunctionDocs()
    # Imported here: many tools have no docstring, and a client never reads one.
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
        for name in param.arg_name.split(",")  # NumPy documents several in one entry
    }
    return FunctionDocs(description=(parsed.description or "").strip(), parameters=parameters)


def _docstring(function: Callable[..., Any]) -> str:
    inner = unwrap_partial(function)
    if inspect.isroutine(inner) or inspect.isclass(inner):
        text = inspect.getdoc(inner)
    else:  # an object says it on __call__ or on its class; getdoc would find type.__call__'s
        text = inspect.cleandoc(type(inner).__call__.__doc__ or inspect.getdoc(inner) or "")
    return (text or "").strip()
