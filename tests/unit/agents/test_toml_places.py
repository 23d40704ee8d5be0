"""Lines and columns of the keys of a TOML text."""

import pytest

from outlast.agents.approvals.toml_places import TomlPlaces

TEXT = """\
# A comment with [tool.wrong]
[tool.a]
x = 1
  y = [
    "[tool.fake]",   # looks like a header
    "z = 1",
]
text = '''
[tool.fake]
z = 1
'''

[agent."A B".tool.'c=d']
"k=1" = 2
one.two = 3
table = { inner = 1, "quoted" = 2 }

[[list]]
a = 1
[[list]]
  a = [{ b = 2 }]
"""


@pytest.mark.parametrize(
    ("path", "place"),
    [
        (("tool", "a"), (2, 1)),
        (("tool", "a", "x"), (3, 1)),
        (("tool", "a", "y"), (4, 3)),
        (("tool", "a", "text"), (8, 1)),
        (("agent", "A B", "tool", "c=d"), (13, 1)),
        (("agent", "A B", "tool", "c=d", "k=1"), (14, 1)),
        (("agent", "A B", "tool", "c=d", "one", "two"), (15, 1)),
        (("agent", "A B", "tool", "c=d", "table", "inner"), (16, 11)),
        (("agent", "A B", "tool", "c=d", "table", "quoted"), (16, 23)),
        (("list",), (18, 1)),
        (("list", 0, "a"), (19, 1)),
        (("list", 1), (20, 1)),
        (("list", 1, "a"), (21, 3)),
        (("list", 1, "unknown"), (20, 1)),
        (("list", 1, "a", 0, "b"), (21, 3)),
        (("tool", "a", "unknown"), (2, 1)),
        (("agent",), (13, 1)),
        (("tool", "fake"), (1, 1)),
        (("nowhere",), (1, 1)),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_key_has_a_line_and_a_column(
    path: tuple[str, ...], place: tuple[int, int], end: str
) -> None:
    places = TomlPlaces(TEXT.replace("\n", end))
    assert places.of(path) == place


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('[a]\nwhen = "x > 5k"', (2, 13)),
        ("[a]\nwhen = 'x > 5k'", (2, 13)),
        ("[a]\nwhen = '''\nx > 5k'''", (3, 5)),
        ('[a]\nwhen = "\\u0078 > 5k"', (2, 1)),
    ],
)
def test_a_character_of_a_text_has_a_place_unless_the_text_is_escaped(
    text: str, place: tuple[int, int]
) -> None:
    assert TomlPlaces(text).of_value(("a", "when"), "x > 5k", 4) == place


def test_a_separator_that_is_no_line_end_in_toml_does_not_end_a_line() -> None:
    places = TomlPlaces("a = 'one\u2028two'\nb = 1\n")
    assert places.of(("b",)) == (2, 1)
