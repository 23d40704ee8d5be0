r"""Text of models, customers, tools and providers, made safe to look at.

Such text may hold anything: sequences that move a terminal's cursor, characters that reverse or
hide what follows, Markdown that looks like ours. Everything that people see goes through here, so
that what they see is what is there. Owns: which characters are shown as an escape, and the forms
for a terminal's line, a call's arguments, Markdown, a shell and a log. Must not know: runs.

An escape is `\u001b` or, beyond U+FFFF, `\U000e0041`. A backslash in the text is doubled where it
could be read as the beginning of an escape, and only there: `original` undoes all of it.
"""

import json
import logging
import re
import shlex
from collections import Counter
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, TypeVar, cast

LONGEST_EXCERPT = 160
"""How many characters of a text are shown where one line has to do."""

LONGEST_READ = 20_000
"""How many characters of arguments are read as JSON in order to be shown."""

KEPT_LINE_LENGTH = 2_000
"""Lines of calls up to this length are kept for the next time."""

_Text = TypeVar("_Text", bound=str)


class Shown(str):
    """Text in which every character can be seen; only this module makes it.

    Showing it again changes nothing. Put into another string it is an ordinary one, which is then
    shown anew: forgetting this doubles a backslash and lets nothing through.
    """

    __slots__ = ()


# --- Characters ---------------------------------------------------------------------------------

_SPACES = "\u00a0\u202f\u3000"
"""Blanks that French and Japanese text is full of, and which are as wide as they look."""

_BLANK = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef"
)
"""Characters that count as printable and leave no mark: fillers, joiners, variation selectors."""

_EMOJI = "\u203c\u2049\u2122-\u27ff\u2900-\u2b55\U0001f000-\U0001faff"
_MARKLESS = re.compile(f"[{_BLANK}]")
_COLOURED = rf"(?<=[{_EMOJI}])\ufe0f(?![{_BLANK}])"
"""The one harmless use of a variation selector: an emoji that asks for its colours."""

_LAST_SCANNED = 0x3FFFF
"""The planes above hold tags, variation selectors, private use and nothing else."""

_BACKSLASH = r"\\(?=\\|u[0-9a-f]{4}|U[0-9a-f]{8}"
_ESCAPE = re.compile(r"\\(?:\\|u([0-9a-f]{4})|U([0-9a-f]{8}))")


@cache
def _hidden() -> str:
    """Return the set of characters that are escaped, as the inside of a regular expression's []."""
    codes = [
        code
        for code in range(_LAST_SCANNED + 1)
        if not chr(code).isprintable() and chr(code) not in _SPACES
    ]
    starts = [codes[0], *(after for before, after in pairwise(codes) if after != before + 1)]
    ends = [*(before for before, after in pairwise(codes) if after != before + 1), codes[-1]]
    ranges = [f"\\U{a:08x}-\\U{b:08x}" for a, b in zip(starts, ends, strict=True)]
    return "".join([*ranges, f"\\U{_LAST_SCANNED + 1:08x}-\\U0010ffff", _BLANK])


@cache
def _unseen() -> re.Pattern[str]:
    return re.compile(f"(?!{_COLOURED})[{_hidden()}]")


@cache
def _unclear() -> re.Pattern[str]:
    unseen = _unseen().pattern
    return re.compile(rf"{_BACKSLASH}|{unseen})|{unseen}")


def visible(text: str) -> Shown:
    """Return a text with every control, format and invisible character as an escape.

    Line breaks are escaped, too: the result is one line.
    """
    if isinstance(text, Shown):
        return text
    if "\\" not in text and _is_clear(text):
        return Shown(text)
    return Shown(_unclear().sub(_escaped, text))


def original(shown: str) -> str:
    """Return the text that `visible` was called with."""
    return _ESCAPE.sub(lambda one: chr(int(one[1] or one[2] or "5c", 16)), shown)


def visible_lines(text: str) -> list[Shown]:
    """Return the lines of a text, for a layout that keeps them apart."""
    return [visible(line) for line in ([text] if isinstance(text, Shown) else text.split("\n"))]


def joined(*parts: str) -> Shown:
    """Return parts side by side, each of them made visible."""
    return Shown("".join(visible(part) for part in parts))


def _is_clear(text: str) -> bool:
    """Whether nothing in a text is hidden; quick, and False for some texts that are clear, too."""
    return text.isprintable() and not _MARKLESS.search(text)


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    if character == "\\":
        return "\\\\"
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


# --- Lengths ------------------------------------------------------------------------------------


def cut(text: _Text, limit: int) -> _Text:
    """Return a text, cut if it is longer than a number of characters.

    What is left out is stated with the true length: `… (cut: 160 of 12,345 characters)`.
    """
    if len(text) <= limit:
        return text
    shortened = f"{head(text, limit)}{remark(limit, len(text))}"
    return cast("_Text", Shown(shortened) if isinstance(text, Shown) else shortened)


def excerpt(text: str, limit: int = LONGEST_EXCERPT) -> Shown:
    """Return the beginning of a text, visible and in one line."""
    return visible(cut(text, limit))


def remark(limit: int, length: int) -> str:
    """Return the remark behind a text that is cut."""
    return f"… (cut: {limit:,} of {length:,} characters)"


def head(text: str, limit: int) -> str:
    """Return the first characters of a text, and of a visible one no half of an escape."""
    if len(text) <= limit:
        return text
    first = text[:limit]
    if not isinstance(text, Shown):
        return first
    last = re.search(r"(\\+)(u[0-9a-f]{0,3}|U[0-9a-f]{0,7}|)\Z", first)
    half = last is not None and len(last[1]) % 2 == 1
    return Shown(first[: last.end(1) - 1] if last is not None and half else first)


# --- JSON and calls -----------------------------------------------------------------------------

_DEEPEST = 100
_LONGEST_NUMBER = 4_000
"""Digits; what is longer is no number to Python's own reader, either."""


class _Object(list[tuple[str, Any]]):
    """The pairs of an object in the order in which they are written, repeated keys and all."""


class _Number(str):
    """A number as it is written."""

    __slots__ = ()


def json_text(value: Any, indent: int | None = None) -> Shown:
    r"""Return JSON in which every character is visible: it reads back as the same value.

    Characters that cannot be seen are escaped as JSON does, `\u202e`.
    """
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return Shown("\n".join(_visible_json(line) for line in text.split("\n")))


def argument_lines(arguments: str) -> tuple[Shown, ...] | None:
    """Return JSON arguments as lines, one for each field; None for text that is no JSON.

    Together the lines are JSON with the digest that the arguments have: each pair is there, a
    repeated key as often as it is written, and each number as it is spelled.
    """
    try:
        value = _read(arguments)
        if not isinstance(value, _Object) or len(value) < 2:
            return (Shown(_written(value)),)
        fields = [f"  {_string(key)}: {_written(one)}" for key, one in value]
    except (ValueError, RecursionError):
        return None
    return tuple(Shown(line) for line in ["{", *_with_commas(fields), "}"])


def arguments_text(arguments: str) -> Shown:
    """Return arguments in one line: visible JSON, or the visible text where they are none."""
    lines = argument_lines(arguments)
    return visible(arguments) if lines is None else Shown(" ".join(one.strip() for one in lines))


def repeated_keys(arguments: str) -> tuple[str, ...]:
    """Return the keys that are there more than once in one object of JSON arguments."""
    try:
        found = _repeated(_read(arguments))
    except (ValueError, RecursionError):
        return ()
    return tuple(dict.fromkeys(found))


def call_line(name: str, arguments: str) -> str:
    """Return a call as a line of code, `refund_order(order_id="A-17")`, to be cut and shown.

    Very long arguments stay as the model wrote them: to parse them would hold up the run.
    """
    if len(arguments) > LONGEST_READ:
        return f"{name}({arguments})"
    if len(arguments) > KEPT_LINE_LENGTH:
        return _call_line(name, arguments)
    return _kept_call_line(name, arguments)


def _call_line(name: str, arguments: str) -> Shown:
    try:
        value = _read(arguments)
        if isinstance(value, _Object):
            fields = [f"{_keyword(key)}={_written(one)}" for key, one in value]
            return Shown(f"{visible(name)}({', '.join(fields)})")
    except (ValueError, RecursionError):
        pass
    return joined(name, "(", arguments_text(arguments), ")")


_kept_call_line = lru_cache(maxsize=1_000)(_call_line)
"""The newest calls of a run are shown again after each of its steps."""


def _read(arguments: str) -> Any:
    def number(text: str) -> _Number:
        if len(text) > _LONGEST_NUMBER:
            raise ValueError(text)
        return _Number(text)

    return json.loads(
        arguments,
        object_pairs_hook=_Object,
        parse_int=number,
        parse_float=number,
        parse_constant=number,
    )


def _written(value: Any, depth: int = 0) -> str:
    if depth > _DEEPEST:
        raise ValueError("nested too deep to be read by people")
    match value:
        case _Object():
            pairs = [f"{_string(key)}: {_written(one, depth + 1)}" for key, one in value]
            return f"{{{', '.join(pairs)}}}"
        case list():
            entries = cast("list[Any]", value)
            return f"[{', '.join(_written(one, depth + 1) for one in entries)}]"
        case _Number():
            return str(value)
        case _:
            return _visible_json(json.dumps(value, ensure_ascii=False))


def _with_commas(fields: list[str]) -> list[str]:
    return [*(f"{field}," for field in fields[:-1]), fields[-1]]


def _keyword(key: str) -> str:
    return key if key.isascii() and key.isidentifier() else _string(key)


def _string(text: str) -> str:
    return _visible_json(json.dumps(text, ensure_ascii=False))


def _repeated(value: Any) -> list[str]:
    if isinstance(value, _Object):
        here = [key for key, count in Counter(key for key, _ in value).items() if count > 1]
        return [*here, *(key for _, one in value for key in _repeated(one))]
    if isinstance(value, list):
        return [key for one in cast("list[Any]", value) for key in _repeated(one)]
    return []


def _visible_json(text: str) -> str:
    return text if _is_clear(text) else _unseen().sub(lambda one: json.dumps(one[0])[1:-1], text)


# --- Markdown -----------------------------------------------------------------------------------

_PLAIN = re.compile(
    r"""(?:[a-zA-Z]|[^\x00-\x7f])
        (?:[a-zA-Z0-9]|[^\x00-\x7f]|(?<=[^\W_])_(?=[^\W_])|(?<!\ )\ |[-.,;:()"'/?!%]|=(?!=))*""",
    re.VERBOSE,
)
"""Text in which nothing can have a meaning in Markdown: what has one is ASCII."""

_LINKED = re.compile(r"://|www\.|mailto:|xmpp:", re.IGNORECASE)
_TEMPLATE = re.compile(r"(\\*)\{(?=(?:namespace|workflowId|runId)\})")
"""What the Temporal UI replaces in a text before it reads the Markdown in it."""


def code(text: str, limit: int | None = None) -> str:
    """Return a text as a code span of Markdown, in which nothing has a meaning.

    Args:
        text: the text.
        limit: how many characters are shown; what is left out is stated behind the span.
    """
    shown = visible(text if limit is None else head(text, limit))
    # Browsers show several blanks as one.
    shown = re.sub("(?<= ) ", r"\\u0020", shown)
    shown = _TEMPLATE.sub(_without_brace, shown)
    rest = "" if limit is None or len(text) <= limit else f" {remark(limit, len(text))}"
    if not shown:
        return f"(empty){rest}"
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    room = " " if shown[0] in " `" or shown[-1] in " `" else ""
    if not shown.strip(" "):
        room = ""  # blanks alone are left as they are
    return f"{fence}{room}{shown}{room}{fence}{rest}"


def inline(text: str, limit: int | None = None) -> str:
    """Return a text for a line of Markdown: as it is where nothing in it has a meaning, or code."""
    if limit is not None and len(text) > limit:
        return code(text, limit)
    shown = visible(text)
    plain = _PLAIN.fullmatch(shown) and not shown.endswith(" ") and not _LINKED.search(shown)
    return str(shown) if plain else code(text, limit)


def _without_brace(match: re.Match[str]) -> str:
    before = match[1]
    return before + "\\" * (len(before) % 2) + "\\u007b"


def inline_within(text: str, limit_bytes: int) -> str:
    """Return `inline` of as much of a text as has room in so many bytes."""
    length = min(len(text), limit_bytes)
    while len((line := inline(text, length)).encode()) > limit_bytes and length:
        length = max(0, length - max(1, (len(line.encode()) - limit_bytes) // 4))
    return line


# --- Shells and logs ----------------------------------------------------------------------------


def shell_word(text: str) -> Shown:
    """Return a text as one word of a command to copy; Bash and Zsh read every character back."""
    if _is_clear(text) or not _unseen().search(text):
        return Shown(shlex.quote(text))
    quoted = text.replace("\\", "\\\\").replace("'", "\\'")
    escaped = _unseen().sub(_escaped, quoted)
    return Shown(f"$'{escaped}'")


def command(verb: str, *operands: str, options: str = "") -> Shown:
    """Return a command of `outlast` to copy.

    Args:
        verb: the command's name.
        operands: what it is about, whoever has written that.
        options: further options, in our own words.
    """
    words = [shell_word(one) for one in operands]
    if any(one.startswith("-") for one in operands):
        parts = [verb, options, "--", *words]  # an id like an option is none
    else:
        parts = [verb, *words, options]
    return Shown(" ".join(["outlast", *(part for part in parts if part)]))


class LogFormatter(logging.Formatter):
    """Formats a record as one line, whatever its message holds, and indents the traceback.

    Backslashes stay as they are: many messages have been made visible already.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as text."""
        record.message = _harmless(record.getMessage())
        if self.usesTime():
            record.asctime = self.formatTime(record, self.datefmt)
        below = [
            *([self.formatException(record.exc_info)] if record.exc_info else []),
            *([record.stack_info] if record.stack_info else []),
        ]
        lines = [_harmless(line) for text in below for line in text.split("\n")]
        return "\n".join([self.formatMessage(record), *(f"    {line}" for line in lines)])


def _harmless(text: str) -> str:
    return text if _is_clear(text) else _unseen().sub(_escaped, text)
