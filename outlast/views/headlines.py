"""What a request asks for, in the words of its policy, and its arguments as labeled rows.

The words are the program's, and the values are the model's: a value is always marked as one, so that
no value passes for the words around it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

from outlast.edges import rendering
from outlast.edges.placeholders import Place, parts_of
from outlast.edges.rendering import Shown, in_words, joined, named, visible
from outlast.loop.approvals import ApprovalRequest
from outlast.loop.values import Json, JsonObject
from outlast.views.words import budget_line, request_line

LONGEST_VALUE: Final = 80
"""How many characters of a value a headline shows."""

MOST_LEVELS: Final = 6
"""How deep objects and lists are rows of their own; deeper ones are JSON."""

_EMPTY: Final = visible("")


@dataclass(frozen=True, slots=True)
class HeadlinePart:
    """A part of a headline.

    Attributes:
        text: the part, with every character visible; the value of a text is in quotation marks.
        is_value: whether it is a value of the call, and not the program's words.
    """

    text: Shown
    is_value: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentRow:
    """An argument of a call, or a field or entry of one.

    Attributes:
        name: its name in the call; empty for an entry of a list.
        label: what people call it.
        is_titled: whether the label is more than the words of the name.
        text: its value; empty if it has rows.
        rows: the fields or entries of its value.
    """

    name: Shown
    label: Shown
    is_titled: bool = False
    text: Shown = _EMPTY
    rows: "tuple[ArgumentRow, ...]" = ()


# --- The headline --------------------------------------------------------------------------------


def headline_parts(request: ApprovalRequest) -> tuple[HeadlinePart, ...]:
    """Return what a request asks for; the title of its tool where no policy says it.

    A headline whose argument is missing, or there twice, is not used.
    """
    return _filled(request) or (HeadlinePart(title_of(request)),)


def headline_line(request: ApprovalRequest) -> str:
    """Return what a request asks for in one line; the call as code where no policy says it."""
    parts = _filled(request)
    return text_of(parts) if parts else request_line(request)


def text_of(parts: Iterable[HeadlinePart]) -> Shown:
    """Return the parts of a headline in one line."""
    return joined(*(part.text for part in parts))


def has_headline(request: ApprovalRequest) -> bool:
    """Whether the policy of a request says what it asks for, and the call has all values for it."""
    return bool(_filled(request))


def title_of(request: ApprovalRequest) -> Shown:
    """Return what people call the thing that waits, without any argument."""
    if request.kind == "output":
        return visible("Send this answer to the customer")
    if request.kind == "budget":
        return named(budget_line(request.arguments) or "More of the budget")
    tool = request.name.removesuffix(f": {request.wait}") if request.wait else request.name
    title = rendering.excerpt(named(request.terms.title), 80) or in_words(tool)
    if request.wait:
        return joined(in_words(request.wait), " for ", title)
    return joined("No worker for ", title) if request.kind == "worker" else title


def visible_name(name: str) -> Shown:
    """Return a name as it is, cut where nobody reads further."""
    return rendering.excerpt(named(name), 80)


def rest_of(request: ApprovalRequest) -> tuple[ArgumentRow, ...] | None:
    """Return the arguments that the headline does not show whole; None if they cannot be read."""
    rows, filled = argument_rows(request), _filled(request)
    if rows is None or not filled:
        return rows
    parts = zip(parts_of(request.terms.headline), filled, strict=True)
    paths = [(one.path, shown.text) for one, shown in parts if isinstance(one, Place)]
    whole = {path[0] for path, text in paths if len(path) == 1 and "… (cut: " not in text}
    return tuple(row for row in rows if row.name not in whole or row.rows)


def _filled(request: ApprovalRequest) -> tuple[HeadlinePart, ...]:
    headline, arguments = request.terms.headline, request.arguments
    is_call = request.kind in {"tool", "handoff", "output"} and not request.wait
    if not headline or not is_call or len(arguments) > rendering.LONGEST_READ:
        return ()
    if rendering.repeated_keys(arguments):
        return ()
    fields = rendering.read_arguments(arguments)
    try:
        parts = parts_of(headline)
    except ValueError:  # recorded by something else than a policy
        return ()
    found: list[HeadlinePart] = []
    for part in parts:
        if not isinstance(part, Place):
            found.append(HeadlinePart(visible(part)))
        elif (value := _at(fields, part.path)) is None:
            return ()
        else:
            found.append(HeadlinePart(_value(value), is_value=True))
    return tuple(found)


def _at(fields: Any, path: tuple[str, ...]) -> Any:
    value = fields
    for name in path:
        value = dict(rendering.pairs_of(value) or ()).get(name)
    return value


def _value(value: Any) -> Shown:
    if rendering.is_text_value(value):
        return rendering.quoted(value, LONGEST_VALUE)
    written = rendering.written_value(value)
    is_structure = isinstance(value, list)  # an object is a list of pairs
    return (
        rendering.quoted(written, LONGEST_VALUE) if is_structure else rendering.excerpt(written, 40)
    )


# --- The arguments -------------------------------------------------------------------------------


def argument_rows(request: ApprovalRequest) -> tuple[ArgumentRow, ...] | None:
    """Return the arguments of a call as rows; None if they cannot be read as an object."""
    if len(request.arguments) > rendering.LONGEST_READ:
        return None
    fields = rendering.read_arguments(request.arguments)
    labels = dict(request.terms.labels or {})
    return None if fields is None else tuple(_rows(fields, labels))


def _rows(
    fields: list[tuple[str, Any]], labels: JsonObject, level: int = 0
) -> Iterator[ArgumentRow]:
    found = [_label(name, labels.get(name)) for name, _ in fields]
    uses = Counter(found)
    for (name, value), label in zip(fields, found, strict=True):
        shown = visible(name)
        # Two arguments with one label are told apart by their names.
        yield _row(shown, label if uses[label] == 1 else shown, value, level)


def _label(name: str, label: Json) -> Shown:
    return visible_name(label) if isinstance(label, str) and label.strip() else in_words(name)


def _row(name: Shown, label: Shown, value: Any, level: int) -> ArgumentRow:
    fields = rendering.pairs_of(value)
    rows: tuple[ArgumentRow, ...] = ()
    if level < MOST_LEVELS and fields is not None:
        rows = tuple(_rows(fields, {}, level + 1))
    elif level < MOST_LEVELS and isinstance(value, list):
        entries = cast("list[Any]", value)
        rows = tuple(
            _row(_EMPTY, visible(str(at)), one, level + 1) for at, one in enumerate(entries, 1)
        )
    text = _EMPTY if rows else _text(value)
    is_titled = bool(name) and label not in {name, in_words(name)}
    return ArgumentRow(name=name, label=label, is_titled=is_titled, text=text, rows=rows)


def _text(value: Any) -> Shown:
    # Lines stay lines where all of them are to be seen.
    if rendering.is_text_value(value) and "\n" in value:
        return rendering.visible_text(value)
    return rendering.plain_value(value)
