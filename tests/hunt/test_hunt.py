"""`make hunt` runs each file once in each round, goes on where it was stopped, and names what failed."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.hunt import __main__ as hunting
from tests.hunt.rounds import ROUNDS, Done, Round, problems, read, remaining, table, write
from tests.pool.test_pool import FILES

REST, FULL = ROUNDS[0], ROUNDS[-1]


def test_the_rounds_are_those_that_the_gate_is_judged_by() -> None:
    kinds = Counter(one.kind for one in ROUNDS)
    assert kinds == {"rest": 5, "busy": 5, "order": 3, "core": 2, "full": 1, "full-busy": 1}
    assert len({one.name for one in ROUNDS}) == len(ROUNDS)


def test_a_round_runs_as_it_says() -> None:
    commands = {one.kind: hunting.command_of(one, ["a.py"]) for one in ROUNDS}
    assert commands["rest"][-3:] == ["-m", "not full", "a.py"]
    assert "not full" not in commands["full"]
    assert commands["order"][commands["order"].index("--seed") + 1] == "3"
    assert commands["core"][:3] == ["taskset", "-c", "0"]
    with hunting.kept_busy(REST):
        pass


def test_a_round_goes_on_with_the_files_that_it_has_not_run(tmp_path: Path) -> None:
    report = tmp_path / "report.jsonl"
    assert read(report) == []
    write(report, Done(REST.name, "a.py", (("a.py::test", "why"),), 2))
    with report.open("a") as cut_off:
        cut_off.write('{"round": "rest-1", "fi')
    done = read(report)
    assert done == [Done(REST.name, "a.py", (("a.py::test", "why"),), 2)]
    assert remaining(REST, done, ["a.py", "b.py"]) == ["b.py"]
    assert remaining(FULL, done, ["a.py", "b.py"]) == ["a.py", "b.py"]


def test_the_table_counts_failures_by_round_and_by_test() -> None:
    done = [Done("rest-1", "a.py", (("a.py::test", "why"),), 2), Done("rest-2", "a.py", (), 1)]
    rows = [line.split() for line in table(ROUNDS[:2], done, ["a.py", "b.py"]).splitlines()]
    assert rows[1:] == [
        ["rest-1", "1", "of", "2", "2", "1"],
        ["rest-2", "1", "of", "2", "1", "0"],
        ["a.py::test:", "rest", "1"],
    ]


def test_a_failure_that_no_file_has_written_down_is_found_in_what_was_said() -> None:
    said = (
        "FAILED a.py::test - why\nFAILED b.py: process 2 ended by SIGKILL\nERROR c.py - no module"
    )
    found = list(problems(said, [Done("rest-1", "a.py", (("a.py::test", "why"),))]))
    assert found == [("b.py", "process 2 ended by SIGKILL"), ("c.py", "no module")]


@pytest.mark.full
def test_a_hunt_in_small_writes_down_what_failed_and_does_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    real = hunting.command_of
    own = ["-c", str(tmp_path / "pyproject.toml"), "--rootdir", str(tmp_path), str(tmp_path)]

    def command_of(one: Round, files: Sequence[str]) -> list[str]:
        return [*real(one, files[:0]), *own]

    monkeypatch.setattr(hunting, "command_of", command_of)
    report = tmp_path / "report.jsonl"
    names = [name for name in FILES if Path(name).name.startswith("test_")]
    assert hunting.hunt(REST, names, report, None)
    files = {it.file: [Path(test).name for test, _ in it.failed] for it in read(report)}
    others = sorted(files.pop(""))
    assert files.keys() == {*names}
    assert [test for tests in files.values() for test in tests] == ["test_some.py::test_fails"]
    assert others == ["test_cannot_be_imported.py", "test_kills_its_process.py"]
    said = capsys.readouterr().out
    assert "FAILED rest-1 test_some.py::test_fails: assert [1] == [2]" in said
    assert "FAILED rest-1 killed/test_kills_its_process.py: process" in said
    assert remaining(REST, read(report), [*names, "another.py"]) == ["another.py"]


def test_a_hunt_that_is_out_of_time_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def command_of(one: Round, files: Sequence[str]) -> list[str]:
        return ["sleep", "60"]

    monkeypatch.setattr(hunting, "command_of", command_of)
    assert not hunting.hunt(REST, ["a.py"], tmp_path / "report.jsonl", 0)
    assert remaining(REST, read(tmp_path / "report.jsonl"), ["a.py"]) == ["a.py"]
