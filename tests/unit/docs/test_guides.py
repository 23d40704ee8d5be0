"""The programs of the documentation run when they are pasted into a file, and print what they say.

A block marked `python` is such a program; one marked `py` is only shown, and has to compile. Of
`print(...)  # text` the text is what is printed.
"""

import ast
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from outlast.models.openai.provider import OpenAIProvider
from outlast.testing import ScriptedModel, call, run_in_memory
from tests import forked
from tests.servers import TemporalServer

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
FRAGMENTS = [
    pytest.param(fragment, id=f"{name_of(page)}-{number}")
    for page in PAGES
    for number, fragment in enumerate(blocks(page, "py"), start=1)
]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.breaks_rules("image-type")
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


CONNECTS = re.compile(r"\bconnect\(|handle\.client|\bclient=")
"""What a program has that takes part in more than its own run, and so needs the server's address."""


def first_with_an_import() -> Iterator[str]:
    """Yield each program that imports a module of the package which none before it imports."""
    known = set[str]()
    for page in PAGES[:-1]:
        for program in blocks(page, "python"):
            modules = set(re.findall(r"^(?:from|import) (outlast[\w.]*)", program, re.MULTILINE))
            if modules - known:
                yield program
            known |= modules


ANEW = {*first_with_an_import()}
"""The programs whose process loads the packages itself: the others are forked from one that has them."""


@pytest.mark.full
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_runs_as_printed_on_a_machine_without_a_server(
    program: str, tmp_path: Path
) -> None:
    """In a process of its own, with an empty home; or it says at once that a server is to be started.

    A program that hosts its runs starts a server. One that connects to a worker's does not.
    """
    file = tmp_path / "program.py"
    file.write_text(program, encoding="utf-8")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TEMPORAL_", "OPENAI_", "OUTLAST_", "PYTEST_"))
    }
    with nullcontext() if program in ANEW else forked.processes():
        done = subprocess.run(
            [sys.executable, str(file)],
            cwd=tmp_path,
            env=kept | {"HOME": str(tmp_path), "TEMPORAL_CONFIG_FILE": os.devnull},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    if done.returncode and CONNECTS.search(program):
        assert "ServerUnavailable" in done.stderr.splitlines()[-1], done.stderr[-2_000:]
        assert "outlast dev" in done.stderr
        return
    assert done.returncode == 0, done.stderr[-2_000:]
    printed = done.stdout.splitlines()
    for expected in re.findall(r"^ *print\(.*\)  # (.+)$", program, re.MULTILINE):
        assert expected in printed, f"{expected!r} was not printed; after it came {printed}"
        printed = printed[printed.index(expected) + 1 :]


@pytest.mark.parametrize("fragment", FRAGMENTS)
def test_a_fragment_is_python(fragment: str) -> None:
    compile(fragment, "fragment.py", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.smoke
def test_the_program_of_the_readme_ends_at_its_question_and_continues(
    server: TemporalServer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = ScriptedModel([call("refund", "c1", order_id="A-17", amount=20)], "Done.")
    monkeypatch.setattr(OpenAIProvider, "get_model", staticmethod(model.get_model))
    monkeypatch.setenv("TEMPORAL_ADDRESS", server.address)
    (program,) = blocks(PAGES[-1], "python")
    path = tmp_path / "readme.py"
    path.write_text(program, encoding="utf-8")
    asked: list[str] = []
    answers: Iterator[str | None] = iter([None, "y"])

    def answer(question: str) -> str:
        asked.append(question)
        given = next(answers)
        if given is None:
            raise KeyboardInterrupt
        return given

    monkeypatch.setattr("builtins.input", answer)
    with pytest.raises(KeyboardInterrupt):
        runpy.run_path(str(path), run_name="__main__")
    runpy.run_path(str(path), run_name="__main__")
    assert asked == ['refund {"order_id": "A-17", "amount": 20}: approve? [y/n] '] * 2
    assert capsys.readouterr().out == "Done.\n"
    assert model.calls == 2


async def test_the_program_of_the_first_page_waits_for_a_person(tmp_path: Path) -> None:
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    (program,) = re.findall(
        r'^```python title="desk.py"\n(.*?)^```$', text, re.MULTILINE | re.DOTALL
    )
    (tmp_path / "desk.py").write_text(program, encoding="utf-8")
    desk = runpy.run_path(str(tmp_path / "desk.py"))["desk"]
    model = ScriptedModel([call("refund", "c1", order_id="A-42", amount=20)], "Done.")
    asked: list[str] = []
    result = await run_in_memory(
        desk,
        "I want 20 EUR back for order A-42.",
        model=model,
        decide=lambda request: not asked.append(request.name),
    )
    assert asked == ["refund"]
    assert "20 EUR are on their way." in str(result.to_input_list())
