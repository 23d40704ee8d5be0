"""What `outlast doctor` says about the archive, and what to do about it."""

import errno
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.service import RPCError, RPCStatusCode

import outlast.archive
import outlast.archive.sweep
from outlast.archive import (
    Archive,
    ArchiveDamaged,
    ArchiveStatus,
    FileArchiveStore,
    NotArchived,
)
from outlast.archive.status import Gap
from outlast.archive.sweep import mark_name
from outlast.cli import archive_checks
from outlast.cli.archive_checks import check_archive, check_archiver
from outlast.cli.findings import Finding
from outlast.dev import EmbeddedServer
from tests.unit.cli.conftest import Invoke

NOW = datetime.now(UTC)  # noqa: TID251  compared with the clock of the check
CLIENT: Any = SimpleNamespace(namespace="default")
RETENTION = timedelta(days=3)


def status(**fields: Any) -> ArchiveStatus:
    """Return the status of an archive in which all is well, but for these fields."""
    well: dict[str, Any] = {
        "runs": 2,
        "histories": 5,
        "stored": 10,
        "size": 20,
        "retention": RETENTION,
        "missing": (),
        "gaps": (),
        "deletions": 0,
        "interrupted": 0,
        "at": NOW,
    }
    return ArchiveStatus(**{**well, **fields})


def closed_ago(run_id: str, length: timedelta) -> NotArchived:
    closed_ms = int((NOW - length).timestamp() * 1000)
    return NotArchived(run_id=run_id, execution_id="x", task_queue="support", closed_ms=closed_ms)


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Check an archive on a server that has what `found` says."""

    async def check(archive: Archive | None, found: Any = None) -> dict[str, Finding]:
        async def compare(*_: Any) -> ArchiveStatus:
            if isinstance(found, Exception):
                raise found
            return found or status()

        async def retention_of(_: Any) -> timedelta:
            if isinstance(found, RPCError):
                raise found
            return RETENTION

        def archive_of(_: Any) -> Archive | None:
            return archive

        monkeypatch.setattr(outlast.archive, "archive_of", archive_of)
        monkeypatch.setattr(outlast.archive, "archive_status", compare)
        monkeypatch.setattr(outlast.archive.sweep, "retention_of", retention_of)
        return {one.what: one for one in await check_archive(CLIENT, "support")}

    return check


async def mark(archive: Archive, queue: str = "support", /, **ages: timedelta) -> None:
    """Note that a look was so long ago."""
    times = {name: int((NOW - age).timestamp() * 1000) for name, age in ages.items()}
    await archive.write(mark_name(CLIENT.namespace, queue), json.dumps(times).encode())


def files_in(directory: Path) -> list[Path]:
    return sorted(directory.rglob("*"))


async def test_without_an_archive_the_retention_is_told(checked: Any) -> None:
    found = await checked(None)
    assert found["archive"].level == "optional"
    assert "deletes closed histories after 3 d" in found["archive"].detail
    assert "OUTLAST_ARCHIVE" in found["archive"].detail


async def test_an_archive_that_works_is_fine_and_left_as_it_was(
    checked: Any, tmp_path: Path
) -> None:
    archive = Archive(tmp_path)
    await mark(archive, swept_ms=timedelta(seconds=20), complete_ms=timedelta(hours=1))
    before = files_in(tmp_path)
    found = await checked(archive)
    assert [one.level for one in found.values()] == ["ok", "ok", "ok"]
    assert "can be read and written" in found["archive"].detail
    assert "a worker of the task queue 'support' looked" in found["archive sweep"].detail
    assert found["archived in time"].detail == (
        "5 histories of 2 runs, and all that the server will delete"
    )
    assert files_in(tmp_path) == before


async def test_an_archive_that_cannot_be_read_is_named(checked: Any, tmp_path: Path) -> None:
    (tmp_path / "sweeps").write_text("a file, not a folder")
    found = await checked(Archive(tmp_path))
    assert list(found) == ["archive"]
    assert found["archive"].level == "missing"
    assert "cannot be read: NotADirectoryError" in found["archive"].detail
    assert "Correct OUTLAST_ARCHIVE" in found["archive"].detail


class Full(FileArchiveStore):
    """A directory on a disk that is full."""

    async def write(self, name: str, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


async def test_an_archive_that_cannot_be_written_is_told_to_workers(
    checked: Any, tmp_path: Path
) -> None:
    found = await checked(Archive(Full(tmp_path)))
    assert found["archive"].level == "optional"
    assert "cannot be written: OSError" in found["archive"].detail
    assert "No space left on device" in found["archive"].detail
    assert "make room" in found["archive"].detail


@pytest.mark.parametrize(
    ("ages", "level", "words"),
    [
        ({}, "optional", "no worker of the task queue 'support' has looked"),
        ({"swept_ms": timedelta(hours=3)}, "missing", "last looked 3 h ago. Start one"),
        (
            {"swept_ms": timedelta(seconds=9), "complete_ms": timedelta(hours=6)},
            "missing",
            "could not archive all of it for 5 h: its log says why",
        ),
        ({"swept_ms": timedelta(seconds=9)}, "missing", "could not archive all of it ever"),
    ],
)
async def test_a_sweep_that_is_behind_says_how_far(
    checked: Any, tmp_path: Path, ages: dict[str, timedelta], level: str, words: str
) -> None:
    archive = Archive(tmp_path)
    if ages:
        await mark(archive, **ages)
    found = (await checked(archive))["archive sweep"]
    assert (found.level, words in found.detail) == (level, True), found.detail


async def test_an_archiver_of_all_queues_looks_for_each(checked: Any, tmp_path: Path) -> None:
    archive, recent = Archive(tmp_path), timedelta(seconds=9)
    await mark(archive, swept_ms=timedelta(hours=3), complete_ms=timedelta(hours=4))
    await mark(archive, "", swept_ms=recent, complete_ms=recent + timedelta(hours=1))
    assert (await checked(archive))["archive sweep"].level == "ok"


@pytest.mark.parametrize(
    ("ages", "level", "words"),
    [
        (None, "missing", "there is no archive here: set OUTLAST_ARCHIVE"),
        ({}, "missing", "none has looked for closed histories yet. Start `outlast archive run`"),
        ({"swept_ms": timedelta(hours=3)}, "missing", "it last looked 3 h ago"),
        ({"swept_ms": timedelta(seconds=9)}, "missing", "9 s ago, but could not archive all"),
        (
            {"swept_ms": timedelta(seconds=9), "complete_ms": timedelta(hours=1)},
            "ok",
            "it looked 9 s ago",
        ),
    ],
)
async def test_the_health_of_an_archiver(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    ages: dict[str, timedelta] | None,
    level: str,
    words: str,
) -> None:
    archive = None if ages is None else Archive(tmp_path)

    def archive_of(_: Any) -> Archive | None:
        return archive

    if archive is not None and ages:
        await mark(archive, "", **ages)
    monkeypatch.setattr(outlast.archive, "archive_of", archive_of)
    monkeypatch.setattr(archive_checks, "now", lambda: NOW)
    found = await check_archiver(CLIENT)
    assert (found.level, words in found.detail) == (level, True), found.detail


async def test_histories_that_expire_first_are_named_with_their_queue(
    checked: Any, tmp_path: Path
) -> None:
    soon, later = (
        closed_ago("support-42", timedelta(hours=66.5)),
        closed_ago("b", timedelta(days=2)),
    )
    fresh = closed_ago("c", timedelta(minutes=1))
    found = await checked(Archive(tmp_path), status(missing=(soon, later, fresh)))
    told = found["archived in time"]
    assert told.level == "missing"
    assert told.detail.startswith("2 histories expire before anybody has archived it, the first in")
    assert "in 5 h: 'support-42' of the task queue 'support'. Start a worker" in told.detail
    [over] = [closed_ago("gone", timedelta(days=4))]
    told = (await checked(Archive(tmp_path), status(missing=(over,))))["archived in time"]
    assert "1 history expires before anybody has archived it, the first now: 'gone'" in told.detail


async def test_histories_that_wait_for_the_next_look_are_no_problem(
    checked: Any, tmp_path: Path
) -> None:
    fresh = closed_ago("c", timedelta(hours=2))
    told = (await checked(Archive(tmp_path), status(missing=(fresh,))))["archived in time"]
    assert told.level == "ok"
    assert "1 more wait for the next look, and the server keeps the oldest of them for 2 d" in (
        told.detail
    )


async def test_what_is_lost_or_interrupted_or_damaged_is_told(checked: Any, tmp_path: Path) -> None:
    gaps = (Gap(run_id="a", execution_id="1"), Gap(run_id="b", execution_id="2"))
    found = await checked(Archive(tmp_path), status(gaps=gaps, interrupted=1))
    assert "has 2 histories of 'a' and other runs" in found["lost histories"].detail
    assert "--retention 30d -n default" in found["lost histories"].detail
    assert "1 deletion interrupted" in found["deletions on request"].detail
    assert {one.level for name, one in found.items() if "archive" not in name} == {"missing"}
    found = await checked(Archive(tmp_path), ArchiveDamaged("The entry x was changed."))
    assert found["archived in time"].detail.startswith("The entry x was changed. `outlast archive")
    refused = RPCError("no permission", RPCStatusCode.PERMISSION_DENIED, b"")
    assert "no permission" in (await checked(Archive(tmp_path), refused))["archive"].detail


async def test_doctor_checks_the_archive_of_the_environment(
    cli: Invoke, server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = await cli("doctor", "--json")
    [found] = [one for one in json.loads(done.stdout) if one["what"] == "archive"]
    assert found["detail"].startswith("none: the server deletes closed histories after")
    monkeypatch.setenv("OUTLAST_ARCHIVE", str(tmp_path / "archive"))
    done = await cli("doctor", "--json")
    levels = {one["what"]: one["level"] for one in json.loads(done.stdout)}
    assert levels["archive"] == "ok"
    assert levels["archive sweep"] == "optional"
    monkeypatch.setenv("OUTLAST_ARCHIVE", "gopher://nowhere")
    done = await cli("doctor", "--json")
    [found] = [one for one in json.loads(done.stdout) if one["what"] == "archive"]
    assert (found["level"], done.exit_code) == ("missing", 1)
    assert "gopher://nowhere" in found["detail"]
