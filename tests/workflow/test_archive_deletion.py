"""Runs are deleted on request, what they leave proves it, and nothing brings them back."""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import create_async_engine
from temporalio.client import Client
from temporalio.service import RPCError

from outlast.agents.agent import Agent
from outlast.agents.errors import RunNotFound, UserError
from outlast.archive import Archive, Sweep, Tombstone, archive_status, use_archive, verify
from outlast.archive.archive import digest_of_run, folder_of
from outlast.archive.expiry import expire
from outlast.blobs import FileBlobStore, use_blob_store
from outlast.client.deletion import Deletion
from outlast.client.handle import RunHandle
from outlast.client.start.runner import Runner
from outlast.sessions import described
from outlast.sessions.sqlite import SQLiteSession
from outlast.testing import ScriptedModel, call, say
from tests.servers import server_for_tests
from tests.unit.sessions.postgres import programs, serve
from tests.workflow.desk import Desk
from tests.workflow.test_archive import (
    DESK,
    SOON,
    archived,
    closed_run,
    echo,
    files_in,
    past,
    until,
)


@pytest.fixture(scope="module")
async def client() -> AsyncIterator[Client]:
    """A client of a server of this file's own: a deletion reads every run of its server."""
    async with server_for_tests(shared=False) as server:
        yield await server.connect()


def content_of(directory: Path) -> bytes:
    return b"".join(one.read_bytes() for one in files_in(directory))


async def looked(desk: Desk, archive: Archive) -> None:
    """Look for closed histories as a worker does that has just started."""
    swept = await Sweep(desk.client, archive, desk.queue).archive_since(None)
    assert swept.failed == ()


async def test_what_is_deleted_is_gone_for_good_and_leaves_a_proof(desk: Desk, tmp_path: Path):
    archive = Archive(tmp_path, every=SOON)
    await desk.open(DESK, model=ScriptedModel(always=echo), archive=archive)
    handle, other = await closed_run(desk, id="ann@example.com"), await closed_run(desk)
    [entry] = await archived(archive, handle, 1)
    await archived(archive, other, 1)
    backup = {one: one.read_bytes() for one in files_in(tmp_path)}
    deletion = Deletion(desk.client, archive, by="dpo@example.com", why="request 17")
    stays = await deletion.delete_run(handle.id)
    assert stays.by == "dpo@example.com"
    assert stays.why == "request 17"
    assert stays.finished_ms >= stays.asked_ms > 0
    assert stays.removed == (
        {
            "execution_id": entry.execution_id,
            "sha256": entry.sha256,
            "size": entry.size,
            "events": entry.events,
            "closed_ms": entry.closed_ms,
        },
    )
    assert await archive.names(folder_of(desk.client.namespace, handle.id)) == []
    assert handle.id.encode() not in content_of(tmp_path)
    with pytest.raises(RPCError, match="not found"):
        await desk.client.get_workflow_handle(handle.id).describe()
    with pytest.raises(RunNotFound, match="was deleted on request at 20"):
        await past(handle)
    await looked(desk, archive)
    assert await archive.histories_of(desk.client.namespace, handle.id) == []
    assert [one.problem for one in await verify(archive)] == [""]
    assert len(await past(other)) > 1
    with pytest.raises(RunNotFound, match="has a run 'nobody'"):
        await deletion.delete_run("nobody")

    # A backup brings the files back: nobody reads them, and the same request removes them.
    for file, content in backup.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    with pytest.raises(RunNotFound, match="was deleted on request at 20"):
        await past(handle)
    assert any("Not removed" in one.problem for one in await verify(archive))
    await deletion.delete_run(handle.id)
    assert handle.id.encode() not in content_of(tmp_path)
    assert [one.problem for one in await verify(archive)] == [""]

    # The id may be used again: what is new is archived.
    again = await closed_run(desk, "a new life", id=handle.id)
    assert (await archived(archive, again, 1))[0].execution_id != entry.execution_id


async def test_an_open_run_is_not_deleted(desk: Desk, tmp_path: Path):
    await desk.open(DESK, model=ScriptedModel(always=echo))
    handle = await desk.start(DESK, "Hello", keep_open=True)
    await desk.until_status(handle, "idle")
    with pytest.raises(UserError, match=f"is open, and would go on. .*outlast cancel {handle.id}"):
        await Deletion(desk.client, Archive(tmp_path), by="ann").delete_run(handle.id)


async def test_the_runs_of_a_person_are_deleted_and_no_others(desk: Desk, tmp_path: Path):
    archive = Archive(tmp_path, every=SOON)
    place = f"{desk.queue}.example"
    helper = Agent[Any](name="Helper")
    boss = Agent[Any](name="Boss", tools=[helper.as_tool("help", "Helps.")])
    replies = [[call("help", "h1", input="a hand")], say("I helped."), say("Done.")]
    await desk.open(boss, model=ScriptedModel(*replies, always=echo), archive=archive)
    shared = desk.new_id()
    hers = await desk.start(boss, "Do it", customer=f"Ann@{place}")
    await desk.result(hers)
    once = await closed_run_of(desk, boss, shared, f"ann@{place}")
    [first] = await archived(archive, once, 1)
    await closed_run_of(desk, boss, shared, f"bob@{place}")
    theirs = await closed_run_of(desk, boss, desk.new_id(), f"anna@{place}")
    await archived(archive, once, 2)
    await archived(archive, theirs, 1)
    deletion = Deletion(desk.client, archive, by="dpo")
    made = await deletion.delete_person(f"ANN@{place}")
    assert len(made) == 2
    assert {one.person for one in made} == {digest_of_run("", f"ann@{place}")}
    [stays] = await archive.histories_of(desk.client.namespace, shared)
    assert stays.execution_id != first.execution_id
    assert (await past(await Runner.attach(shared, client=desk.client)))[
        -1
    ].state.start.customer.id == f"bob@{place}"
    assert (await past(theirs))[-1].state.start.customer.id == f"anna@{place}"
    entries = [one async for one in archive.entries()]
    assert {one.run_id for one in entries} == {shared, theirs.id}, "nested runs are gone, too"
    assert [one.problem for one in await verify(archive)] == ["", ""]
    assert await deletion.delete_person(f"ann@{place}") == []
    desk.ids.remove(hers.id)


async def closed_run_of(desk: Desk, agent: Agent[Any], run_id: str, person: str) -> RunHandle:
    handle = await desk.start(agent, "Hello", id=run_id, customer=person)
    await desk.result(handle)
    return handle


@pytest.mark.parametrize("step", ["tombstone", "server", "files"])
async def test_a_deletion_that_was_killed_is_finished(desk: Desk, tmp_path: Path, step: str):
    archive = Archive(tmp_path, every=SOON)
    await desk.open(DESK, model=ScriptedModel(always=echo), archive=archive)
    handle = await closed_run(desk)
    await archived(archive, handle, 1)

    class Killed(Exception):
        """Ends the process at a step."""

    class Dying(Deletion):
        async def _remove_content(self, keys: Any) -> None:
            if step == "tombstone":
                raise Killed
            await super()._remove_content(keys)

        async def _remove_files(self, run_id: str, tombstone: Tombstone) -> None:
            if step == "server":
                raise Killed
            await super()._remove_files(run_id, tombstone)
            raise Killed

    with pytest.raises(Killed):
        await Dying(desk.client, archive, by="dpo").delete_run(handle.id)
    wrong = [one.problem for one in await verify(archive) if one.problem]
    assert wrong == ["The deletion was interrupted. Ask for it again, to finish it."]
    assert (await archive_status(desk.client, archive, desk.queue)).interrupted == 1
    await looked(desk, archive)
    stays = await Deletion(desk.client, archive, by="somebody else").delete_run(handle.id)
    assert stays.by == "dpo"
    assert len(stays.removed) == 1
    assert "sha256" in stays.removed[0]
    assert [one.problem for one in await verify(archive)] == []
    desk.ids.remove(handle.id)


async def test_content_that_only_this_run_uses_is_deleted(desk: Desk, tmp_path: Path):
    store, archive = FileBlobStore(tmp_path / "blobs"), Archive(tmp_path / "archive", every=SOON)
    use_blob_store(desk.client, store)
    await desk.open(
        DESK, model=ScriptedModel(always=say("Seen.")), archive=archive, blob_store=store
    )
    own, common = "o" * 100_000, "c" * 100_000
    handle = await closed_run(desk, [message(own), message(common)])
    other = await closed_run(desk, [message(common)])
    await archived(archive, handle, 1)
    assert len(files_in(tmp_path / "blobs")) == 2
    kept = await Deletion(desk.client, archive, by="dpo", content=True).delete_run(handle.id)
    [words] = kept.left
    assert words.startswith("large content that other runs use: sha256:")
    [blob] = files_in(tmp_path / "blobs")
    assert common.encode() in blob.read_bytes()
    last = await Deletion(desk.client, archive, by="dpo").delete_run(other.id)
    assert last.left[0].startswith("large content in the blob store: sha256:")
    desk.ids.clear()


def message(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "input_text", "text": text}]}


async def test_a_tombstone_that_was_changed_is_noticed(desk: Desk, tmp_path: Path):
    archive = Archive(tmp_path)
    digest = digest_of_run(desk.client.namespace, "r")
    await archive.bury(Tombstone(run=digest, by="ann", asked_ms=1, finished_ms=2))
    [file] = files_in(tmp_path)
    file.write_text(file.read_text().replace('"ann"', '"bob"'))
    [found] = await verify(archive)
    assert "was changed" in found.problem
    record = json.loads(file.read_text())
    assert record["by"] == "bob"


async def test_what_is_kept_for_a_time_expires_whole(desk: Desk, tmp_path: Path):
    archive = Archive(tmp_path, every=SOON, keep=timedelta(milliseconds=1))
    plain = Archive(tmp_path, every=SOON)
    await desk.open(DESK, model=ScriptedModel(always=echo), archive=plain)
    gone, there = await closed_run(desk), await closed_run(desk)
    entries = await archived(plain, gone, 1)
    await archived(plain, there, 1)
    deletion = Deletion(desk.client, Archive(tmp_path / "x"), by="nobody")
    await deletion.delete_run(gone.id)  # as retention does

    async def expired() -> tuple[str, ...]:
        return await expire(desk.client, archive)

    assert await until(expired) == (gone.id,)
    assert await plain.histories_of(desk.client.namespace, gone.id) == []
    assert len(await plain.histories_of(desk.client.namespace, there.id)) == 1, "on the server"
    assert entries[0].run_id == gone.id
    use_archive(desk.client, plain)
    desk.ids.remove(gone.id)


# --- Sessions -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    folder = programs()
    if folder is None:
        pytest.skip("Postgres is not installed")
    with serve(folder) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgres"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator["SessionPlace"]:
    if request.param == "sqlite":
        directory = tmp_path / "sessions"
        directory.mkdir()
        yield SessionPlace(
            opened=lambda name: SQLiteSession(name, directory / "conversations.db"),
            options={"sessions": [directory]},
        )
        return
    alchemy = pytest.importorskip("outlast.sessions.sql_alchemy")
    engine = create_async_engine(request.getfixturevalue("postgres"))

    def opened(name: str) -> Any:
        return alchemy.SQLAlchemySession(name, engine=engine, create_tables=True)

    name = "outlast.sessions.sql_alchemy:SQLAlchemySession"
    yield SessionPlace(opened=opened, options={"references": {name: opened}})
    await engine.dispose()


@dataclass(frozen=True)
class SessionPlace:
    """A database of sessions, and what lets a deletion open it."""

    opened: Callable[[str], Any]
    options: dict[str, Any]


async def items(session: Any) -> int:
    return len(await session.get_items())


async def asked(desk: Desk, session: Any, person: str) -> RunHandle:
    handle = await desk.start(DESK, "Hello", session=session, customer=person)
    await desk.result(handle)
    return handle


async def test_a_deletion_takes_the_items_of_sessions_along(
    desk: Desk, tmp_path: Path, place: SessionPlace
):
    archive = Archive(tmp_path / "archive", every=SOON)
    await desk.open(DESK, model=ScriptedModel(always=echo), archive=archive)
    ann, bob, end = f"ann@{desk.queue}", f"bob@{desk.queue}", f"-{desk.queue}"
    own, shared, his = (place.opened(f"{name}{end}") for name in ("own", "shared", "his"))
    runs = [
        await asked(desk, session, person)
        for session, person in [(own, ann), (own, ann), (shared, ann), (shared, bob), (his, bob)]
    ]
    for handle in runs:
        await archived(archive, handle, 1)
    assert [await items(one) for one in (own, shared, his)] == [4, 4, 2]

    # One of two runs of a conversation: the other one still needs the session.
    deletion = Deletion(desk.client, archive, by="dpo", **place.options)
    first = await deletion.delete_run(runs[0].id)
    assert first.left == ("the items in its session, which other runs use",)
    assert first.sessions == ()
    assert await items(own) == 4

    made = await Deletion(desk.client, archive, by="dpo", **place.options).delete_person(ann)
    assert sorted(len(one.sessions) for one in made) == [0, 1]
    [removed] = [one for stone in made for one in stone.sessions]
    assert removed["items"] == 4
    [left] = [one for stone in made for one in stone.left]
    assert left == "the items in its session, which other runs use"
    assert [await items(one) for one in (own, shared, his)] == [0, 4, 2]
    content = content_of(tmp_path / "archive" / "deleted")
    assert b"own-" not in content
    assert ann.encode() not in content

    # The last run of a conversation takes its items along.
    stone = await Deletion(desk.client, archive, by="dpo", **place.options).delete_run(runs[3].id)
    assert [one["items"] for one in stone.sessions] == [4]
    assert stone.left == ()
    kept = Deletion(desk.client, archive, by="dpo", keep_sessions=True)
    assert (await kept.delete_run(runs[4].id)).left == ("the items in its session",)
    assert [await items(one) for one in (own, shared, his)] == [0, 0, 2]
    assert [one.problem for one in await verify(archive) if one.problem] == []
    desk.ids.clear()


async def test_a_session_that_cannot_be_opened_stops_the_deletion_before_it_begins(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Whoever starts a run may name any file, so a deletion opens none that is not allowed."""
    archive = Archive(tmp_path / "archive", every=SOON)
    await desk.open(DESK, model=ScriptedModel(always=echo), archive=archive)
    session = SQLiteSession("bob", tmp_path / "bob.db")
    handle = await asked(desk, session, f"mallory@{desk.queue}")
    await archived(archive, handle, 1)
    monkeypatch.setattr(described, "_PLACES", set[str]())
    deletion = Deletion(desk.client, archive, by="dpo", sessions=[tmp_path / "other"])
    for call_of in (
        lambda: deletion.delete_run(handle.id),
        lambda: deletion.delete_person(f"mallory@{desk.queue}"),
    ):
        with pytest.raises(
            UserError, match=r"'bob' cannot be opened here, and nothing .*--keep-ses"
        ):
            await call_of()
    assert len(await past(handle)) > 1
    assert await items(session) == 2
    assert not (tmp_path / "archive" / "deleted").exists()


async def test_a_deletion_that_was_killed_after_a_session_was_cleared_is_finished(
    desk: Desk, tmp_path: Path
):
    archive = Archive(tmp_path / "archive", every=SOON)
    await desk.open(DESK, model=ScriptedModel(always=echo), archive=archive)
    session = SQLiteSession("ann", tmp_path / "ann.db")
    handle = await asked(desk, session, f"ann@{desk.queue}")
    await archived(archive, handle, 1)

    class Killed(Exception):
        """Ends the process once the session is empty."""

    class Dying(Deletion):
        async def _remove_files(self, run_id: str, tombstone: Tombstone) -> None:
            raise Killed

    with pytest.raises(Killed):
        await Dying(desk.client, archive, by="dpo", sessions=[tmp_path]).delete_run(handle.id)
    assert await items(session) == 0
    stone = await Deletion(desk.client, archive, by="dpo").delete_run(handle.id)
    assert [one["items"] for one in stone.sessions] == [2], "as many as there were"
    assert stone.finished_ms
    desk.ids.remove(handle.id)
