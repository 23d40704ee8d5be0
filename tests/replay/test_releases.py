"""What else a release leaves behind: archives, exports, proofs, sessions, and the names it promises."""

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from outlast import UserError
from outlast.archive import Archive, ArchiveDamaged, verify
from outlast.client.recordings import json_schema
from outlast.testing import load_runs, replay
from outlast.workflows.agent_run import AgentRun
from tests.replay import kept_sessions, proofs, public_names, record, releases, surface
from tests.replay.releases import read, replayer
from tests.replay.test_recorded_histories import assert_same, folded

RELEASES = releases.releases()
RELEASED = [one for one in RELEASES if one.name != releases.UNRELEASED]
WHOLE = [one for one in RELEASES if (one / "archive.json.gz").exists()]
"""The folders of releases; before the first release, that of the unreleased version."""

every_release = pytest.mark.parametrize("folder", WHOLE, ids=lambda one: one.name)


@pytest.mark.parametrize("folder", RELEASES, ids=lambda one: one.name)
def test_a_recording_is_as_it_was_recorded_and_small(folder: Path) -> None:
    assert (folder / releases.SUMS).read_text(encoding="utf-8") == releases.sums_of(folder)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert size < releases.LARGEST_BYTES


def test_there_is_a_whole_release() -> None:
    assert WHOLE


def test_only_this_version_is_recorded_and_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "not 0.0.1" in str(record.why_not("0.0.1"))
    assert record.why_not(releases.UNRELEASED) is None
    monkeypatch.setattr(record.outlast, "__version__", WHOLE[0].name + "x")
    assert record.why_not(WHOLE[0].name + "x") is None
    monkeypatch.setattr(record.outlast, "__version__", "1.2.3")
    monkeypatch.setattr(releases, "FOLDER", WHOLE[0].parent / "nowhere")
    assert record.why_not("1.2.3") is None
    monkeypatch.setattr(releases, "FOLDER", Path("/"))
    monkeypatch.setattr(record.outlast, "__version__", "etc")
    assert "etc is recorded" in str(record.why_not("etc"))


# --- Archives ---------------------------------------------------------------------------------------


@every_release
async def test_an_archive_is_read_replayed_and_folded_to_the_states_it_had(folder: Path) -> None:
    archive = Archive(folder / "archive")
    assert [one.problem for one in await verify(archive) if one.problem] == []
    states = read(folder / "archive.json.gz")
    assert states
    for run_id, state in states.items():
        entries = await archive.histories_of("default", run_id)
        histories = await archive.workflow_histories("default", run_id)
        assert len(entries) == len(histories) > 0
        for one in histories:
            await replayer(AgentRun).replay_workflow(one)
        *_, (_, last) = await folded(list(histories[-1].events), run_id)
        assert_same(last, state)


@every_release
async def test_a_damaged_archive_is_refused(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "archive", tmp_path / "archive")
    run_id = next(iter(read(folder / "archive.json.gz")))
    archive = Archive(tmp_path / "archive")
    [entry, *_] = await archive.histories_of("default", run_id)
    [damaged] = (tmp_path / "archive").rglob(f"{entry.sha256}.history")
    damaged.write_bytes(gzip.compress(gzip.decompress(damaged.read_bytes()) + b"x"))
    with pytest.raises(ArchiveDamaged):
        await archive.workflow_histories("default", run_id)
    assert [one.execution_id for one in await verify(archive) if one.problem] == [
        entry.execution_id
    ]


# --- Exports ----------------------------------------------------------------------------------------


def exported(folder: Path, tmp_path: Path) -> Path:
    path = tmp_path / "exports.jsonl"
    path.write_bytes(gzip.decompress((folder / "exports.jsonl.gz").read_bytes()))
    return path


@every_release
def test_every_exported_run_is_imported_as_it_was_written(folder: Path, tmp_path: Path) -> None:
    path = exported(folder, tmp_path)
    validator: Any = jsonschema.Draft202012Validator(json_schema())
    lines = path.read_text(encoding="utf-8").splitlines()
    runs = load_runs(path)
    assert len(lines) == len(runs) > 50
    for line, run in zip(lines, runs, strict=True):
        document = json.loads(line)
        validator.validate(document)
        assert json.loads(run.to_json()) == document


@every_release
async def test_exported_runs_are_replayed_by_todays_agents(folder: Path, tmp_path: Path) -> None:
    runs = {one.run_id: one for one in load_runs(exported(folder, tmp_path))}
    for name in ("answer", "parallel_tools", "approved", "handoffs_and_tools", "conversation"):
        scenario = record.SCENARIOS[name]
        replayed = await replay(runs[name], [scenario.agent])
        assert replayed.differences == (), name


@every_release
def test_an_export_of_a_later_version_is_refused(folder: Path, tmp_path: Path) -> None:
    path = exported(folder, tmp_path)
    document = json.loads(path.read_text(encoding="utf-8").splitlines()[0])
    path.write_text(json.dumps({**document, "version": 99}), encoding="utf-8")
    with pytest.raises(UserError, match="version"):
        load_runs(path)


# --- Proofs and sessions ----------------------------------------------------------------------------


@every_release
async def test_what_people_signed_and_kept_still_counts(folder: Path) -> None:
    assert await proofs.problems(read(folder / "proofs.json.gz")) == []
    text = gzip.decompress((folder / "audit.jsonl.gz").read_bytes()).decode()
    assert proofs.audit_problems(text) == []


@every_release
async def test_what_somebody_changed_does_not_count(folder: Path) -> None:
    kept: dict[str, Any] = read(folder / "proofs.json.gz")
    kept["actions"]["ed25519"]["say"]["text"] = "I am Bob."
    kept["deliveries"]["shared"]["value"] = 1
    kept["digest"] = kept["digest"][::-1]
    found = await proofs.problems(kept)
    assert [one.partition(":")[0] for one in found] == [
        "say signed with ed25519",
        "delivery signed with shared",
        "digest",
    ]
    text = gzip.decompress((folder / "audit.jsonl.gz").read_bytes()).decode()
    assert proofs.audit_problems(text.replace("ann", "bob"))


@every_release
async def test_session_databases_are_read_and_written(folder: Path, tmp_path: Path) -> None:
    branch = [*kept_sessions.ITEMS, *kept_sessions.MORE]
    assert await kept_sessions.contents(folder / "sessions", tmp_path) == {
        "plain": kept_sessions.ITEMS,
        "other": kept_sessions.ITEMS,
        "sealed": kept_sessions.ITEMS,
        "main": branch,
        "second": branch,
        "alchemy": kept_sessions.ITEMS,
    }


# --- Names ------------------------------------------------------------------------------------------

REMOVED: dict[str, str] = {}
"""What may be gone, in the words of the comparison, with the release that deprecated it."""

MODULES = ["outlast.client", "outlast.testing", "outlast.worker"]


@pytest.mark.parametrize("folder", RELEASED, ids=lambda one: one.name)
def test_programs_of_a_release_find_every_public_name(folder: Path) -> None:
    before = (folder / "names.pyi").read_text(encoding="utf-8")
    names = json.loads((folder / "surface.json").read_text(encoding="utf-8"))
    found = public_names.broken(before, public_names.written())
    found += surface.missing(names, surface.names_of_this_version())
    assert set(found) - REMOVED.keys() == set()


def test_what_breaks_a_program_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(public_names, "modules", lambda: MODULES)
    before = public_names.written()
    assert public_names.broken(before, before) == []
    changes = {
        "class AgentWorker:": "class Workers:",
        "def say(text)": "def say(words)",
        "def approve(self, request, *, by=None": "def approve(self, request, *, why, by=None",
        "repeat=False": "repeat=True",
    }
    for old, new in changes.items():
        assert old in before, old
        assert public_names.broken(before, before.replace(old, new)), old
    literal = f"{public_names.SECTION}outlast.client\nWord = ['a', 'b']\n"
    assert public_names.broken(literal, literal.replace("'b'", "'b', 'c'")) == []
    assert public_names.broken(literal, literal.replace("'b'", "'c'"))
    further = before + "class Later:\n    def run(self): ...\n"
    assert public_names.broken(before, further) == []


def test_a_name_that_is_gone_from_scripts_and_dashboards_is_found() -> None:
    before = surface.names_of_this_version()
    assert all(before.values())
    after = {**before, "commands": [one for one in before["commands"] if one != "outlast show"]}
    assert surface.missing(before, after) == ["commands: outlast show is gone"]
    assert surface.missing(after, before) == []
