"""Text that others have written, for tests of what people see of it."""

import json
import unicodedata

from hypothesis import strategies as st

HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
FILLERS = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180d\u180f\u2800\u3164\uffa0\ufe00\U000e0100"
NASTY = [
    "\x1b[2K\x1b[1A", "\x9b2K", "\x7f", "\r", "\n", "\t", "\x00", "\u202e", "\u2066", "\u2069", "\u200b",
    "\u200d", "\ufeff", "\u00ad", "\u2028", "\u2029", "\U000e0041", "\U000f0000", "\ue000", "\ud800",
    "\udc00", "\ufe0f", "❤\ufe0f", *FILLERS,
    "\\", "\\\\", "\\u001b", "\\U000e0041", "\\n", "u001b", '"', "`", "``", "```", "~~~", "*", "**", "_",
    "[a](http://b)", "![a](b)", "<img src=x>", "<!--", "&lt;", "|", "|-|", "# ", "- ", "1. ", "> ", "    ",
    "===", "---", "http://a.b", "www.a.b", "a@b.c", "{workflowId}", "{runId}", "{namespace}", "[bold]",
    ":smile:", " ", "  ", "é", "🙂", "a", "A-17", "refund",
]  # fmt: skip
TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=())),
    st.lists(st.sampled_from(NASTY), max_size=12).map("".join),
)
JSON_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=12,
)


def is_hidden(character: str) -> bool:
    return unicodedata.category(character) in HIDDEN or character in FILLERS


def assert_visible(shown: str, *, layout: str = "") -> None:
    assert not [one for one in shown if is_hidden(one) and one not in layout]


@st.composite
def object_texts(draw: st.DrawFn) -> str:
    """Objects as a hostile model writes them: keys repeated, numbers spelled oddly, blanks."""
    numbers = st.sampled_from(["1.0", "1e2", "-0", "0.10000000000000000001", "1e999", "NaN"])
    value = st.one_of(JSON_VALUES.map(json.dumps), numbers)
    pairs = draw(st.lists(st.tuples(TEXTS, value), max_size=5))
    if pairs and draw(st.booleans()):
        pairs.append((pairs[0][0], draw(value)))
    fields = [
        f"{json.dumps(key, ensure_ascii=draw(st.booleans()))} : {text}" for key, text in pairs
    ]
    return f" {{{' ,'.join(fields)}}} "


ARGUMENTS = st.one_of(TEXTS, JSON_VALUES.map(json.dumps), object_texts())
