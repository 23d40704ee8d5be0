"""Forms made from JSON Schemas: a tool's arguments, or the answer to a call.

A field that nobody touched keeps its value, with its spelling. What no field can show is JSON in a
text area, so that every value can be edited.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias, cast

from outlast.agents.errors import UserError
from outlast.edges import rendering
from outlast.serve.pages import filters
from outlast.serve.pages.filters import with_line_ends
from outlast.serve.pages.page import Form
from outlast.serve.pages.word_changes import Piece, word_changes
from outlast.views.acts import schema_problem
from outlast.views.records import REDACTED, Json, JsonObject

Kind: TypeAlias = Literal[
    "text", "long_text", "integer", "number", "boolean", "choice", "object", "array", "json"
]

MOST_LEVELS: Final = 8
"""How deep objects and arrays are fields of their own; deeper ones are JSON."""

MOST_EMPTY_LEVELS: Final = 3
"""How deep that counts for values that are not there."""

MOST_FIELDS: Final = 500
MOST_ITEMS: Final = 50
MOST_CHOICES: Final = 200
LONGEST_LINE: Final = 80
"""A longer text gets a text area."""

_DEEPEST_JSON: Final = 200
_WHOLE: Final = re.compile(r"[+-]?[0-9]+")


class _Absent:
    """Stands for a value that is left out."""

    def __repr__(self) -> str:
        return "(left out)"


ABSENT: Final = _Absent()
Value: TypeAlias = Json | _Absent


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a form.

    Attributes:
        name: its name in the form, unique.
        label: the name of the value, as the tool has it.
        title: what people call the value.
        kind: how it is shown.
        shown: its value as the form shows it; for a choice, the number of the choice.
        description: what the schema says about it; its author may be a stranger.
        required: whether the value has to be there.
        can_be_nothing: `left out` or `null` if the value can be that; else empty.
        is_nothing: whether it is that.
        is_hidden: whether nobody sees the value; it stays if the field stays.
        choices: the values of a choice, as people read them.
        children: the fields of an object, or the items of an array.
        can_grow: whether an array takes another item.
        problem: why what was sent does not fit.
        is_changed: whether it differs from what it was.
        value: its value.
        rules: its schema, without references and alternatives to null.
        level: how many objects and arrays are around it.
    """

    name: str
    label: str
    kind: Kind
    title: str = ""
    shown: str = ""
    description: str = ""
    required: bool = True
    can_be_nothing: str = ""
    is_nothing: bool = False
    is_hidden: bool = False
    choices: tuple[str, ...] = ()
    children: "tuple[Field, ...]" = ()
    can_grow: bool = False
    problem: str = ""
    is_changed: bool = False
    value: Value = field(default=ABSENT, compare=False, repr=False)
    rules: JsonObject = field(default_factory=dict[str, Json], compare=False, repr=False)
    level: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Entered:
    """What somebody entered.

    Attributes:
        value: the value, as far as it could be read.
        problems: what does not fit, by the names of fields.
        field: the form with what was entered.
    """

    value: Json
    problems: dict[str, str]
    field: Field


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A difference between two values.

    Attributes:
        path: where, such as `items[2].price`.
        before: the value before, as JSON; None if there was none.
        after: the value after, as JSON; None if there is none.
        pieces: where two texts differ, word by word; empty for other values.
    """

    path: str
    before: str | None
    after: str | None
    pieces: tuple[Piece, ...] = ()


# --- Making a form ---------------------------------------------------------------------------------


def form_field(
    schema: JsonObject | None,
    value: Value,
    name: str,
    titles: Mapping[str, str] | None = None,
) -> Field:
    """Return the form for a value.

    Args:
        schema: the JSON Schema; None if there is none.
        value: the value now; ABSENT for none.
        name: what the names of the fields begin with.
        titles: what people call the fields of the value, if not as their schemas say.
    """
    return _Maker(schema or {}, titles=titles).root(value, name)


def flat_form(schema: JsonObject | None, name: str) -> Field | None:
    """Return the form for a value that is sent at once; None if its fields cannot show the value.

    Lists grow only where a page shows the form again.
    """
    made = None if schema is None else form_field(schema, ABSENT, name)
    is_flat = made is not None and all(one.kind not in {"array", "json"} for one in _walk(made))
    return made if is_flat else None


@dataclass(frozen=True)
class _Sent:
    """What somebody sent, to be shown in the form for what they entered.

    Attributes:
        before: the fields of the form that they had, by their names.
        problems: what does not fit, by the names of fields.
        form: what they sent.
    """

    before: Mapping[str, Field]
    problems: Mapping[str, str]
    form: Form

    def marked(self, made: Field) -> Field:
        """Return a field that says whether it has changed, and shows what does not fit as it came."""
        was, problem = self.before.get(made.name), self.problems.get(made.name, "")
        is_changed = was is None or (was.shown, was.is_nothing) != (made.shown, made.is_nothing)
        if not problem:
            return replace(made, is_changed=is_changed)
        sent = with_line_ends(self.form.exact(made.name, made.shown))
        is_text = made.kind in {"text", "long_text"}
        visible = rendering.visible_text if is_text else rendering.visible_json
        shown = visible(filters.read_back(sent) if is_text else sent)
        return replace(made, is_changed=is_changed, problem=problem, shown=shown)


class _Maker:
    """Makes the fields of one schema, whose author may be a stranger: their number is bounded."""

    def __init__(
        self,
        root: JsonObject,
        sent: _Sent | None = None,
        titles: Mapping[str, str] | None = None,
    ) -> None:
        self._root = root
        self._sent = sent
        self._titles: Mapping[str, str] = titles or {}
        self._left = MOST_FIELDS

    def root(self, value: Value, name: str) -> Field:
        """Return the form for a value."""
        return self.field(self._root, value, name, "", level=0, required=True)

    def field(
        self, schema: Json, value: Value, name: str, label: str, *, level: int, required: bool
    ) -> Field:
        """Return the field of a value."""
        self._left -= 1
        rules, nullable = self.rules(schema)
        nothing = "null" if nullable else "" if required else "left out"
        is_nothing = value is ABSENT or (nullable and value is None)
        is_hidden = value == REDACTED
        kind = "text" if is_hidden else self._kind(rules, ABSENT if is_nothing else value, level)
        choices = choices_of(rules) if kind == "choice" else []
        shown = REDACTED if is_hidden else ""
        if not (is_hidden or is_nothing or kind in {"object", "array"}):
            shown = str(_place(choices, value)) if kind == "choice" else _shown(kind, value)
        title = self._titles.get(label, "") if level == 1 else ""
        made = Field(
            name=name,
            label=label,
            title=title
            or _text(rules.get("title"))
            or (rendering.in_words(label) if label else ""),
            kind=kind,
            shown=shown,
            description=_text(rules.get("description")),
            required=required,
            can_be_nothing=nothing,
            is_nothing=is_nothing and bool(nothing),
            is_hidden=is_hidden,
            choices=_labels(choices) if choices else (),
            can_grow=kind == "array" and len(_list(value)) < MOST_ITEMS,
            value=value,
            rules=rules,
            level=level,
        )
        made = replace(made, children=tuple(self._children(made)))
        return made if self._sent is None else self._sent.marked(made)

    def item(self, array: Field, value: Value, at: int) -> Field:
        """Return the field of an item of an array."""
        name, level = f"{array.name}.{at}", array.level + 1
        of_items = array.rules.get("items", {})
        return self.field(of_items, value, name, f"{at + 1}", level=level, required=True)

    def _children(self, made: Field) -> Iterator[Field]:
        if made.kind == "array":
            yield from (self.item(made, one, at) for at, one in enumerate(_list(made.value)))
        if made.kind != "object":
            return
        fields, known = _object(made.value), _object(made.rules.get("properties"))
        needed = set(map(str, _list(made.rules.get("required"))))
        for at, key in enumerate([*known, *(one for one in fields if one not in known)]):
            schema, value, name = known.get(key, {}), fields.get(key, ABSENT), f"{made.name}.{at}"
            level, required = made.level + 1, key in needed
            yield self.field(schema, value, name, key, level=level, required=required)

    def _kind(self, rules: JsonObject, value: Value, level: int) -> Kind:
        """Return how a value is shown; as JSON if it does not fit what its schema says."""
        if self._left < 0 or (value is ABSENT and level > MOST_EMPTY_LEVELS):
            return "json"
        choices = choices_of(rules)
        if choices and (value is ABSENT or _place(choices, value) >= 0):
            return "choice"
        declared = rules.get("type")
        has_room = level < MOST_LEVELS
        match declared:
            case "string" if value is ABSENT or isinstance(value, str):
                text = "" if value is ABSENT else str(value)
                return "long_text" if "\n" in text or len(text) > LONGEST_LINE else "text"
            case "boolean" if value is ABSENT or isinstance(value, bool):
                return "boolean"
            case "integer" if value is ABSENT or _is_whole(value):
                return "integer"
            case "number" if value is ABSENT or _is_number(value):
                return "number"
            case "object" if (value is ABSENT or isinstance(value, dict)) and has_room:
                return "object" if _object(rules.get("properties")) else "json"
            case "array" if (value is ABSENT or isinstance(value, list)) and has_room:
                is_short = len(_list(cast("object", value))) <= MOST_ITEMS
                return "array" if is_short and isinstance(rules.get("items"), dict) else "json"
            case _:
                return "json"

    def rules(self, schema: Json) -> tuple[JsonObject, bool]:
        """Return a schema without references and alternatives to null, and whether it has one."""
        rules, nullable = _object(schema), False
        for _ in range(MOST_LEVELS):
            reference = rules.get("$ref")
            if isinstance(reference, str):
                rules = _object(self._named(reference)) | _without(rules, "$ref")
                continue
            options = _list(rules.get("anyOf")) or _list(rules.get("oneOf"))
            if options:
                others = [one for one in options if _object(one).get("type") != "null"]
                if len(others) == len(options) or len(others) != 1:
                    return rules, nullable or len(others) != len(options)
                nullable = True
                rules = _object(others[0]) | _without(rules, "anyOf", "oneOf")
                continue
            if types := _list(rules.get("type")):
                named = [one for one in types if one != "null"]
                nullable = nullable or len(named) != len(types)
                if len(named) == 1:
                    rules = {**rules, "type": named[0]}
                return rules, nullable
            return rules, nullable
        return {}, nullable

    def _named(self, reference: str) -> Json:
        found: Json = self._root
        if not reference.startswith("#/"):
            return {}
        for part in reference[2:].split("/"):
            found = _object(found).get(part.replace("~1", "/").replace("~0", "~"))
        return found


# --- Reading what was entered ----------------------------------------------------------------------


def read_form(
    schema: JsonObject | None,
    value: Value,
    name: str,
    form: Form,
    *,
    add: str = "",
    titles: Mapping[str, str] | None = None,
) -> Entered:
    """Return what somebody entered into the form for a value.

    Args:
        schema: the JSON Schema of the form.
        value: the value from which the form was first made.
        name: what the names of the fields begin with.
        form: what was sent.
        add: the name of an array that is to have another item.
        titles: as for `form_field`.
    """
    made = form_field(schema, value, name, titles)
    reader = _Reader(schema or {}, form, add, is_new=value is ABSENT)
    found = reader.value(made)
    result: Json = None if isinstance(found, _Absent) else found
    problems = reader.problems
    if not problems and not add and schema and (problem := schema_problem(result, schema)):
        problems[name] = problem
    sent = _Sent({one.name: one for one in _walk(made)}, problems, form)
    return Entered(result, problems, _Maker(schema or {}, sent, titles).root(result, name))


class _Reader:
    """Reads the fields of one form."""

    def __init__(self, root: JsonObject, form: Form, add: str, *, is_new: bool) -> None:
        self._maker = _Maker(root)
        self._is_new = is_new  # then nothing of it stays as it was
        self._form = form
        self._add = add
        self.problems: dict[str, str] = {}

    def value(self, made: Field) -> Value:
        """Return the value of a field; what was not touched is as it was."""
        if f"{made.name}.remove" in self._form:
            return ABSENT
        nothing: Value = None if made.can_be_nothing == "null" else ABSENT
        # The box "left out" counts as long as nobody wrote into the field.
        is_nothing = f"{made.name}.nothing" in self._form and not self._is_touched(made)
        if is_nothing and made.can_be_nothing:
            is_missing = self._is_new and made.required and made.value is ABSENT
            return made.value if made.is_nothing and not is_missing else nothing
        if made.kind in {"object", "array"}:
            found = self._object(made) if made.kind == "object" else self._array(made)
            return found if found or made.level == 0 or made.value is not ABSENT else ABSENT
        sent = self._form.exact(made.name, made.shown)
        if _same(sent, made.shown):
            return self._empty(made) if made.is_nothing else made.value
        try:
            return self._scalar(made, sent)
        except UserError as error:
            self.problems[made.name] = str(error)
            return made.value

    def _is_touched(self, made: Field) -> bool:
        if self._add == made.name or not _same(self._form.exact(made.name, made.shown), made.shown):
            return True
        return any(self._is_touched(child) for child in made.children)

    def _empty(self, made: Field) -> Value:
        """Return the value of an empty field whose box "left out" somebody unchecked, or not."""
        if made.name not in self._form:
            return None if made.can_be_nothing == "null" else ABSENT
        if made.kind in {"text", "long_text"}:
            return ""
        self.problems[made.name] = "Enter a value."
        return ABSENT

    def _object(self, made: Field) -> JsonObject:
        found = ((child.label, self.value(child)) for child in made.children)
        return {label: one for label, one in found if not isinstance(one, _Absent)}

    def _array(self, made: Field) -> list[Json]:
        had = len(made.children)
        sent = self._form.exact(f"{made.name}.count")
        count = int(sent) if re.fullmatch("[0-9]{1,4}", sent) else had
        kept: list[Json] = []
        for at in range(min(count, max(MOST_ITEMS, had))):
            child = made.children[at] if at < had else self._maker.item(made, ABSENT, at)
            if not isinstance(value := self.value(child), _Absent):
                kept.append(value)
        if self._add == made.name and len(kept) < MOST_ITEMS:
            kept.append(self._blank(made.rules.get("items", {})))
        return kept

    def _blank(self, schema: Json) -> Json:
        """Return the value of an item that somebody adds, to be changed."""
        rules, nullable = self._maker.rules(schema)
        if nullable:
            return None
        if choices := choices_of(rules):
            return choices[0]
        blanks: dict[str, Json] = {
            "string": "", "integer": 0, "number": 0, "boolean": False, "object": {}, "array": []
        }  # fmt: skip
        return blanks.get(_text(rules.get("type")))

    def _scalar(self, made: Field, sent: str) -> Json:
        text = sent.strip()
        match made.kind:
            case "text" | "long_text":
                whole = filters.read_back(sent)
                # What replaces a hidden value is a text where one fits, else JSON.
                is_text = not made.is_hidden or made.rules.get("type", "string") == "string"
                return whole if is_text else parse_json(whole)
            case "boolean":
                return sent == "true"
            case "choice":
                choices = choices_of(made.rules)
                if not sent.isdecimal() or int(sent) >= len(choices):
                    raise UserError("Choose one of the values.")
                return choices[int(sent)]
            case "integer":
                if not _WHOLE.fullmatch(text) or len(text) > 300:
                    raise UserError("Enter a whole number, such as 12.")
                return int(text)
            case "number":
                return _number(text)
            case _:
                return parse_json(text)


def parse_json(text: str) -> Json:
    """Return JSON that somebody wrote.

    Raises:
        UserError: it is none.
    """
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise UserError("This JSON is nested too deep.") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise UserError(f"This is not JSON: {error.msg} at {place}.") from None
    except ValueError as error:
        raise UserError(f"This is not JSON: {error}.") from None
    if _depth(value) > _DEEPEST_JSON:
        raise UserError("This JSON is nested too deep.")
    return value


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


def _depth(value: object) -> int:
    level, current = 0, [value]
    while current and level <= _DEEPEST_JSON:
        level += 1
        current = [inner for one in current for inner in (*_object(one).values(), *_list(one))]
    return level


def _walk(one: Field) -> Iterator[Field]:
    yield one
    for child in one.children:
        yield from _walk(child)


def _same(sent: str, shown: str) -> bool:
    """Whether a field is as the page showed it; forms send other line ends."""
    return with_line_ends(sent) == shown


# --- Differences -----------------------------------------------------------------------------------


def changes(before: Json, after: Json, path: str = "") -> list[Change]:
    """Return where two values differ, in their order."""
    if isinstance(before, dict) and isinstance(after, dict):
        olds, news = cast("JsonObject", before), cast("JsonObject", after)
        return [
            change
            for key in dict.fromkeys([*olds, *news])
            for change in _changes_of(olds, news, key, f"{path}.{key}" if path else key)
        ]
    old_items, new_items = _list(cast("object", before)), _list(cast("object", after))
    if old_items and len(old_items) == len(new_items):
        return [
            change
            for at, old in enumerate(old_items)
            for change in changes(old, new_items[at], f"{path}[{at + 1}]")
        ]
    if _is_same(before, after):
        return []
    pieces: tuple[Piece, ...] = ()
    if isinstance(before, str) and isinstance(after, str) and before.strip() and " " in after:
        pieces = word_changes(before, after)
    return [
        Change(
            path=path or "value",
            before=_as_shown(before),
            after=_as_shown(after),
            pieces=pieces,
        )
    ]


def _changes_of(olds: JsonObject, news: JsonObject, key: str, path: str) -> list[Change]:
    if key in olds and key in news:
        return changes(olds[key], news[key], path)
    before = _as_shown(olds[key]) if key in olds else None
    after = _as_shown(news[key]) if key in news else None
    return [Change(path=path, before=before, after=after)]


def _is_same(one: Json, other: Json) -> bool:
    """Whether two values are the same JSON; 1 and true are not, 1 and 1.0 are as they are written."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


# --- Small parts -----------------------------------------------------------------------------------


def _object(value: object) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[Json]:
    return cast("list[Json]", value) if isinstance(value, list) else []


def _without(rules: JsonObject, *names: str) -> JsonObject:
    return {name: one for name, one in rules.items() if name not in names}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def choices_of(rules: JsonObject) -> list[Json]:
    """Return the values among which a schema lets people choose; empty for any."""
    listed = _list(rules.get("enum"))
    if 0 < len(listed) <= MOST_CHOICES:
        return listed
    return [rules["const"]] if "const" in rules else []


def _labels(choices: list[Json]) -> tuple[str, ...]:
    """Return choices as people read them: as JSON only where they are not all texts."""
    if all(isinstance(one, str) for one in choices):
        return tuple(str(one) for one in choices)
    return tuple(_as_shown(one) for one in choices)


def _place(choices: list[Json], value: Value) -> int:
    if isinstance(value, _Absent):
        return -1
    return next((at for at, one in enumerate(choices) if _is_same(one, value)), -1)


def _is_whole(value: Value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(kind: Kind, value: Value) -> str:
    if kind in {"text", "long_text"}:
        return rendering.visible_text(str(value))
    if kind == "json":
        return rendering.json_text(None if isinstance(value, _Absent) else value, indent=2)
    return json.dumps(value)


def _as_shown(value: Json) -> str:
    return rendering.json_text(value, indent=2 if isinstance(value, dict | list) else None)


def _number(text: str) -> Json:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not _is_number(value) or not math.isfinite(cast("float", value)) or len(text) > 300:
        raise UserError("Enter a number, such as 12.5.")
    return value
