"""Search on a server: conversations are found while they are open and when they are archived."""

import sqlite3
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from outlast.agents.agent import Agent
from outlast.agents.approvals.policy import ApprovalPolicy
from outlast.agents.errors import UserError
from outlast.agents.tools.function_tool import function_tool
from outlast.archive import Archive, use_archive
from outlast.client import search as search_module
from outlast.client.deletion import Deletion
from outlast.client.handle import RunHandle
from outlast.client.identity import person
from outlast.client.search import (
    Fed,
    SearchFeed,
    behind_words,
    rebuild_index,
    search_conversations,
    search_status,
)
from outlast.client.start.customer import Customer
from outlast.encryption import EncryptionCodec
from outlast.search import SearchIndex, SearchUnavailable, open_index
from outlast.serve.access import RoleRules
from outlast.testing import ScriptedModel, call, say
from tests.servers import server_for_tests
from tests.workflow.desk import Desk, waits_for
from tests.workflow.test_archive import DESK, archived, echo, taken_by_retention, until
from tests.workflow.test_desk_api import app_of, opened


@pytest.fixture(scope="module")
async def client() -> AsyncIterator[Client]:
    """A client of a server of this file's own: an index has all runs of its namespace."""
    async with server_for_tests(shared=False) as server:
        yield await server.connect()


@pytest.fixture
def index(tmp_path: Path) -> SearchIndex:
    return open_index(tmp_path / "search.db")


@pytest.fixture
def feed(desk: Desk, index: SearchIndex) -> SearchFeed:
    return SearchFeed(desk.client, index)


async def ids(client: Client, index: SearchIndex, words: str) -> list[str]:
    """Return the runs that a search finds."""
    return [one.document.run_id for one in await search_conversations(client, index, words)]


async def until_found(feed: SearchFeed, words: str, *wanted: str) -> None:
    """Look again until a search finds exactly these runs: lists of the server are a moment behind."""

    async def is_found() -> bool:
        await feed.look()
        return set(await ids(feed.client, feed.index, words)) == set(wanted)

    await until(is_found)


async def closed(desk: Desk, words: str, **options: Any) -> RunHandle:
    handle = await desk.start(DESK, words, **options)
    await desk.result(handle)
    return handle


async def test_an_open_conversation_is_found_and_what_is_said_later_too(
    desk: Desk, feed: SearchFeed, index: SearchIndex
) -> None:
    await desk.open(DESK, model=ScriptedModel(always=echo))
    customer = Customer(id="ann@example.com", name="Ann Öztürk")
    handle = await desk.start(
        DESK, "Wo bleibt die Rückerstattung?", keep_open=True, customer=customer
    )
    await desk.until_status(handle, "idle")
    await until_found(feed, "erstatt", handle.id)
    for words in ("you said", "öztürk", "ann@example"):
        assert await ids(desk.client, index, words) == [handle.id]
    # A quiet conversation is asked again when it is listed otherwise, or after a part of its quiet.
    await (await handle.send("我要退款")).answer()
    await until_found(feed, "退款", handle.id)
    await handle.comment("A known case, see Kulanzregel.", by="bob")
    await handle.tag("vip-zebra", by="bob")
    await until_found(feed, "kulanz zebra", handle.id)
    [hit] = await search_conversations(desk.client, index, "kulanz")
    assert (hit.document.is_open, hit.document.customer) == (True, "Ann Öztürk")
    assert [one.by for one in hit.excerpts] == ["comment"]
    assert await feed.look() == Fed()
    status = await search_status(desk.client, index)
    assert status is not None
    assert behind_words(status) == ""
    assert status.documents >= 1
    await handle.cancel()
    await desk.settled(handle)


async def test_an_archived_conversation_is_found_after_retention_and_a_rebuild(
    desk: Desk, feed: SearchFeed, index: SearchIndex, tmp_path: Path
) -> None:
    archive = Archive(tmp_path / "archive", every=timedelta(milliseconds=200))
    use_archive(desk.client, archive)
    await desk.open(DESK, model=ScriptedModel(always=echo), archive=archive)
    handle, other = await closed(desk, "You promised a quokka."), await closed(desk, "No quokka.")
    entries = [*await archived(archive, handle, 1), *await archived(archive, other, 1)]
    await until_found(feed, "quokka", handle.id, other.id)
    await taken_by_retention(desk.client, entries)
    assert set(await ids(desk.client, index, "quokka")) == {handle.id, other.id}
    # The process was away for longer than retention: only the archive has them.
    lost = open_index(tmp_path / "new.db")
    fed = await rebuild_index(SearchFeed(desk.client, lost))
    assert fed.stored >= 2
    assert set(await ids(desk.client, lost, "quokka")) == {handle.id, other.id}
    # Once the archive lets one go, it leaves the index, too.
    await archive.discard(entries[1])
    assert (await rebuild_index(feed)).removed == 1
    assert await ids(desk.client, index, "quokka") == [handle.id]
    desk.ids.clear()


async def test_a_deletion_on_request_reaches_the_index_in_the_same_command(
    desk: Desk, feed: SearchFeed, index: SearchIndex, tmp_path: Path
) -> None:
    archive = Archive(tmp_path / "archive")
    use_archive(desk.client, archive)
    await desk.open(DESK, model=ScriptedModel(always=echo))
    place = f"{desk.queue}.example"
    hers = await closed(desk, "жщъэюя from her", customer=f"ann@{place}")
    theirs = await closed(desk, "жщъэюя from him", customer=f"bob@{place}")
    await until_found(feed, "жщъэюя", hers.id, theirs.id)
    document = (await search_conversations(desk.client, index, "жщъэюя her"))[0].document
    deletion = Deletion(desk.client, archive, by="dpo", search=index)
    assert len(await deletion.delete_person(f"ann@{place}")) == 1
    assert await ids(desk.client, index, "жщъэюя") == [theirs.id]
    assert not index.put(await search_module.space_of(desk.client), document), "a late writer"
    # Who does not know the index: the writer finds the tombstone.
    await Deletion(desk.client, archive, by="dpo").delete_person(f"bob@{place}")
    await feed.look()
    assert await ids(desk.client, index, "жщъэюя") == []
    content = (tmp_path / "search.db").read_bytes()
    for left in ("жщъ", "ъэю", f"bob@{place}", r"\u0436\u0449\u044a"):
        assert left.encode() not in content
    desk.ids.clear()


async def test_what_a_policy_redacts_later_leaves_the_index(
    desk: Desk, feed: SearchFeed, index: SearchIndex
) -> None:
    @function_tool(needs_approval=ApprovalPolicy(redact=["iban"], unverified="allow"))
    def pay(iban: str) -> str:
        """Pay."""
        return f"paid to {iban} with the code qwertzuio"

    agent = Agent[Any](name="Desk", tools=[pay])
    secret = "DE42999988887777"
    model = ScriptedModel(say("Which one?"), [call("pay", "c1", iban=secret)], say("It is paid."))
    await desk.open(agent, model=model)
    handle = await desk.start(agent, f"My account is {secret}.", keep_open=True)
    await desk.until_status(handle, "idle")
    await until_found(feed, secret, handle.id)
    await handle.send("Pay then.")
    await desk.until(handle, waits_for(1))
    await until_found(feed, secret)
    assert await ids(desk.client, index, "account redacted") == [handle.id]
    await handle.approve("a1", by="ann")
    await until_found(feed, '"it is paid"', handle.id)
    for hidden in ("qwertzuio", "99998888", "pay c1"):
        assert await ids(desk.client, index, hidden) == [], hidden
    await handle.cancel()


async def test_a_kill_at_any_moment_loses_nothing(
    desk: Desk, client: Client, index: SearchIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk.open(DESK, model=ScriptedModel(always=echo))
    handles = [await closed(desk, f"a wombat {at}") for at in range(4)]
    space, put, left = await search_module.space_of(client), SearchIndex.put, [2]

    def killed(self: SearchIndex, space: str, document: Any) -> bool:
        if not left[0]:
            raise KeyboardInterrupt("killed")
        left[0] -= 1
        return put(self, space, document)

    async def is_listed() -> bool:
        listed = [one async for one in client.list_workflows("ExecutionStatus != 'Running'")]
        return {one.id for one in handles} <= {one.id for one in listed}

    await until(is_listed)
    with monkeypatch.context() as patch:
        patch.setattr(SearchIndex, "put", killed)
        with pytest.raises(RuntimeError, match="KeyboardInterrupt"):
            await SearchFeed(client, index).look()
    status = index.status(space)
    assert status is not None
    assert status.as_of_ms == 0, "nothing is said to be there that is not"
    another = SearchFeed(client, index)
    assert await another.look() is None, "the first one may live"
    monkeypatch.setattr("outlast.search.index.LEASE_MS", -1)
    await until_found(another, "wombat", *(one.id for one in handles))


async def test_an_id_that_is_used_again_is_another_conversation(
    desk: Desk, feed: SearchFeed, index: SearchIndex
) -> None:
    await desk.open(DESK, model=ScriptedModel(always=echo))
    first = await closed(desk, "a numbat of yours")
    await until_found(feed, "numbat", first.id)
    await closed(desk, "another numbat", id=first.id)

    async def both() -> bool:
        await feed.look()
        return len(await search_conversations(desk.client, index, "numbat")) == 2

    await until(both)
    assert await ids(desk.client, index, "numbat yours") == [first.id]


async def test_a_conversation_that_continues_as_new_or_is_nested_is_one(
    desk: Desk, feed: SearchFeed, index: SearchIndex
) -> None:
    helper = Agent[Any](name="Helper")
    boss = Agent[Any](name="Boss", tools=[helper.as_tool("help", "Helps.")])
    replies = [[call("help", "h1", input="a hidden bilby")], say("I helped."), say("Done.")]
    await desk.open(boss, model=ScriptedModel(*replies, always=echo))
    handle = await desk.start(boss, "Find the bilby")
    await desk.result(handle)
    long = await desk.start_short(boss, "A long bilby", keep_open=True)
    for at in range(3):
        await (await long.send(f"and bilby {at}")).answer()
    await until_found(feed, "bilby", handle.id, long.id)
    assert await ids(desk.client, index, '"and bilby 0" long') == [long.id]
    assert await ids(desk.client, index, "hidden") == []
    await long.cancel()


async def test_a_supporter_of_one_tenant_learns_nothing_of_another(
    desk: Desk, feed: SearchFeed, index: SearchIndex
) -> None:
    await desk.open(DESK, model=ScriptedModel(always=echo))
    own = await closed(desk, "the dugong of acme", tenant="acme", customer="<img src=x onerror=1>")
    other = await closed(desk, "the dugong of globex <script>", tenant="globex")
    await until_found(feed, "dugong", own.id, other.id)
    roles = RoleRules({"acme": ["viewer@tenant:acme"], "all": ["viewer"]})

    def app(group: str) -> Any:
        made = app_of(desk, DESK, groups=(group,), roles=roles)
        object.__setattr__(made.state.desk, "search", index)
        return made

    async with opened(app("acme")) as acme, opened(app("all")) as everybody:
        found = (await acme.get("/api/search?q=dugong")).json()
        assert [one["id"] for one in found["conversations"]] == [own.id]
        assert not found["more"]
        assert found["problem"] == ""
        assert [one["text"] for one in found["conversations"][0]["excerpts"][0]["pieces"]][1] == (
            "dugong"
        )
        for words in ("globex", "script", other.id):
            empty = (await acme.get("/api/search", params={"q": words})).json()
            none = (await acme.get("/api/search", params={"q": "nobody-said-so"})).json()
            assert {**empty, "as_of": 0} == {**none, "as_of": 0}
        page = (await acme.get("/search?q=dugong")).text
        assert own.id in page
        assert other.id not in page
        assert "<img" not in page
        assert "&lt;img src=x" in page
        assert "<mark>dugong</mark>" in page
        page = (await everybody.get("/search?q=dugong")).text
        assert "<script>" not in page.replace("<script src", "")
        assert "of globex &lt;script&gt;" in page
        for address in (f"/api/search?q={'a' * 300}", "/api/search", "/api/search?q=a&limit=51"):
            assert (await everybody.get(address)).status_code in {400, 422}
        assert "at most 200 characters" in (await everybody.get(f"/search?q={'a' * 300}")).text
        for who in ({"Authorization": "Bearer a-key-of-a-shop-that-nobody-guesses"},):
            assert (await everybody.get("/api/search?q=dugong", headers=who)).status_code == 403


async def test_a_team_does_not_find_what_has_left_it_since_the_index_was_fed(
    desk: Desk, feed: SearchFeed, index: SearchIndex
) -> None:
    @function_tool(needs_approval=ApprovalPolicy(audience="billing", unverified="allow"))
    def refund() -> str:
        """Refund."""
        return "done"

    agent = Agent[Any](name="Clerk", tools=[refund])
    await desk.open(agent, model=ScriptedModel([call("refund", "c1")], say("The potoroo is paid.")))
    handle = await desk.start(agent, "pay for the potoroo", keep_open=True)
    await desk.until(handle, waits_for(1))
    roles = RoleRules({"billing": ["viewer@team:billing"]})
    made = app_of(desk, agent, groups=("billing",), roles=roles)
    object.__setattr__(made.state.desk, "search", index)
    async with opened(made) as http:

        async def found() -> list[str]:
            await feed.look()
            shown = (await http.get("/api/search?q=potoroo")).json()["conversations"]
            return [one["id"] for one in shown]

        assert await until(found) == [handle.id]
        await handle.approve("a1", by=person("ann", groups=["billing"]))
        await desk.until_status(handle, "idle")

        async def hidden() -> bool:
            answer = (await http.get("/api/search?q=potoroo")).json()
            return not answer["conversations"] and not answer["more"]

        assert await until(hidden), "though nobody has fed the index"
    await handle.cancel()


async def test_the_desk_says_what_is_wrong_with_its_index_and_works_without(
    desk: Desk,
    index: SearchIndex,
    feed: SearchFeed,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = app_of(desk, DESK)
    async with opened(made) as http:
        assert 'href="/search"' not in (await http.get("/conversations")).text
        answer = await http.get("/api/search?q=x")
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "no_search_index")
        object.__setattr__(made.state.desk, "search", index)
        assert 'href="/search"' in (await http.get("/conversations")).text
        assert "outlast search run" in (await http.get("/search?q=x")).text
        assert (await http.get("/api/search?q=x")).status_code == 503
        index.prepare()
        assert "has not been made yet" in (await http.get("/search?q=x")).text
        await feed.look()
        assert "has not been made yet" not in (await http.get("/search?q=x")).text
        later = search_module.now_ms() + search_module.BEHIND_MS + 1_000
        with monkeypatch.context() as patch:
            patch.setattr(search_module, "now_ms", lambda: later)
            assert "The index is behind" in (await http.get("/search?q=x")).text
            assert "is behind" in (await http.get("/api/search?q=x")).json()["problem"]
        damage(tmp_path / "search.db")
        assert "is damaged" in (await http.get("/search?q=xyz")).text
        assert (await http.get("/conversations")).status_code == 200
    with pytest.raises(SearchUnavailable):
        await feed.look()
    await rebuild_index(feed)
    assert await ids(desk.client, index, "nothing") == []


def damage(file: Path) -> None:
    """Overwrite all of a database but its first page."""
    content = file.read_bytes()
    file.write_bytes(content[:4096] + b"\xa5" * (len(content) - 4096))


async def test_an_index_of_another_server_is_as_if_it_were_empty(
    desk: Desk, feed: SearchFeed, index: SearchIndex
) -> None:
    await desk.open(DESK, model=ScriptedModel(always=echo))
    handle = await closed(desk, "an echidna here")
    await until_found(feed, "echidna", handle.id)
    async with server_for_tests(shared=False) as server:
        other = await server.connect()
        assert other.namespace == desk.client.namespace
        assert await ids(other, index, "echidna") == []
        assert "not been made" in behind_words(await search_status(other, index))
        await rebuild_index(SearchFeed(other, index))
    assert await ids(desk.client, index, "echidna") == [], "the words of another server are gone"


async def test_a_full_disk_leaves_the_index_whole_and_is_tried_again(
    desk: Desk, feed: SearchFeed, index: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk.open(DESK, model=ScriptedModel(always=echo))
    before = await closed(desk, "a bandicoot before")
    await until_found(feed, "bandicoot", before.id)
    after = await closed(desk, f"a bandicoot after {'x ' * 50_000}")
    connect = sqlite3.connect

    def full(*given: Any, **options: Any) -> Any:
        connection = connect(*given, **options)
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    async def fails() -> bool:
        try:
            await feed.look()
        except SearchUnavailable as error:
            return "full" in error.message
        return False

    with monkeypatch.context() as patch:
        patch.setattr("outlast.search.sqlite.sqlite3.connect", full)
        await until(fails)
        assert await ids(desk.client, index, "bandicoot") == [before.id]
    await until_found(feed, "bandicoot", before.id, after.id)
    index.check()


async def test_search_is_off_where_contents_are_encrypted(
    client: Client, index: SearchIndex
) -> None:
    options = client.config(active_config=True)
    codec = EncryptionCodec({"a": b"k" * 32}, "a")
    options["data_converter"] = replace(options["data_converter"], payload_codec=codec)
    encrypted = Client(**options)
    with pytest.raises(UserError, match=r"Contents are encrypted here, .*--readable"):
        SearchFeed(encrypted, index)
    assert SearchFeed(encrypted, index, readable=True)
