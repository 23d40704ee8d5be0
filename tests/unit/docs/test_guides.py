"""The programs of the documentation run when they are pasted into a file, and print what they say."""

import ast
import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.models.openai.provider import OpenAIProvider
from outlast.testing import ScriptedModel, call, run_in_memory
from tests.servers import TemporalServer
from tests.unit.docs.guides import DOCS, PAGES, PROGRAMS, blocks, check_printed, name_of

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
    check_printed(program, capsys.readouterr().out)


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
