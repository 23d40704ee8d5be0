"""Live streams of the API: what the team and customers get, and what customers do not."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from temporalio.client import Client

from outlast.client.identity import person
from outlast.client.inbox import InboxEntry
from outlast.client.read.events import RawResponsesStreamEvent, StreamedState, changes
from outlast.contract.streams.delta_reader import UNJUDGED
from outlast.loop.actions import SetAsideAction
from outlast.loop.events import PersonActed
from outlast.loop.machine import advance
from outlast.loop.state import LoopState
from outlast.loop.values import Failure
from outlast.serve.access import Caller, Customer, Role, RoleRules, Staff
from outlast.serve.bodies import InboxStreamQuery
from outlast.serve.cursor import Cursor
from outlast.serve.feed import Feed
from outlast.serve.inbox_feed import InboxFeed
from outlast.serve.live import event_stream, inbox_stream
from outlast.serve.login import ThisMachine
from outlast.serve.routing import Desk
from outlast.serve.run_feed import RunFeed
from outlast.serve.sse import EventStream
from outlast.views.run import snapshot_of
from tests.laws.driver import Play, gated, said, tool
from tests.unit.client.recorded import FakeClient
from tests.unit.serve.scripted_source import COMPLETED, ScriptedSource, delta
from tests.unit.serve.test_inbox_feed import entries_of

ME = Customer(Play.run_id, 10**15)
SECONDS = 5
BLOCKED = Failure(code="input_guardrail_tripwire", message="SECRET")


def staff(*roles: Role) -> Staff:
    return Staff(person("ann"), frozenset(roles))


class Show:
    """A run whose states and texts are shown to the readers of a desk."""

    def __init__(self, play: Play) -> None:
        self.play = play
        self.source = ScriptedSource()
        self._number = self._shown = 0
        self._state = LoopState()
        self.show()

    def show(self) -> None:
        """Show what has happened in the run since."""
        for event in self.play.events[self._shown :]:
            before, (self._state, _) = self._state, advance(self._state, event)
            events = tuple(changes(before, self._state, self._number))
            self._number += len(events)
            present = StreamedState(
                state=snapshot_of(self._state), events=events, cause=event, is_present=True
            )
            self.source.put(present)
        self._shown = len(self.play.events)

    def writes(self, *pieces: str, unjudged: bool = True) -> None:
        """The model writes a text."""
        begin = {UNJUDGED: True} if unjudged else {}
        self.source.put(RawResponsesStreamEvent(raw={"type": "response.created", **begin}))
        self.source.put(*map(delta, pieces))

    def replies(self, *parts: Any, **fields: Any) -> None:
        """The model has written its reply."""
        self.source.put(COMPLETED)
        self.play.replies(*parts, **fields)
        self.show()

    def desk(self) -> Desk:
        """Return another process with a desk."""
        client: Any = FakeClient(())
        return Desk(
            client=client,
            feed=Feed(self.source),
            login=ThisMachine(person("ann")),
            roles=RoleRules(),
        )


async def stream_of(desk: Desk, caller: Caller, after: str | None) -> EventStream:
    return await event_stream(desk, caller, Play.run_id, Cursor.parse(after) if after else None)


class Reader:
    """A reader of a stream, and what it has."""

    def __init__(
        self,
        desk: Desk,
        caller: Caller = None,
        after: str | None = None,
        stream: Awaitable[EventStream] | None = None,
    ) -> None:
        self.events: list[tuple[str, Any]] = []
        self.cursor = after or ""
        self.text = ""
        self.messages: list[Any] = []
        self._news = asyncio.Event()
        self._task = asyncio.create_task(self._read(stream or stream_of(desk, caller, after)))

    async def _read(self, opening: Awaitable[EventStream]) -> None:
        stream = await opening

        async def receive() -> Any:
            await asyncio.Event().wait()

        async def send(message: Any) -> None:
            for line in message.get("body", b"").decode().split("\n\n"):
                if line and not line.startswith(":"):
                    self._take(dict(one.split(": ", 1) for one in line.split("\n")))

        await stream({"type": "http"}, receive, send)

    def _take(self, fields: dict[str, str]) -> None:
        name, data = fields["event"], json.loads(fields["data"])
        self.cursor = fields.get("id", self.cursor)
        self.events.append((name, data))
        if name == "text":
            self.text += data["text"]
        elif name == "reset" or data.get("clears_text"):
            self.text = ""
        if name == "snapshot":
            self.text = data["text"]
        if name == "conversation":
            self.messages[data["keep"] :] = [one["text"] for one in data["messages"]]
        self._news.set()

    async def until(self, condition: "Callable[[Reader], object]") -> None:
        async with asyncio.timeout(SECONDS):
            while not condition(self):
                self._news.clear()
                await self._news.wait()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def end(self) -> None:
        async with asyncio.timeout(SECONDS):
            await self._task


def thinking() -> Show:
    play = Play(keep_open=True)
    play.prepared()
    return Show(play)


async def test_a_customer_reads_the_text_once_wherever_they_come_back() -> None:
    show = thinking()
    one = Reader(show.desk(), ME)
    show.writes("It ", "ships ")
    await one.until(lambda it: it.text == "It ships ")
    await one.close()
    show.source.put(delta("today."))
    two = Reader(show.desk(), ME, one.cursor)
    await two.until(lambda it: it.text == "today.")
    assert two.messages == ["Hello"]
    late = Reader(show.desk(), ME)
    await late.until(lambda it: it.text == "It ships today.")
    show.replies(said("It ships today."))
    for reader in (two, late):
        await reader.until(lambda it: it.messages == ["Hello", "It ships today."])
        assert reader.text == ""
        await reader.close()


@pytest.mark.parametrize("steps", [(), ("check_output",), ("check",)])
async def test_a_customer_does_not_read_a_text_that_somebody_judges(steps: Any) -> None:
    play = Play(keep_open=True)
    play.prepared(required_steps=steps)
    show = Show(play)
    desk = show.desk()
    reader, team = Reader(desk, ME), Reader(desk, staff("viewer"))
    show.writes("SECRET ", "draft", unjudged=bool(steps))
    await team.until(lambda it: it.text == "SECRET draft")
    late, again = Reader(desk, ME), Reader(show.desk(), ME, "0-0-0000")
    for one in (reader, late, again):
        await one.until(lambda it: it.messages == ["Hello"])
        assert "SECRET" not in json.dumps(one.events)
        await one.close()
    # No position in a text that it does not have.
    assert not reader.cursor or Cursor.parse(reader.cursor).offset == 0
    await team.close()


async def test_a_reader_from_the_start_gets_no_text_that_was_judged_since() -> None:
    """The text of a blocked question was in the stream once; its customer never reads it."""
    play = Play(keep_open=True)
    play.prepared(required_steps=("check",))
    show = Show(play)
    show.writes("SECRET reply")
    show.replies(said("SECRET reply"), required_steps=("check",))
    play.checked(failure=BLOCKED)
    show.show()
    play.hears("m2", "Another question.")
    play.checked()
    show.show()
    reader = Reader(show.desk(), ME, "0-0-0000")
    show.writes("Another ")
    await reader.until(lambda it: it.text == "Another ")
    assert "SECRET" not in json.dumps(reader.events)
    assert reader.messages == ["Hello", "Another question."]
    await reader.close()


async def test_a_customer_learns_nothing_of_what_the_run_does() -> None:
    show = thinking()
    reader = Reader(show.desk(), ME)
    call = gated("SECRET_tool", "c1", '{"iban": "SECRET"}', reason="SECRET")
    show.replies(said("A moment."), call)
    show.play.decided("a1", "reject", message="SECRET", by="SECRET")
    show.show()
    show.replies(said("I cannot."))
    await reader.until(lambda it: it.messages == ["Hello", "A moment.", "I cannot."])
    assert "SECRET" not in json.dumps(reader.events)
    assert {name for name, _ in reader.events} == {"conversation"}
    await reader.close()


async def test_a_customer_sees_a_message_that_waits() -> None:
    show = thinking()
    show.replies(tool("look_up", "c1"))
    reader = Reader(show.desk(), ME)
    await reader.until(lambda it: bool(it.events))
    show.play.hears("m2", "Are you there?")
    show.show()
    await reader.until(lambda it: bool(it.events[-1][1]["unread"]))
    assert reader.events[-1][1]["unread"][0]["text"] == "Are you there?"
    await reader.close()


async def test_the_team_reads_what_happens_and_what_waits() -> None:
    show = thinking()
    reader = Reader(show.desk(), staff("decider"))
    await reader.until(lambda it: bool(it.events))
    assert reader.events[0][1]["run"]["items"][0]["text"] == "Hello"
    show.writes("A ", "moment.")
    await reader.until(lambda it: it.text == "A moment.")
    show.replies(said("A moment."), gated("refund", "c1", '{"n": 1}'))
    await reader.until(lambda it: it.events[-1][1].get("status") == "waiting")
    assert reader.text == ""
    found = [data for name, data in reader.events if name == "event"]
    assert [one["item"]["text"] for one in found if "text" in one.get("item", {})][
        -1
    ] == "A moment."
    (request,) = [one["request"] for one in found if "request" in one]
    assert (request["id"], request["arguments"]) == ("a1", '{"n": 1}')
    show.play.hears("m2", "Hurry!")
    show.show()
    await reader.until(lambda it: it.events[-1][0] == "unread")
    assert reader.events[-1][1]["messages"][0]["text"] == "Hurry!"
    await reader.close()


async def test_what_is_set_aside_reaches_the_team_and_as_a_mark_its_customer() -> None:
    show = thinking()
    show.replies(said("A moment."), tool("look_up", "c1"))
    team, customer = Reader(show.desk(), staff("operator")), Reader(show.desk(), ME)
    await team.until(lambda it: bool(it.events))
    await customer.until(lambda it: bool(it.events))
    for back in (False, True):
        action = SetAsideAction(by="ann", item=0, reason="SECRET", back=back)
        show.play.take(PersonActed(at_ms=show.play.now_ms, action=action))
        show.show()
        await team.until(lambda it: it.events[-1][0] == "set_aside")
        expected = [] if back else [(0, "ann", "SECRET")]
        found = team.events.pop()[1]["items"]
        assert [(one["item"], one["by"], one["reason"]) for one in found] == expected
        await customer.until(lambda it: it.events[-1][1]["keep"] == 0)
        assert customer.events.pop()[1]["messages"][0]["left_out"] is not back
    assert "SECRET" not in json.dumps(customer.events)
    for reader in (team, customer):
        await reader.close()


async def test_a_stream_ends_with_the_run() -> None:
    play = Play()
    play.prepared()
    show = Show(play)
    team, mine = Reader(show.desk(), staff("viewer")), Reader(show.desk(), ME)
    await mine.until(lambda it: bool(it.events))
    show.replies(said("Bye."))
    show.source.end()
    await team.end()
    await mine.end()
    assert team.events[-1] == ("ended", {"status": "completed"})
    assert mine.events[-1] == ("ended", {})
    assert mine.messages == ["Hello", "Bye."]


async def test_a_stream_ends_with_its_token() -> None:
    show = thinking()
    now_ms = 10**12
    reader = Reader(show.desk(), Customer(Play.run_id, now_ms))
    await reader.end()
    assert reader.events == []


async def test_a_run_that_cannot_be_read_is_an_error_without_secrets() -> None:
    show = thinking()
    team, mine = Reader(show.desk(), staff("viewer")), Reader(show.desk(), ME)
    await mine.until(lambda it: bool(it.events))
    show.source.end(RuntimeError("SECRET of the server"))
    await team.end()
    await mine.end()
    for reader in (team, mine):
        name, data = reader.events[-1]
        assert (name, data["code"]) == ("error", "internal_error")
        assert "SECRET" not in data["message"]


# --- The inbox -----------------------------------------------------------------------------------

NOW = datetime.now(UTC)  # noqa: TID251  a deadline in an hour is one for the desk, too


def entry(run_id: str, **fields: Any) -> InboxEntry:
    settings: dict[str, Any] = {"pending": 1, "started": NOW, "client": cast("Client", None)}
    return InboxEntry(run_id=run_id, **(settings | fields))


async def test_an_inbox_is_read_live(monkeypatch: pytest.MonkeyPatch) -> None:
    mine: dict[str, Any] = {"people": ("billing",)}
    held = entry("held", status="held", held_by="ann", pending=0)
    listed = [entry("a", **mine), held, entry("not mine", people=("leads",))]
    asked: list[Any] = []

    async def executions(_client: Any, query: str) -> AsyncGenerator[InboxEntry]:
        asked.append(query)
        for one in listed:
            yield one

    monkeypatch.setattr("outlast.serve.run_feed.executions", executions)
    monkeypatch.setattr("outlast.serve.inbox_feed.entries_of", entries_of)
    inboxes = InboxFeed(RunFeed(timedelta(seconds=0.01)))
    desk = replace(thinking().desk(), inboxes=inboxes)
    ann = person("ann", groups=["billing"])
    query = InboxStreamQuery(mine=True)
    everything = Reader(desk, stream=inbox_stream(desk, ann, query))
    due = InboxStreamQuery(due="1h", held=False)
    soon = Reader(desk, stream=inbox_stream(desk, ann, due))
    await everything.until(lambda it: it.events)
    name, data = everything.events[0]
    assert (name, [one["id"] for one in data["items"]]) == ("inbox", ["held", "a"])
    assert "OutlastPendingApprovals > 0" in asked[0]

    later = entry("b", due=NOW + timedelta(hours=2), **mine)
    listed[:] = [entry("a", due=NOW + timedelta(minutes=5), **mine), later]
    await everything.until(lambda it: len(it.events) == 4)
    changes = {(name, data["id"]) for name, data in everything.events[1:]}
    assert changes == {("changed", "a"), ("added", "b"), ("removed", "held")}
    await soon.until(lambda it: len(it.events) == 2)
    assert soon.events[0] == ("inbox", {"items": []})
    assert (soon.events[1][0], soon.events[1][1]["id"]) == ("added", "a")
    for reader in (everything, soon):
        await reader.close()
    await desk.inboxes.close()


async def test_a_stream_whose_headers_are_asked_for_ends() -> None:
    stream = await stream_of(thinking().desk(), ME, None)
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    receive: Any = None
    await stream({"type": "http", "method": "HEAD"}, receive, send)
    assert sent[0]["status"] == 200
    assert (b"content-type", b"text/event-stream; charset=utf-8") in sent[0]["headers"]
    assert sent[1:] == [{"type": "http.response.body", "body": b""}]
