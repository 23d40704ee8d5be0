"""Descriptions of functions, from Google, NumPy and Sphinx docstrings."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

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

    found = _style_of(text) if style == "auto" else style
    entries: dict[str, str] | None = None
    plain = text
    if found == "google":
        plain, entries = _google_entries(text, _parameter_names(function))
    parsers = {
        "google": ParserStyle.GOOGLE,
        "numpy": ParserStyle.NUMPYDOC,
        "sphinx": ParserStyle.REST,
    }
    try:
        parsed = parse(plain, style=parsers[found])
    except (ParseError, LookupError, ValueError):  # odd text trips the parser in several ways
        return FunctionDocs(description=text)
    if found == "sphinx":
        entries = _sphinx_entries(text)
    if entries is None:
        entries = {
            name.strip(): param.description.strip()
            for param in parsed.params
            if param.description
            for name in param.arg_name.split(",")  # NumPy allows several parameters in one entry
        }
    parameters = {name.lstrip("*"): words for name, words in entries.items() if words.strip()}
    return FunctionDocs(description=(parsed.description or "").strip(), parameters=parameters)


_MARKS: Final[dict[DocstringStyle, tuple[str, ...]]] = {
    "sphinx": (r"^:param\s", r"^:type\s", r"^:return:", r"^:rtype:"),
    "numpy": tuple(rf"^{title}\s*\n\s*-{{3,}}" for title in ("Parameters", "Returns", "Yields")),
    "google": (r"^(Args|Arguments):", r"^(Returns):", r"^(Raises):"),
}
"""What docstrings of each style have, as the SDK looks for it."""


def _style_of(text: str) -> DocstringStyle:
    """Return the style of a docstring, as the SDK does."""
    found: dict[DocstringStyle, int] = {
        style: sum(re.search(mark, text, re.MULTILINE) is not None for mark in marks)
        for style, marks in _MARKS.items()
    }
    best: DocstringStyle = max(found, key=lambda style: found[style])
    return best if found[best] else "google"


_SECTION = re.compile(r"(Args|Arguments|Parameters|Params):\s*$", re.IGNORECASE)
_DASHED_ENTRY = re.compile(r"\*{0,2}(?P<name>\w+)\s*(\(.*?\))?\s*-(?=\s|$)(?P<text>.*)")
_FIELD = re.compile(
    r":(param|parameter|arg|argument|key|keyword)\s([^:]*\s)?(?P<name>[^\s:]+):(?P<text>.*)"
)


def _google_entries(text: str, names: frozenset[str]) -> tuple[str, dict[str, str]]:
    """Return a docstring with one entry for its sections of parameters, and their entries.

    They are read as in the SDK. A line with the indentation of the first one begins an entry, for a
    parameter or for none; a line with more continues it, without twice that indentation; what
    begins no entry is dropped with its continuation. In place of the colon, an entry of a parameter
    may have a dash, which the SDK does not read.
    """
    rest: list[str] = []
    entries: dict[str, list[str]] = {}
    entry: list[str] = []
    is_inside, indent = False, 0
    lines = text.split("\n")
    for at, line in enumerate(lines):
        depth = len(line) - len(line.lstrip())
        if is_inside and not line.strip():
            entry.append("")
        elif is_inside and depth and depth >= indent:
            indent = indent or depth
            if depth > indent:
                entry.append(line[min(depth, indent * 2) :])
            else:
                name, words = _entry_of(line.strip(), names)
                entry = [words]
                if name:
                    entries[name] = entry
        else:
            below = next((one for one in lines[at + 1 :] if one.strip()), "")
            is_inside = _SECTION.match(line) is not None and below[:1].isspace()
            indent, entry = 0, []
            rest += ["", "Args:", "    it: described"] if is_inside else [line]
    joined = {name: "\n".join(words).rstrip("\n") for name, words in entries.items()}
    return "\n".join(rest), joined


def _entry_of(line: str, names: frozenset[str]) -> tuple[str, str]:
    """Return the name and the text of a line that begins an entry; for others, no name."""
    dashed = _DASHED_ENTRY.match(line)
    if dashed is not None and dashed["name"] in names:
        return dashed["name"], dashed["text"].strip()
    name, colon, words = line.partition(":")
    return (name.partition("(")[0].strip(), words.lstrip()) if colon else ("", "")


def _sphinx_entries(text: str) -> dict[str, str]:
    """Return the fields of parameters, each up to the next line that begins with a colon."""
    entries: dict[str, str] = {}
    for field_text in re.split(r"\n(?=:)", text):
        if (match := _FIELD.match(field_text)) is not None:
            _, _, more = field_text.partition("\n")
            words = inspect.cleandoc(f"{match['text'].strip()}\n{more}")
            entries.setdefault(match["name"], words.strip())
    return entries


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
