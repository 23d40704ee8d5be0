"""The programs of the documentation, and what they print.

A block marked `python` is such a program; one marked `py` is only shown, and has to compile. Of
`print(...)  # text` the text is what is printed.
"""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"
PAGES = [*sorted(DOCS.glob("**/*.md")), DOCS.parent / "README.md"]


def blocks(page: Path, language: str) -> list[str]:
    """Return the code blocks of a page that are not parts of the tutorial."""
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def name_of(page: Path) -> str:
    """Return what a page is called here: a guide and a page of the API may have the same name."""
    return f"api-{page.stem}" if page.parent.name == "api" else page.stem


PROGRAMS = [
    pytest.param(program, id=f"{name_of(page)}-{number}")
    for page in PAGES[:-1]
    for number, program in enumerate(blocks(page, "python"), start=1)
]


def check_printed(program: str, shown: str) -> None:
    """Check that a program has printed what it says that it prints, in that order."""
    printed = shown.splitlines()
    for expected in re.findall(r"^ *print\(.*\)  # (.+)$", program, re.MULTILINE):
        assert expected in printed, f"{expected!r} was not printed; after it came {printed}"
        printed = printed[printed.index(expected) + 1 :]
