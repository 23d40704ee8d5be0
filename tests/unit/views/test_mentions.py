"""Who a comment calls."""

import pytest

from outlast.views.mentions import MOST_MENTIONS, mention_parts, mention_tag, mention_tags


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("@ann, look", ("@ann",)),
        ("Ask @Ann and @ANN.", ("@ann",)),
        ("(@bob@shop.example)", ("@bob@shop.example",)),
        ("write to ann@shop.example", ()),
        ("@ @. @- a@b @@c", ()),
        ("@anna.lee-2...", ("@anna.lee-2",)),
        ("<b>@ann</b>", ("@ann",)),
        ("@Jörg!", ("@jörg",)),
        ("@" + "a" * 300, ("@" + "a" * 100,)),
    ],
)
def test_a_mention_is_a_tag(text: str, tags: tuple[str, ...]) -> None:
    assert mention_tags(text) == tags
    assert "".join(part for part, _ in mention_parts(text)) == text


def test_a_comment_calls_only_so_many() -> None:
    text = " ".join(f"@n{number}" for number in range(100))
    assert len(mention_tags(text)) == MOST_MENTIONS
    assert mention_tags("@" * 100_000 + "a" * 100_000) == ()


def test_the_tag_of_a_name_does_not_depend_on_its_case() -> None:
    assert mention_tag("Ann") == mention_tag("ann") == "@ann"
