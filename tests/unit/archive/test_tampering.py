"""Somebody who can write where the archive is: what they change there is refused and named."""

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType, WorkflowExecutionStatus
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse

from outlast.archive import Archive, ArchiveDamaged, ArchivedHistory, Tombstone, verify
from outlast.archive import archive as archive_module
from outlast.archive.archive import described, digest_of_run, folder_of, name_of
from outlast.archive.entries import encoded, encoded_entry
from outlast.archive.sweep import last_look
from outlast.edges.clock import now_ms

FIRST, SECOND = "00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000b"


def history_of(run_id: str, execution_id: str = FIRST, before: str = "", after: str = "") -> Any:
    """Return the description and the events of a closed history, as a server has them."""
    described = DescribeWorkflowExecutionResponse()
    info = described.workflow_execution_info
    info.execution.workflow_id, info.execution.run_id = run_id, execution_id
    info.status = WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_COMPLETED
    begun = HistoryEvent(event_id=1, event_type=EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED)
    started = begun.workflow_execution_started_event_attributes
    started.workflow_id, started.continued_execution_run_id = run_id, before
    closed = HistoryEvent(event_id=2, event_type=EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED)
    closed.workflow_execution_completed_event_attributes.new_execution_run_id = after
    if after:
        info.status = WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW
    return described, [begun, closed]


@dataclass
class Kept:
    """An archive of two customers, as the attacker finds it."""

    archive: Archive
    place: Path
    alice: ArchivedHistory
    bob: ArchivedHistory

    def file(self, entry: ArchivedHistory, *, history: bool = False) -> Path:
        folder = self.place / folder_of(entry.namespace, entry.run_id)
        return folder / f"{entry.sha256}.history" if history else self.place / name_of(entry)

    def write(self, entry: ArchivedHistory, at: ArchivedHistory | None = None) -> None:
        """Write an entry with a checksum that fits, in the place of another one."""
        self.file(at or entry).write_bytes(encoded_entry(entry))

    def change(self, **changes: Any) -> None:
        """Change Alice's entry, with a checksum that fits."""
        record = {**asdict(self.alice), **changes}
        self.file(self.alice).write_bytes(encoded(record))

    async def read(self) -> None:
        found = await self.archive.find("default", "alice-1", FIRST)
        assert found is not None
        await self.archive.events(found)
        described(found)


@pytest.fixture
async def kept(tmp_path: Path) -> Kept:
    archive = Archive(tmp_path)
    alice = await archive.add("default", *history_of("alice-1"))
    bob = await archive.add("default", *history_of("bob-1", SECOND))
    return Kept(archive, tmp_path, alice, bob)


def swap_files(kept: Kept) -> None:
    one, other = kept.file(kept.alice), kept.file(kept.bob)
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)


def bobs_as_alices(kept: Kept) -> None:
    """Bob's history becomes Alice's, with everything that an entry says computed again."""
    taken = replace(kept.bob, run_id="alice-1", execution_id=FIRST)
    shutil.copy(kept.file(kept.bob, history=True), kept.file(taken, history=True))
    kept.write(taken)


def an_older_one(kept: Kept) -> None:
    """Alice's entry again, with the history that it names before it left out."""
    kept.write(replace(kept.alice, previous=SECOND))


def a_link(kept: Kept) -> None:
    """Alice's folder leads to Bob's."""
    folder = kept.file(kept.alice).parent
    shutil.rmtree(folder)
    folder.symlink_to(kept.file(kept.bob).parent, target_is_directory=True)


def a_linked_file(kept: Kept) -> None:
    file = kept.file(kept.alice, history=True)
    secret = kept.place.parent / "secret"
    secret.write_bytes(file.read_bytes())
    file.unlink()
    file.symlink_to(secret)


ATTEMPTS: list[tuple[Callable[[Kept], Any], str]] = [
    (swap_files, "is that of another history"),
    (bobs_as_alices, "is not the one of its entry: it is of another run"),
    (an_older_one, "names another history before it"),
    (lambda kept: kept.write(replace(kept.alice, next=SECOND)), "names another history after it"),
    (lambda kept: kept.write(replace(kept.alice, events=3)), "it has 2 events, not 3"),
    (lambda kept: kept.write(replace(kept.alice, description=kept.bob.description)), "another run"),
    (lambda kept: kept.change(size=10**15), "which no history has"),
    (lambda kept: kept.change(size=-1), "which no history has"),
    (lambda kept: kept.change(closed_ms="soon"), "closed_ms is str"),
    (lambda kept: kept.change(sha256=["../secret"]), "sha256 is list"),
    (lambda kept: kept.change(sha256="../../secret"), "names what is no history"),
    (lambda kept: kept.change(run_id="../bob-1"), "is that of another history"),
    (lambda kept: kept.change(execution_id="../bob"), "names what is no history"),
    (a_linked_file, "is a symbolic link"),
]


@pytest.mark.parametrize(("attempt", "words"), ATTEMPTS, ids=map(str, range(len(ATTEMPTS))))
async def test_what_was_changed_is_refused_and_named(
    kept: Kept, attempt: Callable[[Kept], Any], words: str
) -> None:
    attempt(kept)
    with pytest.raises(ArchiveDamaged, match=words):
        await kept.read()
    assert [one for one in await verify(kept.archive) if words in one.problem]


async def test_a_link_leads_nothing_out_of_the_archive(kept: Kept, tmp_path: Path) -> None:
    """Who may only write to the archive has its worker read, write and delete elsewhere."""
    a_link(kept)
    folder, bobs = folder_of("default", "alice-1"), kept.file(kept.bob)
    with pytest.raises(ArchiveDamaged, match="is a symbolic link"):
        await kept.archive.names(folder)
    with pytest.raises(ArchiveDamaged, match="is a symbolic link"):
        await kept.archive.write(f"{folder}x.json", b"")
    for name in (bobs.name, f"{kept.bob.sha256}.history"):
        with pytest.raises(ArchiveDamaged, match="is a symbolic link"):
            await kept.archive.delete([f"{folder}{name}"])
    assert bobs.exists()
    assert [one async for one in kept.archive.entries()] == [kept.bob]
    assert [one.name for one in await verify(kept.archive) if one.problem] == [folder.rstrip("/")]


async def test_names_that_no_archive_gives_are_left_out_and_named(kept: Kept) -> None:
    for name in ("Bad Name.json", "é.json", f"{FIRST}.json\n"):
        (kept.file(kept.alice).parent / name).write_bytes(b"{}")
    assert [one async for one in kept.archive.entries()] == [kept.alice, kept.bob]
    found = [one for one in await verify(kept.archive) if one.problem]
    assert len(found) == 3
    assert {one.problem for one in found} == {"No archive writes a file of this name. Remove it."}


# --- Tombstones -----------------------------------------------------------------------------------


async def test_who_was_deleted_does_not_come_back_with_a_backup(kept: Kept, tmp_path: Path) -> None:
    copy = tmp_path.parent / f"{tmp_path.name}-backup"
    shutil.copytree(tmp_path, copy)
    stone = Tombstone(
        run=digest_of_run("default", "alice-1"),
        by="ann",
        asked_ms=1,
        finished_ms=2,
        removed=({"execution_id": FIRST, "sha256": kept.alice.sha256},),
    )
    await kept.archive.bury(stone)
    await kept.archive.discard(kept.alice)
    shutil.copytree(copy / "runs", tmp_path / "runs", dirs_exist_ok=True)
    assert await kept.archive.find("default", "alice-1", FIRST) is None
    assert await kept.archive.newest("default", "alice-1") is None
    assert await kept.archive.workflow_histories("default", "alice-1") == []
    assert [one async for one in kept.archive.entries()] == [kept.bob]
    assert await kept.archive.histories_of("default", "alice-1", with_deleted=True) == [kept.alice]
    assert [one.problem[:13] for one in await verify(kept.archive) if one.problem] == [
        "Not removed: "
    ]
    # A deletion that was interrupted is still to read what it removes.
    await kept.archive.bury(replace(stone, finished_ms=0))
    assert await kept.archive.newest("default", "alice-1") == kept.alice


FORGED: list[tuple[dict[str, Any], str]] = [
    ({"run": digest_of_run("default", "bob-1")}, "is that of another deletion"),
    ({"run": "../../runs"}, "is that of another deletion"),
    ({"asked_ms": 5}, "is that of another deletion"),
    ({"asked_ms": "1"}, "asked_ms is str"),
    ({"removed": [{"execution_id": "../../x"}]}, "names what is no history"),
    ({"removed": [{"execution_id": FIRST, "sha256": "../x"}]}, "names what is no history"),
    ({"removed": [{}]}, "names what is no history"),
    ({"removed": ["x"]}, "names what is no history"),
    ({"removed": {"execution_id": FIRST}}, "removed is dict"),
]


@pytest.mark.parametrize(("changes", "words"), FORGED)
async def test_a_forged_tombstone_is_refused_and_named(
    kept: Kept, changes: dict[str, Any], words: str
) -> None:
    """With a checksum that fits: it says that a run was deleted, or names files to remove."""
    run = digest_of_run("default", "alice-1")
    stone = Tombstone(run=run, by="ann", asked_ms=1).record()
    await kept.archive.write(f"deleted/{run}/1.json", encoded({**stone, **changes}))
    with pytest.raises(ArchiveDamaged, match=words):
        await kept.archive.tombstones_of("default", "alice-1")
    with pytest.raises(ArchiveDamaged, match=words):  # nobody reads what may have been deleted
        await kept.read()
    assert [one for one in await verify(kept.archive) if words in one.problem]


# --- What workers note ----------------------------------------------------------------------------


async def test_a_look_that_is_yet_to_come_keeps_no_worker_from_looking(kept: Kept) -> None:
    """Whoever notes that all is archived until next year has the server delete it first."""
    name = f"sweeps/{digest_of_run('default', 'support')}.json"
    later = now_ms() + 365 * 24 * 3_600_000
    mark = {"swept_ms": 1, "complete_ms": later, "whole_ms": later}
    await kept.archive.write(name, json.dumps(mark).encode())
    found = await last_look(kept.archive, "default", "support")
    assert found is not None
    assert (found.at.year, found.complete) == (1970, None)
    await kept.archive.write(name, b'{"swept_ms": 1e999}')
    assert await last_look(kept.archive, "default", "support") is None


async def test_a_bomb_is_not_unpacked(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_module, "LARGEST_HISTORY", kept.alice.size - 1)
    with pytest.raises(ArchiveDamaged, match="which no history has"):
        await kept.read()
