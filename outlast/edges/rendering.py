r"""Internal. Escapes untrusted text for terminals, Markdown, shell commands and logs.

Text from models, customers, tools and providers may contain sequences that move a terminal's
cursor, characters that reverse or hide other text, or misleading Markdown. All text shown to
people passes through this module.

An escape is `\u001b` or, beyond U+FFFF, `\U000e0041`. A backslash in the text is doubled only if
it could be read as the beginning of an escape; `original` reverses all escapes.
"""

import dataclasses
import json
import logging
import re
import shlex
import unicodedata
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, Final, TypeVar, cast

LONGEST_EXCERPT = 160
"""The maximum number of characters of a text shown in one line."""

LONGEST_READ = 20_000
"""The maximum number of characters of arguments that are parsed as JSON for display."""

KEPT_LINE_LENGTH = 2_000
"""The maximum length of arguments for which the line of a call is cached."""

_Text = TypeVar("_Text", bound=str)


class Shown(str):
    """Text in which every character is visible; only this module creates it.

    Escaping a `Shown` again changes nothing. Concatenation with another string returns an ordinary
    string; escaping that again may double a backslash, but is always safe.
    """

    __slots__ = ()


# --- Characters ---------------------------------------------------------------------------------

_SPACES = "\u00a0\u202f\u3000"
"""Visible spaces that are common in French and Japanese text."""

_BLANK = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef"
)
"""Printable but invisible characters: fillers, joiners, variation selectors."""

_EMOJI = "\u203c\u2049\u2122-\u27ff\u2900-\u2b55\U0001f000-\U0001faff"
_MARKLESS = re.compile(f"[{_BLANK}]")
_TONES = "\U0001f3fb-\U0001f3ff"
_OF_EMOJI = (
    rf"(?:(?<=[{_EMOJI}])\ufe0f(?![{_BLANK}])|(?<=[0-9#*])\ufe0f(?=\u20e3)"
    rf"|(?<=[{_EMOJI}\ufe0f])\u200d(?=[{_EMOJI}]))"
)
"""The only harmless uses of a variation selector and of a joiner: within one emoji."""

_MOST_MARKS = 8
"""How many marks may stand on one letter. More of them would cover the lines around it."""

_LAST_SCANNED = 0x3FFFF
"""The planes above hold only tags, variation selectors and private-use characters."""

_BACKSLASH = r"\\(?=\\|u[0-9a-f]{4}|U[0-9a-f]{8}"
_ESCAPE = re.compile(r"\\(?:\\|u([0-9a-f]{4})|U([0-9a-f]{8}))")


@cache
def _hidden() -> str:
    """Return the escaped characters as the content of a regular expression's `[]`."""
    ranges = _ranges(lambda one: not one.isprintable() and one not in _SPACES)
    return "".join([ranges, f"\\U{_LAST_SCANNED + 1:08x}-\\U0010ffff", _BLANK])


@cache
def _marks() -> str:
    """Return the marks that stand on a letter as the content of a regular expression's `[]`."""
    return _ranges(_is_mark)


def _is_mark(character: str) -> bool:
    return unicodedata.category(character) in {"Mn", "Me"}


@cache
def _maybe_heaped() -> re.Pattern[str]:
    """Return a pattern that is quick, and also finds other characters beyond U+FFFF."""
    marks = _ranges(lambda one: one > "\uffff" or _is_mark(one))
    return re.compile(f"[{marks}]{{{_MOST_MARKS + 1}}}")


def _ranges(is_one: Callable[[str], bool]) -> str:
    codes = [code for code in range(_LAST_SCANNED + 1) if is_one(chr(code))]
    starts = [codes[0], *(after for before, after in pairwise(codes) if after != before + 1)]
    ends = [*(before for before, after in pairwise(codes) if after != before + 1), codes[-1]]
    ranges = [f"\\U{a:08x}-\\U{b:08x}" for a, b in zip(starts, ends, strict=True)]
    return "".join(ranges)


@cache
def _heaped() -> re.Pattern[str]:
    """Return the pattern of a mark above those that one letter may have."""
    return re.compile(f"(?<=[{_marks()}]{{{_MOST_MARKS}}})[{_marks()}]")


@cache
def _unseen() -> re.Pattern[str]:
    return re.compile(f"(?!{_OF_EMOJI})[{_hidden()}]|{_heaped().pattern}")


@cache
def _unclear() -> re.Pattern[str]:
    unseen = _unseen().pattern
    return re.compile(rf"{_BACKSLASH}|{unseen})|{unseen}")


def visible(text: str) -> Shown:
    """Return a text in which escapes stand for characters that hide, mislead or cover other text.

    Those are control, format and invisible characters, and marks above the eighth on one letter.

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
    """Return the lines of a text, each made visible."""
    return [visible(line) for line in ([text] if isinstance(text, Shown) else text.split("\n"))]


def visible_text(text: str) -> Shown:
    """Return a text with every character visible and its line breaks as they are."""
    return Shown("\n".join(visible_lines(text))) if "\n" in text else visible(text)


def one_line(text: str) -> Shown:
    """Return a text with every character visible, in one line: line breaks are spaces."""
    return Shown(" ".join(visible_text(text).split()))


def joined(*parts: str) -> Shown:
    """Return the concatenation of parts, each made visible."""
    return Shown("".join(visible(part) for part in parts))


def _is_clear(text: str) -> bool:
    """Return True only if no character needs escaping; a fast check with false negatives."""
    if not text.isprintable():
        return False
    return text.isascii() or not (_MARKLESS.search(text) or _maybe_heaped().search(text))


def _escaped(match: re.Match[str]) -> str:
    return "\\\\" if match[0] == "\\" else _code_of(match[0])


def _code_of(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


# --- Tables -------------------------------------------------------------------------------------

_FORMULA = """(?:^|;)[\\s"']*"""
_SIGN = "(?=[=+@\\-\uff1d\uff0b\uff20\uff0d])"
_FORMULA_BEGINS = re.compile(_FORMULA + _SIGN)
"""Where a formula would begin; some spreadsheets also split lines at semicolons."""


def table_cell(text: str) -> str:
    """Return a text as a cell that a spreadsheet shows and does not calculate.

    A spreadsheet takes a cell that begins with a sign such as `=` for a formula, which can send
    other cells elsewhere. Such a cell gets an apostrophe, as a person would type it.
    """
    return _FORMULA_BEGINS.sub(r"\g<0>'", visible(text))


# --- Names --------------------------------------------------------------------------------------

_LOOK_ALIKE = frozenset(
    "\u0410\u0412\u0415\u0405\u0406\u0408\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425"
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0455\u0456\u0458\u04bb\u04cf\u0501\u051b\u051d"
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7"
    "\u03b1\u03b3\u03b9\u03ba\u03bd\u03bf\u03c1\u03c5\u03c7\u03f2\u03f3\u0585\u057d\u0578\u0570"
)
"""Cyrillic, Greek and Armenian letters with the shape of a Latin one."""

_BESIDE_LATIN = {"LATIN", "MODIFIER", "CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO"}
"""The scripts that a word may have beside Latin letters."""


def named(text: str) -> Shown:
    r"""Return a name of a person, group, agent or tool, in which no letter passes for a Latin one.

    Letters of other scripts are escaped in a word that has Latin letters, too, and where all of
    them have the shape of Latin ones: `ann` with a Cyrillic letter is `\u0430nn`.
    """
    if isinstance(text, Shown) or text.isascii():
        return visible(text)
    foreign = {one for one in text if one.isalpha() and _script(one) not in _BESIDE_LATIN}
    found = foreign if all(map(_looks_latin, foreign)) else set[str]()
    for word in re.findall(r"[^\W\d_]+", text):
        if any(_script(one) == "LATIN" for one in word):
            found |= foreign & set(word)
    if not found:
        return visible(text)
    unclear = f"(\\\\?)([{''.join(found)}])"
    return Shown(re.sub(unclear, lambda one: one[1] * 2 + _code_of(one[2]), visible(text)))


def _looks_latin(letter: str) -> bool:
    return letter in _LOOK_ALIKE or unicodedata.normalize("NFKC", letter).isascii()


def _script(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]


def in_words(name: str) -> Shown:
    """Return the name of a tool or an argument in words: `order_id` is `Order id`."""
    words = " ".join(named(name).replace("_", " ").split())
    return Shown(words[:1].upper() + words[1:]) if words else excerpt(named(name), 80)


# --- Lengths ------------------------------------------------------------------------------------


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, such as `1 model call`, `1,200 tokens` or `2 entries`."""
    if count == 1:
        return f"1 {noun}"
    ends_in_y = noun.endswith("y") and noun[-2:-1] not in "aeiou"
    return f"{count:,} {noun[:-1]}ies" if ends_in_y else f"{count:,} {noun}s"


def cut(text: _Text, limit: int) -> _Text:
    """Return a text, cut to a maximum number of characters.

    A remark states the full length of a cut text: `… (cut: 160 of 12,345 characters)`.
    """
    if len(text) <= limit:
        return text
    kept = head(text, limit)
    shortened = f"{kept}{remark(len(kept), len(text))}"
    return cast("_Text", Shown(shortened) if isinstance(text, Shown) else shortened)


def excerpt(text: str, limit: int = LONGEST_EXCERPT) -> Shown:
    """Return the beginning of a text, made visible, in one line."""
    return visible(cut(text, limit))


_QUOTES: Final = re.compile(
    '["\u00ab\u00bb\u02ba\u02dd\u02ee\u05f4\u201c-\u201f\u2033\u2034\u2036\u2037\u2039\u203a\u2057'
    "\u275d\u275e\u276e\u276f\u2e42\u300c-\u300f\u301d-\u301f\uff02\uff62\uff63]"
    "|['`\u00b4\u02b9\u02bb-\u02bd\u02ca\u02cb\u05f3\u2018-\u201b\u2032\u2035\u275b\u275c\uff07]{2,}"
)
"""What looks like the quotation marks around a value, and two marks that together look so."""


def quoted(text: str, limit: int) -> Shown:
    """Return the beginning of a text in quotation marks that nothing in the text can close.

    It is one line, in which each quotation mark of the text is an apostrophe.
    """
    shown = _QUOTES.sub("'", excerpt(" ".join(text.split()), limit))
    return Shown(f"\u201c{shown}\u201d")


def remark(limit: int, length: int) -> str:
    """Return the remark after a cut text."""
    return f"… (cut: {limit:,} of {length:,} characters)"


def head(text: str, limit: int) -> str:
    """Return the first characters of a text, without splitting an emoji, a letter or an escape.

    A letter has its marks, and an escape is one of a visible text.
    """
    if len(text) <= limit:
        return text
    first = text[: _cluster_end(text, limit)]
    if not isinstance(text, Shown):
        return first
    last = re.search(r"(\\+)(u[0-9a-f]{0,3}|U[0-9a-f]{0,7}|)\Z", first)
    half = last is not None and len(last[1]) % 2 == 1
    return Shown(first[: last.end(1) - 1] if last is not None and half else first)


_LONGEST_CLUSTER: Final = 40
"""How many characters before a cut may be left out, so that none is cut in the middle."""

_CONTINUES: Final = re.compile(
    f"[\u200c\u200d\ufe00-\ufe0f{_TONES}\U000e0020-\U000e007f\u1160-\u11ff]"
)
"""What belongs to the character before: joiners, colors, tones, tags, and parts of a syllable."""


def _cluster_end(text: str, at: int) -> int:
    """Return the last place at or before one where a text can be cut: between what people see."""
    for place in range(at, max(0, at - _LONGEST_CLUSTER), -1):
        if not _is_within(text, place):
            return place
    return at


def _is_within(text: str, at: int) -> bool:
    """Whether two neighbors are one character for people."""
    before, after = text[at - 1], text[at]
    if before == "\u200d" or (before, after) == ("\r", "\n"):
        return True
    if "\U0001f1e6" <= after <= "\U0001f1ff":  # two of these letters are a flag
        letters = re.search("[\U0001f1e6-\U0001f1ff]*\\Z", text[max(0, at - 200) : at])
        return letters is not None and len(letters[0]) % 2 == 1
    return bool(_CONTINUES.match(after)) or unicodedata.category(after) in {"Mn", "Me", "Mc"}


# --- JSON and calls -----------------------------------------------------------------------------

_DEEPEST = 100  # people read no deeper; the writer is recursive
_LONGEST_NUMBER = 4_000
"""The maximum number of digits in a number; Python's own parser has a similar limit."""


class _Object(list[tuple[str, Any]]):
    """The pairs of a JSON object in their original order, including repeated keys."""


class _Number(str):
    """A JSON number in its original spelling."""

    __slots__ = ()


def json_text(value: Any, indent: int | None = None) -> Shown:
    r"""Return JSON in which every character is visible; parsing it returns the same value.

    Invisible characters become JSON escapes, such as `\u202e`.
    """
    return visible_json(json.dumps(value, ensure_ascii=False, indent=indent))


def json_fields(record: Any, *names: str) -> dict[str, Any]:
    """Return the attributes of a record for JSON, with times in ISO 8601.

    Args:
        record: a dataclass.
        *names: the names of the attributes; none for all of its fields.
    """
    names = names or tuple(one.name for one in dataclasses.fields(record))
    values = ((name, getattr(record, name)) for name in names)
    return {name: one.isoformat() if isinstance(one, datetime) else one for name, one in values}


def visible_json(text: str) -> Shown:
    """Return JSON, or what somebody wrote as JSON, with hidden characters as escapes of JSON."""
    return Shown("\n".join(_visible_json(line) for line in text.split("\n")))


def argument_lines(arguments: str) -> tuple[Shown, ...] | None:
    """Return JSON arguments as lines, one for each field; None if the text is not JSON.

    The joined lines are JSON with the same digest as the arguments: they keep every pair, including
    repeated keys, and the spelling of every number.
    """
    try:
        value = _read(arguments)
        if not isinstance(value, _Object) or len(value) < 2:
            return (Shown(_written(value)),)
        fields = [f"  {_string(key)}: {_written(one)}" for key, one in value]
    except (ValueError, RecursionError):
        return None
    return tuple(Shown(line) for line in ["{", *_with_commas(fields), "}"])


def read_arguments(arguments: str) -> list[tuple[str, Any]] | None:
    """Return the pairs of JSON arguments, whose objects are such pairs; None if they are no object.

    Every pair is there, also of repeated keys. `written_value` and `plain_value` show a value.
    """
    try:
        value = _read(arguments)
        _written(value)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, _Object) else None


def pairs_of(value: object) -> list[tuple[str, Any]] | None:
    """Return the pairs of an object that `read_arguments` returned; None for any other value."""
    return value if isinstance(value, _Object) else None


def is_text_value(value: object) -> bool:
    """Whether a value that `read_arguments` returned is a text, and no number."""
    return isinstance(value, str) and not isinstance(value, _Number)


def written_value(value: object) -> Shown:
    """Return a value that `read_arguments` returned as JSON, with the spelling of its numbers."""
    return Shown(_written(value))


def plain_value(value: Any) -> Shown:
    """Return a value that `read_arguments` returned, for a list.

    A text stands there as it is, unless it has line breaks or hidden characters, or could be read
    as another value: `5` is a number, and `"5"` a text.
    """
    if not is_text_value(value) or value.strip() != value or visible(value) != value:
        return written_value(value)
    try:
        json.loads(value or "null")
    except (ValueError, RecursionError):
        return Shown(value)
    return written_value(value)


def arguments_text(arguments: str) -> Shown:
    """Return arguments in one line: as visible JSON, or as visible text if they are not JSON."""
    lines = argument_lines(arguments)
    return visible(arguments) if lines is None else Shown(" ".join(one.strip() for one in lines))


def repeated_keys(arguments: str) -> tuple[str, ...]:
    """Return the keys that occur more than once in an object of JSON arguments."""
    try:
        found = _repeated(_read(arguments))
    except (ValueError, RecursionError):
        return ()
    return tuple(dict.fromkeys(found))


def call_line(name: str, arguments: str) -> str:
    """Return a call as a line of code, such as `refund_order(order_id="A-17")`.

    Very long arguments are not parsed, because parsing would delay the run.
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
            return Shown(f"{named(name)}({', '.join(fields)})")
    except (ValueError, RecursionError):
        pass
    return joined(named(name), "(", arguments_text(arguments), ")")


_kept_call_line = lru_cache(maxsize=1_000)(_call_line)
"""A cache: the newest calls of a run are shown again after each step."""


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
"""Text without Markdown syntax: all syntax characters of Markdown are ASCII."""

_LINKED = re.compile(r"://|www\.|mailto:|xmpp:", re.IGNORECASE)
_TEMPLATE = re.compile(r"(\\*)\{(?=(?:namespace|workflowId|runId)\})")
"""The placeholders that the Temporal UI replaces in a text before it renders the Markdown."""


def code(text: str, limit: int | None = None) -> str:
    """Return a text as a Markdown code span, in which no syntax applies."""
    kept = text if limit is None else head(text, limit)
    shown = visible(kept)
    # Browsers collapse several spaces into one.
    shown = re.sub("(?<= ) ", r"\\u0020", shown)
    shown = _TEMPLATE.sub(_without_brace, shown)
    rest = "" if len(kept) == len(text) else f" {remark(len(kept), len(text))}"
    if not shown:
        return f"(empty){rest}"
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    room = " " if shown[0] in " `" or shown[-1] in " `" else ""
    if not shown.strip(" "):
        room = ""  # a span of spaces only needs no padding
    return f"{fence}{room}{shown}{room}{fence}{rest}"


def inline(text: str, limit: int | None = None) -> str:
    """Return a text for a line of Markdown: unchanged if it has no syntax, else as a code span."""
    if limit is not None and len(text) > limit:
        return code(text, limit)
    shown = visible(text)
    plain = _PLAIN.fullmatch(shown) and not shown.endswith(" ") and not _LINKED.search(shown)
    return str(shown) if plain else code(text, limit)


def _without_brace(match: re.Match[str]) -> str:
    before = match[1]
    return before + "\\" * (len(before) % 2) + "\\u007b"


def inline_within(text: str, limit_bytes: int) -> str:
    """Return `inline` of the longest beginning of a text that fits into a number of bytes."""
    length = min(len(text), limit_bytes)
    while len((line := inline(text, length)).encode()) > limit_bytes and length:
        length = max(0, length - max(1, (len(line.encode()) - limit_bytes) // 4))
    return line


SUMMARY_BYTES: Final = 200
"""How much Temporal takes as the summary of a workflow, an activity or a timer."""


def engine_summary(*parts: str) -> str:
    """Return parts as the summary of a workflow, an activity or a timer in the Temporal UI.

    Little is read of one part, however long it is.
    """
    return inline_within(parts[0] if len(parts) == 1 else joined(*parts), SUMMARY_BYTES)


# --- Shells and logs ----------------------------------------------------------------------------


def shell_word(text: str) -> Shown:
    """Return a text as one word of a shell command; Bash and Zsh restore every character."""
    if _is_clear(text) or not _unseen().search(text):
        return Shown(shlex.quote(text))
    quoted = text.replace("\\", "\\\\").replace("'", "\\'")
    escaped = _unseen().sub(_escaped, quoted)
    return Shown(f"$'{escaped}'")


def command(verb: str, *operands: str, options: str = "") -> Shown:
    """Return an `outlast` command for people to copy."""
    words = [shell_word(one) for one in operands]
    if any(one.startswith("-") for one in operands):
        parts = [verb, options, "--", *words]  # an id may look like an option
    else:
        parts = [verb, *words, options]
    return Shown(" ".join(["outlast", *(part for part in parts if part)]))


DIGEST_SHOWN = 16
"""How many characters of a digest people see: enough that no other arguments have them by chance."""


def decision_command(
    verb: str, run_id: str, request_id: str, digest: str, *, options: str = ""
) -> Shown:
    """Return the `outlast` command that decides a request for the arguments with a digest."""
    seen = f"--digest {shell_word(digest[:DIGEST_SHOWN])}"
    return command(verb, run_id, request_id, options=f"{seen} {options}".rstrip())


class LogFormatter(logging.Formatter):
    """Formats any record as one line, and indents the traceback.

    Backslashes stay unchanged, because many messages are already escaped.
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


# --- Times ---------------------------------------------------------------------------------------


def rough(length: timedelta) -> str:
    """Return a duration in its largest unit, such as `3 min`."""
    seconds = max(0, int(length.total_seconds()))
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def exact(length: timedelta) -> str:
    """Return a duration to the second as options take it, such as `1h 30min`."""
    left = int(length.total_seconds())
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        if left >= size:
            parts.append(f"{left // size}{unit}")
            left %= size
    return " ".join(parts) or "0s"


def iso_time(at_ms: int) -> str:
    """Return a time as ISO 8601 in UTC, with milliseconds."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def shown_time(at_ms: int) -> str:
    """Return a time for people: in UTC, and in the time zone of this machine if that is another."""
    here = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone()
    if not here.utcoffset():
        return iso_time(at_ms)
    return f"{iso_time(at_ms)} ({here:%Y-%m-%d %H:%M %Z})"
