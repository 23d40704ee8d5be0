"""Recordings in files, and the tests that `replays` makes of them."""

import inspect
from pathlib import Path
from typing import Any

import pytest

from outlast import Agent, function_tool
from outlast.agents.errors import UserError
from outlast.client.recordings import Recording
from outlast.testing import (
    Replay,
    ScriptedModel,
    call,
    load_run,
    load_runs,
    record_in_memory,
    replay,
    replays,
)


@function_tool
def look_up(order_id: str) -> str:
    """Look an order up."""
    return f"{order_id}: 40 EUR"


AGENT = Agent(name="Desk", tools=[look_up])
CHANGED = Agent(name="Desk")


@pytest.fixture
async def runs(tmp_path: Path) -> Path:
    for name in ("a", "b"):
        model = ScriptedModel([call("look_up", "c1", order_id=name)], "Done.")
        recording = await record_in_memory(AGENT, "Hello", model=model, run_id=name)
        (tmp_path / f"{name}.json").write_text(recording.to_json(indent=1))
    return tmp_path


def test_a_file_holds_one_recording_or_lines_of_them(runs: Path):
    one, two = load_run(runs / "a.json"), load_run(str(runs / "b.json"))
    assert (one.run_id, two.run_id) == ("a", "b")
    several = runs / "all.jsonl"
    several.write_text(f"{one.to_json()}\n{two.to_json()}\n")
    assert load_runs(several) == [one, two]
    with pytest.raises(UserError, match="holds 2 recordings"):
        load_run(several)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is not JSON"),
        ("[]", "is no recording"),
        ('{"format": "outlast.recording", "version": 2}', "has version 2 of the format"),
        ('{"format": "outlast.recording", "version": 1, "run_id": 7}', "is a damaged recording"),
        ("[" * 100_000, "nested more than 200 levels deep"),
        ('{"a": 1}\n{"b": 2}', "line 1 is no recording"),
    ],
)
def test_other_files_are_refused_by_name(tmp_path: Path, text: str, says: str):
    file = tmp_path / "run.json"
    file.write_text(text)
    with pytest.raises(UserError, match=says) as refused:
        load_run(file)
    assert "run.json" in str(refused.value)


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(UserError, match=r"nothing\.json cannot be read"):
        load_run(tmp_path / "nothing.json")
    with pytest.raises(UserError, match="outlast record ID >"):
        replays(tmp_path / "nothing.json", agents=AGENT)(lambda: None)


def test_a_test_passes_or_fails_with_the_differences(runs: Path):
    seen: list[int] = []

    def body() -> None:
        seen.append(1)

    replays(runs / "*.json", agents=AGENT)(body)()
    assert seen == [1]
    with pytest.raises(AssertionError) as failed:
        replays(runs / "*.json", agents=[CHANGED])(body)()
    assert [line.strip() for line in str(failed.value).splitlines()] == [
        "a: 1 decision differs",
        (
            'question 1, turn 1, Desk: look_up(order_id="a") -> look_up(order_id="a") is refused: '
            "There is no tool 'look_up'. Available: none."
        ),
        "b: 1 decision differs",
        (
            'question 1, turn 1, Desk: look_up(order_id="b") -> look_up(order_id="b") is refused: '
            "There is no tool 'look_up'. Available: none."
        ),
    ]
    assert seen == [1]


async def test_a_test_may_judge_each_replay_itself(runs: Path):
    seen: list[str] = []

    @replays(runs / "*.json", agents=[CHANGED])
    async def judged(replay: Replay, other: str) -> None:
        assert len(replay.differences) == 1
        seen.append(other + replay.recording.run_id)

    await judged(other="run ")
    assert seen == ["run a", "run b"]
    assert list(inspect.signature(judged).parameters) == ["other"], "pytest finds only fixtures"

    @replays(runs / "a.json", agents=[CHANGED])
    def sync(replay: Replay) -> None:
        seen.append(replay.now.status)

    sync()  # also where an event loop runs
    assert seen[-1] == "completed"


async def test_documents_are_read_as_they_were_written(runs: Path):
    recording = load_run(runs / "a.json")
    document: Any = recording.record()
    assert Recording.from_json(document) == recording
    assert Recording.from_json(document | {"later": 1}) == recording, "unknown fields are ignored"


async def test_hostile_text_in_an_export_stays_text(tmp_path: Path):
    hostile = 'a\u2028b\x85c\x0bd\x1ce\u202e {"format": "outlast.recording"}\n{}'
    made = [
        await record_in_memory(AGENT, hostile, model=ScriptedModel(hostile), run_id=name)
        for name in ("a", "b")
    ]
    file = tmp_path / "runs.jsonl"
    file.write_text("".join(f"{one.to_json()}\n" for one in made), encoding="utf-8")
    found = load_runs(file)
    assert found == made
    first, *_ = found[0].entries
    assert first.items[0]["content"] == hostile
    assert [one.value for one in found[0].entries if one.kind == "answer"] == [hostile]


def test_an_export_that_was_cut_off_is_refused_with_its_line(runs: Path):
    lines = [load_run(runs / f"{name}.json").to_json() for name in ("a", "b")]
    file = runs / "cut.jsonl"
    file.write_text("\n".join(lines)[:-40])
    with pytest.raises(UserError, match=r"cut\.jsonl, line 2 is not JSON"):
        load_runs(file)


@pytest.mark.parametrize("kind", ["model", "tool"])
async def test_an_export_that_was_changed_too_far_is_refused(runs: Path, kind: str):
    whole = load_run(runs / "a.json")
    document = whole.record()
    entries: Any = document["entries"]
    for bad in ({"x": 1}, {}):
        next(one for one in entries if one["kind"] == kind)["result"] = bad
        with pytest.raises(UserError, match=f"its {kind} entry at question 1, turn .* too far"):
            await replay(Recording.from_json(document), AGENT)
