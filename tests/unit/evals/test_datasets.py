"""Data sets: cases from recordings, their files, and files of strangers."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from outlast import Agent
from outlast.agents.errors import UserError
from outlast.client.recordings import Entry, Recording
from outlast.evals import CaseInput, RunDataset, dataset_of, load_dataset, save_dataset
from outlast.testing import load_runs
from tests.unit.evals.refunds import recorded, still_open


@pytest.fixture
async def recording() -> Recording:
    return await recorded()


def test_a_case_has_what_was_said_and_what_is_expected(recording: Recording):
    (case,) = dataset_of([recording]).cases
    assert (case.name, case.inputs.agent, case.inputs.messages) == ("r1", "Triage", ["Refund A-1"])
    assert case.expected_output is not None
    assert [one.tool for one in case.expected_output.tool_calls] == ["look_up", "refund"]
    assert [one.output for one in case.expected_output.tool_calls] == [None, None]


def test_a_data_set_is_read_as_it_was_written(recording: Recording, tmp_path: Path):
    for name in ("refunds.yaml", "refunds.json"):
        written = dataset_of([recording], name="refunds")
        save_dataset(written, tmp_path / name)
        read = load_dataset(tmp_path / name)
        assert [one.inputs for one in read.cases] == [one.inputs for one in written.cases]
        assert read.cases[0].expected_output == written.cases[0].expected_output
        assert read.cases[0].inputs.recording == written.cases[0].inputs.recording
        assert [type(one).__name__ for one in read.evaluators] == [
            "ToolsCalled",
            "AgentPath",
            "NoEffectWithoutApproval",
        ]
    assert len(load_runs(tmp_path / "refunds.jsonl")) == 1, "it had the recording"


def test_nothing_is_removed_from_a_file_of_recordings(recording: Recording, tmp_path: Path):
    other = recording.to_json().replace('"r1"', '"other"')
    (tmp_path / "refunds.jsonl").write_text(f"{other}\n")
    save_dataset(dataset_of([recording]), tmp_path / "refunds.yaml")
    assert [one.run_id for one in load_runs(tmp_path / "refunds.jsonl")] == ["other", "r1"]


def test_a_changed_text_is_what_the_user_says(recording: Recording, tmp_path: Path):
    file = tmp_path / "refunds.yaml"
    save_dataset(dataset_of([recording]), file)
    text = file.read_text()
    assert "    - Refund A-1\n" in text
    file.write_text(text.replace("    - Refund A-1\n", "    - Refund A-2, please\n"))
    (case,) = load_dataset(file).cases
    assert case.inputs.recording.entries[0].items == (
        {"role": "user", "content": "Refund A-2, please"},
    )
    file.write_text(text.replace("    - Refund A-1\n", "    - One\n    - Two\n"))
    (case,) = load_dataset(file).cases
    with pytest.raises(UserError, match="has 2 messages, and the run 'r1' has 1"):
        _ = case.inputs.recording


async def test_several_items_and_a_context_are_kept():
    said = [
        {"role": "user", "content": [{"type": "input_text", "text": "Refund"}]},
        {"role": "user", "content": "A-1"},
    ]
    recording = await recorded(said=said, context={"customer": 7})
    (case,) = dataset_of([recording]).cases
    assert case.inputs.messages == [said]
    assert case.inputs.context is None
    assert case.inputs.recording.start.context == {"customer": 7}
    other = case.inputs.model_copy(update={"context": {"customer": 8}})
    other.bind(recording)
    assert other.recording.start.context == {"customer": 8}


async def test_an_open_run_is_a_case_until_its_last_answer():
    recording = still_open(await recorded())
    late = Entry(kind="message", at_ms=recording.entries[-1].at_ms + 1, question=1, id="m2")
    (case,) = dataset_of([recording.with_entries([*recording.entries, late])]).cases
    assert case.inputs.messages == ["Refund A-1"]
    assert case.inputs.recording.complete
    assert case.inputs.recording.entries[-1].kind == "answer"


@pytest.mark.parametrize(
    ("kinds", "why"),
    [
        (["message", "model"], "has no answer yet"),
        (["model", "answer"], "beginning is no longer retained"),
        (["message", "line", "answer"], "is a realtime line"),
        ([], "beginning is no longer retained"),
    ],
)
def test_a_run_that_has_no_case(kinds: Any, why: str, recording: Recording):
    entries = [Entry(kind=one, at_ms=1) for one in kinds]
    with pytest.raises(UserError, match=why):
        dataset_of([recording.with_entries(entries)])


def test_of_several_recordings_of_a_run_the_last_counts(recording: Recording):
    later = recording.with_entries(
        [
            Entry(kind="message", at_ms=1, items=({"role": "user", "content": "Later"},)),
            Entry(kind="answer", at_ms=2, value="Yes."),
        ]
    )
    (case,) = dataset_of([recording, later]).cases
    assert case.inputs.messages == ["Later"]


def test_a_case_without_a_run_names_its_agent():
    case = CaseInput(agent="Desk", messages=["Hello", "And?"])
    assert [one.question for one in case.recording.entries] == [0, 1]
    with pytest.raises(UserError, match="has to name its agent"):
        _ = CaseInput(messages=["Hello"]).recording


def test_a_case_that_was_read_without_its_recording_says_how_to_read_it():
    with pytest.raises(UserError, match=r"outlast\.evals\.load_dataset"):
        _ = CaseInput(messages=["Hello"], run="r1").recording


# --- Files of others ------------------------------------------------------------------------------

LAUGHS = "a0: &a0 [lol, lol]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 30)
)
CASE = "cases:\n- name: a\n  inputs: {agent: Desk, messages: [Hi]}\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"{CASE}evaluators: [Python: 'import os']", "'Python' is not in the provided"),
        (f"{CASE}evaluators: [ToolsCalled: {{cmd: 1}}]", "unexpected keyword argument 'cmd'"),
        ("!!python/object/apply:os.system ['touch owned']", "could not determine a constructor"),
        (f"cases:\n- inputs: {'[' * 1200}", "cannot be read|is no data set"),
        ("cases: [{inputs: {agent: A, messages: []}}]", "at least 1 item"),
        ("cases: [{inputs: {agent: A, messages: [Hi], secret: 1}}]", "Extra inputs"),
        ("cases: [{inputs: {messages: [Hi], run: ../../etc/passwd}}]", "cannot be read"),
        ("just text", "is no data set"),
        ("", "is no data set"),
        ("\x00", "cannot be read"),
        (LAUGHS, r"cannot be read: line 2 has an alias \(\*\)\. Write what it stands for\."),
        ("a: &a [*a]", "line 1 has an alias"),
        (f"{CASE}{CASE.removeprefix('cases:')}", "Duplicate case name"),
    ],
)
def test_a_file_of_a_stranger(text: str, why: str, tmp_path: Path):
    file = tmp_path / "refunds.yaml"
    file.write_text(text)
    with pytest.raises(UserError, match=why):
        load_dataset(file)
    assert not Path("owned").exists()


def test_a_missing_file_a_missing_recording_and_another_ending(
    recording: Recording, tmp_path: Path
):
    with pytest.raises(UserError, match="No such file"):
        load_dataset(tmp_path / "gone.yaml")
    with pytest.raises(UserError, match=r"ends in \.yaml or \.json"):
        save_dataset(dataset_of([recording]), tmp_path / "refunds.txt")
    save_dataset(dataset_of([recording]), tmp_path / "refunds.yaml")
    beside = tmp_path / "refunds.jsonl"
    beside.write_text(beside.read_text().replace('"run_id": "r1"', '"run_id": "r2"'))
    with pytest.raises(UserError, match="outlast export r1 >>"):
        load_dataset(tmp_path / "refunds.yaml")
    beside.write_text("a spreadsheet\n")
    with pytest.raises(UserError, match="is not JSON"):
        save_dataset(dataset_of([recording]), tmp_path / "refunds.yaml")


def test_the_file_is_one_of_pydantic_evals(recording: Recording, tmp_path: Path):
    """Others read it with the library, which only lacks the recordings."""
    save_dataset(dataset_of([recording]), tmp_path / "refunds.yaml")
    loaded = yaml.safe_load((tmp_path / "refunds.yaml").read_text())
    loaded["evaluators"] = []
    assert RunDataset.from_dict(loaded, default_name="x").cases[0].name == "r1"


async def test_texts_that_yaml_would_read_otherwise_are_kept(tmp_path: Path):
    said = "no\n- a: !!python/name:os.system\n\u2028\u202e 'x' \x85 # \ttab 0777"
    recording = await recorded("yes", agent=Agent[Any](name="Desk"), said=said)
    save_dataset(dataset_of([recording]), tmp_path / "odd.yaml")
    (case,) = load_dataset(tmp_path / "odd.yaml").cases
    assert case.inputs.messages == [said]
    assert case.expected_output is not None
    assert case.expected_output.answer == "yes"
