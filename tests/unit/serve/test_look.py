"""The look of the customers' page: what an operator may write, and what is refused at the start."""

from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.agents.approvals.policy_file import ApprovalFile
from outlast.agents.errors import UserError
from outlast.serve.look import DARK, LARGEST_LOGO, LEAST_CONTRAST, LIGHT, Look, contrast, readable

COLORS: Final = st.from_regex("#[0-9a-f]{6}", fullmatch=True)
PNG: Final = b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("#000000", "#ffffff", 21.0),
        ("#ffffff", "#ffffff", 1.0),
        ("#767676", "#ffffff", 4.54),  # the lightest gray that WCAG's own examples allow
        ("#777777", "#FFFFFF", 4.48),
        ("#0000ff", "#ffffff", 8.59),
    ],
)
def test_contrast_is_that_of_wcag(one: str, other: str, expected: float) -> None:
    assert contrast(one, other) == pytest.approx(expected, abs=0.006)
    assert contrast(other, one) == contrast(one, other)


@given(COLORS)
def test_every_color_has_a_shade_that_can_be_read(color: str) -> None:
    for backgrounds, toward in ((LIGHT, "#000000"), (DARK, "#ffffff")):
        shade = readable(color, backgrounds, toward)
        assert min(contrast(shade, one) for one in backgrounds) >= LEAST_CONTRAST


@given(COLORS)
def test_a_look_has_readable_colors_in_both_themes_or_says_which_would_be(color: str) -> None:
    if min(contrast(color, one) for one in LIGHT) < LEAST_CONTRAST:
        with pytest.raises(UserError, match="text needs") as refused:
            Look(color=color)
        color = refused.value.message.rpartition(". ")[2].partition(" ")[0]
    css = Look(color=color).css()
    light, dark = (
        line.split("--accent: ")[1][:7] for line in css.splitlines() if "--accent" in line
    )
    assert light == color
    assert min(contrast(light, one) for one in LIGHT) >= LEAST_CONTRAST
    assert min(contrast(dark, one) for one in DARK) >= LEAST_CONTRAST


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"color": "red"}, "must be a color such as"),
        ({"color": "#0b57d0; } * { display: none"}, "must be a color such as"),
        ({"color": "#0b57d0\n"}, "must be a color such as"),
        ({"color": "#ffcc00"}, "has a contrast of 1.3 on the page"),
        ({"dark_color": "#003366"}, "has a contrast of"),
        ({"name": " "}, "must be a non-empty string"),
        ({"name": "Globex\u202e"}, "Look(name=...)"),
        ({"name": "x" * 61}, "at most 60 characters"),
        ({"language": 'de" onload="alert(1)'}, "must be such as 'de'"),
        ({"words": {"helo": "Hi"}}, "Did you mean 'hello'?"),
        ({"words": {"hello": "x" * 301}}, "at most 300 characters"),
        ({"words": {"hello": 5}}, "must be a string"),
        ({"words": "Hello"}, "must be a table"),
        ({"guests": "yes"}, "must be true or false"),
        ({"embed": "https://shop.example"}, "must be a list"),
        *(
            ({"embed": [one]}, "must have the origins of sites")
            for one in (
                "https://shop.example/",
                "https://Shop.example",
                "http://shop.example",  # a cookie of a frame needs https
                "https://*.shop.example",
                "https://shop.example; script-src *",
                "https://shop.example https://evil.example",
                "*",
                "'self'",
                "https://",
                "javascript:alert(1)",
                None,
            )
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_its_name(given: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError) as refused:
        Look(**given)
    assert says in str(refused.value)
    assert next(iter(given)) in str(refused.value)


def test_sites_of_this_machine_need_no_https() -> None:
    origins = ["https://shop.example", "http://localhost:8000", "http://127.0.0.1:8000"]
    assert Look(embed=origins).origins == (*origins,)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("logo.gif", b"GIF89a", "must be a PNG, JPEG or SVG"),
        ("logo.png", b"<html>", "must be a PNG, JPEG or SVG"),
        ("logo.png", PNG + b"x" * LARGEST_LOGO, "more than 200,000 bytes"),
        ("none.png", None, "cannot be read"),
    ],
)
def test_a_logo_is_a_small_picture(
    tmp_path: Path, name: str, content: bytes | None, says: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=says):
        Look(logo=tmp_path / name)


def test_a_look_is_a_table_beside_the_operators_policies(tmp_path: Path) -> None:
    (tmp_path / "logo.png").write_bytes(PNG)
    text = """
        [tool.refund]
        needs_approval = true

        [chat]
        name = "Globex"
        color = "#0b6e4f"
        logo = "logo.png"
        language = "de"
        embed = ["https://shop.example"]
        [chat.words]
        send = "Senden"
    """
    file = tmp_path / "approvals.toml"
    file.write_text(text, encoding="utf-8")
    look = Look.load(file)
    assert (look.name, look.texts["send"], look.texts["you"]) == ("Globex", "Senden", "You")
    assert look.picture() == (PNG, "image/png")
    assert ApprovalFile.load(file).entries  # workers read the same file


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("chat = 5", "no table"),
        ("[tool.refund]", "no table"),
        ("[chat]\ncolour = '#000000'", "Did you mean 'color'?"),
        ("[chat]\ncolor = 'red'", "must be a color"),
        ("[chat]\nname = 5", "must be a string"),
        ("[chat", "cannot be used"),
        ("[chat]\nlogo = 'none.png'", "cannot be read"),
    ],
)
def test_mistakes_of_a_file_name_the_file(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "look.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UserError) as refused:
        Look.load(file)
    assert str(file) in str(refused.value)
    assert says in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.toml"):
        Look.load(tmp_path / "none.toml")
