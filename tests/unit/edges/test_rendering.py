"""Text that others have written, as people see it: laws over any text first, then examples."""

import json
import logging
import shlex
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from outlast.edges import rendering
from outlast.edges.rendering import (
    LogFormatter,
    Shown,
    argument_lines,
    arguments_text,
    call_line,
    code,
    command,
    counted,
    cut,
    excerpt,
    inline,
    inline_within,
    joined,
    json_text,
    named,
    original,
    repeated_keys,
    shell_word,
    visible,
    visible_lines,
)
from outlast.loop.approvals import digest
from tests.hostile_text import ARGUMENTS, JSON_VALUES, NASTY, TEXTS, assert_visible
from tests.laws.strategies import examples

MARKDOWN = [
    MarkdownIt("commonmark"),
    MarkdownIt("js-default", {"html": True, "linkify": False, "typographer": False}),
]
EXAMPLES = examples(200)


# --- Laws ---------------------------------------------------------------------------------------


@EXAMPLES
@given(TEXTS)
def test_nothing_hidden_is_left_and_nothing_is_lost(text: str) -> None:
    shown = visible(text)
    assert_visible(shown)
    assert original(shown) == text


@EXAMPLES
@given(TEXTS)
def test_what_is_shown_is_shown_once(text: str) -> None:
    assert visible(visible(text)) == visible(text)


@EXAMPLES
@given(TEXTS)
def test_lines_keep_the_texts_own_breaks_and_nothing_else(text: str) -> None:
    lines = visible_lines(text)
    for line in lines:
        assert_visible(line)
    assert "\n".join(original(line) for line in lines) == text


@EXAMPLES
@given(ARGUMENTS)
def test_the_arguments_shown_are_those_that_the_digest_covers(arguments: str) -> None:
    lines = argument_lines(arguments)
    for line in [arguments_text(arguments), *(lines or [])]:
        assert_visible(line)
    if lines is None:
        assert original(arguments_text(arguments)) == arguments
    else:
        assert digest("\n".join(lines)) == digest(arguments)
        assert digest(arguments_text(arguments)) == digest(arguments)


@EXAMPLES
@given(TEXTS, ARGUMENTS)
def test_a_call_is_one_visible_line(name: str, arguments: str) -> None:
    assert_visible(call_line(name, arguments))


@EXAMPLES
@given(JSON_VALUES, st.sampled_from([None, 2]))
def test_visible_json_has_the_same_value(value: Any, indent: int | None) -> None:
    shown = json_text(value, indent)
    assert_visible(shown, layout="\n")
    assert json.dumps(json.loads(shown)) == json.dumps(value)


@EXAMPLES
@given(TEXTS, st.integers(0, 12))
def test_a_cut_says_how_long_the_text_is_and_halves_no_escape(text: str, limit: int) -> None:
    shown = excerpt(text, limit)
    assert_visible(shown)
    if len(text) <= limit:
        assert original(shown) == text
    else:
        kept = rendering.head(text, limit)
        assert shown.endswith(f"… (cut: {len(kept)} of {len(text):,} characters)")
        assert original(shown).startswith(kept)
        assert text[:limit].startswith(kept)
    assert rendering.head(visible(text), len(visible(text))) == visible(text)
    kept = rendering.head(visible(text), limit)
    assert text.startswith(original(kept)) or original(kept) == text[: len(original(kept))]


@pytest.mark.parametrize(
    "whole",
    [
        "👨‍👩‍👧‍👦",
        "👍🏽",
        "1️⃣",
        "❤️‍🔥",
        "🏳️‍🌈",
        "🇩🇪",
        "e\u0301",
        "\u1112\u1161\u11ab",
        "\r\n",
        "न\u093f",
    ],
)
def test_a_cut_halves_nothing_that_people_see_as_one(whole: str) -> None:
    text = f"ab{whole}{whole}c"
    for limit in range(len(text) + 1):
        kept = rendering.head(text, limit)
        assert kept in {text[:at] for at in (0, 1, 2, 2 + len(whole), len(text) - 1, len(text))}
        assert limit - len(kept) < len(whole)


def test_marks_without_end_are_cut_all_the_same() -> None:
    assert len(rendering.head("x" + "\u0301" * 500, 100)) == 100
    assert rendering.head("🇩" * 1_000, 101) == "🇩" * 100


@pytest.mark.parametrize("emoji", ["👨‍👩‍👧‍👦", "👍🏽", "1️⃣", "❤️‍🔥", "🏳️‍🌈", "🇩🇪"])
def test_an_emoji_is_shown_whole(emoji: str) -> None:
    assert visible(emoji) == emoji


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u200db", "a\\u200db"),
        ("👨\u200db", "👨\\u200db"),
        ("a\u200d👨", "a\\u200d👨"),
        ("1\ufe0fa", "1\\ufe0fa"),
        ("👨\u200d\u200d👨", "👨\\u200d\\u200d👨"),
    ],
)
def test_a_joiner_elsewhere_is_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


def leaves(markdown: str, parser: MarkdownIt) -> list[tuple[str, str]]:
    """Return what a paragraph of Markdown consists of."""
    opening, body, closing = parser.parse(markdown)
    assert (opening.type, body.type, closing.type) == (
        "paragraph_open", "inline", "paragraph_close",
    )  # fmt: skip
    return [(one.type, one.content) for one in body.children or []]


@pytest.mark.parametrize("parser", MARKDOWN)
@EXAMPLES
@given(text=TEXTS)
@example(text="`").via("a fence longer than the text's own")
def test_a_code_span_holds_the_whole_text_and_nothing_else(parser: MarkdownIt, text: str) -> None:
    span = code(text)
    assert_visible(span)
    assert not any(f"{{{name}}}" in span for name in ("workflowId", "runId", "namespace"))
    if text:
        ((kind, content),) = leaves(span, parser)
        assert kind == "code_inline"
        assert "  " not in content
        assert original(content) == text


@pytest.mark.parametrize("parser", MARKDOWN)
@EXAMPLES
@given(text=TEXTS, limit=st.one_of(st.none(), st.integers(0, 9)))
def test_in_a_line_of_markdown_a_text_has_no_meaning(
    parser: MarkdownIt, text: str, limit: int | None
) -> None:
    for line in (inline(text, limit), f"- {inline(text, limit)}: x"):
        found = [one for one in parser.parse(line) if one.type == "inline"]
        kinds = {leaf.type for one in found for leaf in one.children or []}
        assert len(found) == 1
        assert kinds <= {"text", "code_inline"}


@EXAMPLES
@given(st.one_of(TEXTS, TEXTS.map(lambda text: text * 40)), st.sampled_from([200, 120]))
def test_a_summary_has_room_in_its_bytes(text: str, limit: int) -> None:
    assert len(inline_within(text, limit).encode()) <= limit


@examples(30)
@given(
    st.lists(
        st.sampled_from(NASTY)
        .filter(lambda text: "\x00" not in text)
        .filter(lambda text: not any("\ud800" <= one <= "\udfff" for one in text)),
        min_size=5,
        max_size=40,
    )
)
def test_a_shell_reads_the_very_text_from_its_word(texts: list[str]) -> None:
    words = [shell_word(text) for text in [*texts, "".join(texts)]]
    for word in words:
        assert_visible(word)
    command = f"printf '%s\\0' {' '.join(words)}"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"}
    )
    assert done.stdout.decode().split("\0")[:-1] == [*texts, "".join(texts)]


# --- Examples -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, Zoë: 5 €", "plain, Zoë: 5 €"),
        ("\x1b[2K", "\\u001b[2K"),
        ("a\u202eb", "a\\u202eb"),
        ("\U000e0041", "\\U000e0041"),
        ("C:\\Users\\new", "C:\\Users\\new"),
        ("\\u001b", "\\\\u001b"),
        ("\\\x1b", "\\\\\\u001b"),
        ("a\nb", "a\\u000ab"),
        ("❤\ufe0f", "❤\ufe0f"),
        ("a\ufe0f", "a\\ufe0f"),
        ("❤\ufe0f\ufe0f", "❤\\ufe0f\\ufe0f"),
        ("bonjour\u00a0!", "bonjour\u00a0!"),
        ("\u3164", "\\u3164"),
    ],
)
def test_what_cannot_be_seen_is_an_escape(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_a_repeated_key_is_shown_as_often_as_it_is_written() -> None:
    arguments = '{"amount": 5, "amount": 5000}'
    assert call_line("refund", arguments) == "refund(amount=5, amount=5000)"
    assert argument_lines(arguments) == ("{", '  "amount": 5,', '  "amount": 5000', "}")
    assert repeated_keys(arguments) == ("amount",)
    assert repeated_keys('{"a": [{"b": 1, "b": 2}], "c": {"b": 1}}') == ("b",)
    assert repeated_keys("[") == repeated_keys('{"a": 1}') == ()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("{}", "t()"),
        ('{"a": 1.50, "b": [true, null]}', "t(a=1.50, b=[true, null])"),
        ('{"name": "Zoë"}', 't(name="Zoë")'),
        ('{"a=1, b": 2}', 't("a=1, b"=2)'),
        ('{"a": "\\u001b\\u202e\\u0041"}', 't(a="\\u001b\\u202eA")'),
        ("not\x1bjson", "t(not\\u001bjson)"),
        ("[1]", "t([1])"),
    ],
)
def test_a_call_reads_like_code(arguments: str, line: str) -> None:
    assert call_line("t", arguments) == line


def test_arguments_nested_without_end_are_shown_as_they_are() -> None:
    for arguments in ("[" * 100_000, "[" * 200 + "]" * 200):
        assert argument_lines(arguments) is None
        assert arguments_text(arguments) == arguments


def test_a_number_of_thousands_of_digits_is_shown_as_it_is() -> None:
    arguments = '{"a":' + "9" * 5_000 + "}"
    assert argument_lines(arguments) is None
    assert digest(arguments_text(arguments)) == digest(arguments)


def test_parts_are_shown_once_each() -> None:
    assert joined("→ ", visible("\x1b"), "\x1b", "\\u001b") == "→ \\u001b\\u001b\\\\u001b"


def test_a_cut_keeps_the_kind_of_text() -> None:
    assert type(cut("abc", 2)) is str
    assert cut("abc", 2) == "ab… (cut: 2 of 3 characters)"
    assert type(cut(visible("abc"), 2)) is Shown
    assert excerpt("x" * 12_345, 200).endswith("x… (cut: 200 of 12,345 characters)")


def test_a_harmless_text_stays_text_in_markdown() -> None:
    assert inline('refund_order(order_id="A-17", amount=5)') == (
        'refund_order(order_id="A-17", amount=5)'
    )
    assert inline("**Billing**") == "`**Billing**`"
    assert inline("_it_") == "`_it_`"
    assert code("a``b`") == "``` a``b` ```"
    assert code("x" * 10, 4) == "`xxxx` … (cut: 4 of 10 characters)"
    assert code("") == "(empty)"


def test_an_ordinary_id_needs_no_quotes_in_a_shell() -> None:
    assert shell_word("support-42") == "support-42"
    assert shell_word("a b; rm") == shlex.quote("a b; rm")
    assert shell_word("a\x1b'") == "$'a\\u001b\\''"


def test_an_id_like_an_option_is_none_in_a_command() -> None:
    assert command("show", "support-42", options="--json") == "outlast show support-42 --json"
    assert command("approve", "--address=x y", "a1") == "outlast approve -- '--address=x y' a1"
    assert command("reject", "-x", options="-m no") == "outlast reject -m no -- -x"


TWIN = "\u0430nn"
"""A name with a Cyrillic letter; `ann` to the eye."""


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("ann", "ann"),
        (TWIN, "\\u0430nn"),
        (f"billing {TWIN}", "billing \\u0430nn"),
        ("\u0441\u0430\u0440", "\\u0441\\u0430\\u0440"),  # all letters pass for `cap`
        ("ann or \u0441\u0430\u0440", "ann or \\u0441\\u0430\\u0440"),
        ("p\u0430y_\u0440", "p\\u0430y_\\u0440"),
        ("\u03bfscar", "\\u03bfscar"),
        ("\U0001d5ba\U0001d5c7\U0001d5c7", "\\U0001d5ba\\U0001d5c7\\U0001d5c7"),
        (f"\\{TWIN}", "\\\\\\u0430nn"),
        (f"\\\\{TWIN}", "\\\\\\\\\\u0430nn"),
        (f"a\u202e{TWIN}", "a\\u202e\\u0430nn"),
    ],
)
def test_a_letter_that_passes_for_another_is_visible_in_a_name(name: str, shown: str) -> None:
    assert named(name) == shown
    assert original(named(name)) == name
    assert named(named(name)) == visible(named(name)) == shown


@pytest.mark.parametrize(
    "name",
    [
        "Zo\u00eb M\u00fcller",
        "\u0418\u0432\u0430\u043d \u0421\u0430\u0440\u0430",  # Cyrillic only, and other letters, too
        "IT-\u043e\u0442\u0434\u0435\u043b",
        "\u0393\u03b9\u03ce\u03c1\u03b3\u03bf\u03c2",
        "T\u30b7\u30e3\u30c4\u90e8",
        "\u02bbOkina O\u02bbzbek",
        "\u0645\u062d\u0645\u062f",
        "",
    ],
)
def test_names_of_one_script_are_shown_as_they_are(name: str) -> None:
    assert named(name) == name


def log_line(message: str, *arguments: object, error: BaseException | None = None) -> str:
    record = logging.LogRecord(
        "outlast.x", logging.WARNING, __file__, 1, message, arguments,
        (type(error), error, None) if error else None,
    )  # fmt: skip
    return LogFormatter("%(levelname)s %(name)s: %(message)s").format(record)


def test_a_record_is_one_line_of_the_log() -> None:
    text = "lost\n2026-01-01 INFO outlast: all is well\x1b[2K"
    assert log_line("the run %s", text) == (
        "WARNING outlast.x: the run lost\\u000a2026-01-01 INFO outlast: all is well\\u001b[2K"
    )


def test_below_it_a_traceback_is_indented() -> None:
    lines = log_line("failed", error=ValueError("a\nINFO outlast: all is well\x1b")).split("\n")
    assert lines[0] == "WARNING outlast.x: failed"
    assert lines[1:] == ["    ValueError: a", "    INFO outlast: all is well\\u001b"]


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 calls"), (1, "1 call"), (2, "2 calls"), (1200, "1,200 calls")]
)
def test_a_number_agrees_with_its_noun(count: int, text: str) -> None:
    assert counted(count, "call") == text


def test_arguments_are_a_list_of_names_and_values_that_cannot_be_mistaken() -> None:
    text = (
        '{"id": "A-42", "n": 389.0, "s": "5", "t": "true", "e": "", "lines": "a\\nb", "bom": "a\\u202eb",'
        ' "space": " x", "o": {"a": ["x", 1]}, "none": null, "id": "twice", "\\u202e": 1}'
    )
    pairs = rendering.read_arguments(text)
    assert pairs is not None
    assert [(str(visible(key)), str(rendering.plain_value(value))) for key, value in pairs] == [
        ("id", "A-42"),
        ("n", "389.0"),
        ("s", '"5"'),
        ("t", '"true"'),
        ("e", '""'),
        ("lines", '"a\\nb"'),
        ("bom", '"a\\u202eb"'),
        ("space", '" x"'),
        ("o", '{"a": ["x", 1]}'),
        ("none", "null"),
        ("id", "twice"),
        ("\\u202e", "1"),
    ]
    for odd in ("", "[1]", "5", "{", '{"a": ' + "[" * 5_000 + "]" * 5_000 + "}"):
        assert rendering.read_arguments(odd) is None
    assert rendering.read_arguments("{}") == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a" + "\u0336" * 8, "a" + "\u0336" * 8),
        ("a" + "\u0336" * 10, "a" + "\u0336" * 8 + "\\u0336" * 2),
        ("a" + "\U0001d167\u0489" * 5, "a" + "\U0001d167\u0489" * 4 + "\\U0001d167\\u0489"),
        ("\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd e\u0301 \u0e01\u0e33\u0e25\u0e31\u0e07", None),
        ("\U0001f642" * 20, None),
    ],
)
def test_marks_do_not_heap_up_over_other_lines(text: str, shown: str | None) -> None:
    assert visible(text) == (shown or text)
    assert original(visible(text)) == text


@dataclass(frozen=True)
class Lease:
    tenants: tuple[str, ...]
    since: datetime
    until: datetime | None = None

    @property
    def is_open(self) -> bool:
        return self.until is None


def test_fields_of_a_record_are_plain_json_with_times_as_text() -> None:
    lease = Lease(("ann", "bob"), datetime(2026, 12, 1, 9, 30, tzinfo=UTC))
    since = "2026-12-01T09:30:00+00:00"
    assert rendering.json_fields(lease) == {
        "tenants": ("ann", "bob"),
        "since": since,
        "until": None,
    }
    chosen = rendering.json_fields(lease, "is_open", "since")
    assert list(chosen.items()) == [("is_open", True), ("since", since)]
    assert json.loads(rendering.json_text(rendering.json_fields(lease)))["tenants"] == [
        "ann",
        "bob",
    ]
