"""The programs of the documentation run when they are pasted into a file, and print what they say.

A block marked `python` is such a program; one marked `py` is only shown, and has to compile. Of
`print(...)  # text` the text is what is printed.
"""

import ast
import re
import runpy
from pathlib import Path

import pytest

from tests.servers import TemporalServer

DOCS = Path(__file__).parents[3] / "docs"
PAGES = sorted(DOCS.glob("**/*.md"))


def blocks(page: Path, language: str) -> list[str]:
    """Return the code blocks of a page that are not parts of the tutorial."""
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


PROGRAMS = [
    pytest.param(program, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, program in enumerate(blocks(page, "python"), start=1)
]
FRAGMENTS = [
    pytest.param(fragment, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, fragment in enumerate(blocks(page, "py"), start=1)
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_runs_when_it_is_pasted_into_a_file(
    program: str,
    server: TemporalServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", server.address)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "program.py"
    file.write_text(program, encoding="utf-8")
    runpy.run_path(str(file), run_name="__main__")
    printed = capsys.readouterr().out.splitlines()
    for expected in re.findall(r"^ *print\(.*\)  # (.+)$", program, re.MULTILINE):
        assert expected in printed, f"{expected!r} was not printed; after it came {printed}"
        printed = printed[printed.index(expected) + 1 :]


@pytest.mark.parametrize("fragment", FRAGMENTS)
def test_a_fragment_is_python(fragment: str) -> None:
    compile(fragment, "fragment.py", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
