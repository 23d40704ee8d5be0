"""A word after a resolved conversation has ended: it begins the one that follows, and whose that is."""

import asyncio
import json
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.errors import RunAlreadyStarted, RunNotFound, UserError
from outlast.client.follow_ups import start_follow_up
from outlast.client.handle import RunHandle
from outlast.client.start.following import follows, newest_following
from outlast.client.start.runner import Runner
from outlast.loop.items import text_of
from outlast.loop.start import Customer
from outlast.sessions import SQLiteSession
from outlast.testing import ScriptedModel, say
from outlast.views.run import follows_of
from tests.workflow.desk import PATIENCE_SECONDS, Desk
from tests.workflow.test_chat_page import browser, send
from tests.workflow.test_desk_api import PROGRAM, TOKENS, app_of, bearer, keys, opened
from tests.workflow.test_wires import Chat, said

__all__ = ["keys"]

CLERK = Agent[Any](name="Clerk")
A = Agent[Any](name="A")
MIA = Customer("c1", name="Mia")


async def ended(desk: Desk, agent: Agent[Any] = CLERK, **options: Any) -> RunHandle:
    """Return a conversation that was resolved, and has ended."""
    handle = await desk.start(agent, "Where is my order?", keep_open=True, **options)
    await desk.until_status(handle, "idle")
    return await over(handle)


async def over(handle: RunHandle) -> RunHandle:
    await handle.wait(lambda run: run.status == "idle")
    await handle.resolve(by="ann")
    await handle.cancel(mode="after_turn")
    await handle.wait(lambda run: not run.is_open)
    return handle


async def opens(desk: Desk, **options: Any) -> None:
    await desk.open(CLERK, model=ScriptedModel(always=lambda _: say("Hello.")), **options)


async def follow(desk: Desk, run_id: str, text: str = "And now?", **options: Any) -> RunHandle:
    runner = Runner.using(client=desk.client, task_queue=desk.queue)
    handle = await runner.start("Clerk", text, keep_open=True, follows=run_id, **options)
    desk.ids.append(handle.id)
    return handle


def by_chance(desk: Desk, handle: RunHandle) -> str:
    """Return the id of what would follow a conversation, for a run that does not."""
    desk.ids.append(f"{handle.id}.2")
    return desk.ids[-1]


async def test_a_conversation_follows_another_one_with_its_customer_and_tenant(desk: Desk) -> None:
    await opens(desk)
    first = await ended(desk, customer=MIA, tenant="shop")
    second = await follow(desk, first.id)
    again = await follow(desk, first.id)
    assert (second.id, again.first_execution_id) == (f"{first.id}.2", second.first_execution_id)
    state = await desk.until_status(second, "idle")
    assert (follows_of(state), state.start.customer) == (first.id, MIA)
    assert await newest_following(desk.client, first.id) == second.id
    await over(second)
    third = await follow(desk, second.id)
    assert (third.id, follows_of(await desk.until_status(third, "idle"))) == (
        f"{first.id}.3",
        second.id,
    )
    assert await newest_following(desk.client, first.id) == third.id
    assert await follows(desk.client, third.id, first.id)
    assert await follows(desk.client, third.id, second.id)
    assert not await follows(desk.client, second.id, third.id)
    assert not await follows(desk.client, first.id, first.id)
    # No number of such an id: what a customer writes into an address ends nothing.
    for odd in (f"{first.id}.²", f"{first.id}.02", f"{first.id}.", f"{first.id}.x", ".2", "²"):
        assert not await follows(desk.client, odd, first.id)
        assert not await follows(desk.client, first.id, odd)


async def test_what_cannot_be_followed_is_refused(desk: Desk) -> None:
    await opens(desk)
    handle = await desk.start(CLERK, "Hello?", keep_open=True, customer=MIA)
    with pytest.raises(UserError, match="that conversation is open"):
        await follow(desk, handle.id)
    await over(handle)
    with pytest.raises(RunNotFound):
        await follow(desk, "run-that-never-was")
    for other in ({"customer": "c2"}, {"tenant": "another"}):
        with pytest.raises(UserError, match="has another customer or tenant"):
            await follow(desk, handle.id, **other)
    with pytest.raises(UserError, match=r"has the id '.*\.2'. Leave id= out"):
        await follow(desk, handle.id, id="my-own")
    assert await newest_following(desk.client, handle.id) == handle.id


async def test_a_word_begins_it_as_the_first_one_was_begun(desk: Desk, tmp_path: Any) -> None:
    """The session of the first one, so its model reads what was said there."""
    session = SQLiteSession("s1", tmp_path / "sessions.db")
    await opens(desk, sessions=[session.db_path])
    first = await ended(desk, session=session, context={"order": "A-17"}, customer=MIA)
    second = await start_follow_up(desk.client, first.id, "And now?", message_id="m1")
    desk.ids.append(second.id)
    state = await desk.until_status(second, "idle")
    assert [one.raw["content"] for one in state.items if one.kind == "input"][-1] == "And now?"
    assert (state.start.customer, state.context) == (MIA, {"order": "A-17"})
    assert [str(one) for one in await session.get_items()].count(
        "{'content': 'And now?', 'role': 'user'}"
    ) == 1
    with pytest.raises(RunAlreadyStarted):
        await start_follow_up(desk.client, first.id, "Another word", message_id="m2")


async def test_the_token_of_a_conversation_opens_what_follows_it_and_nothing_else(
    desk: Desk,
) -> None:
    await opens(desk)
    first = await ended(desk, customer=MIA)
    stranger = await desk.start(CLERK, "Hello?", keep_open=True, customer="c2")
    squatter = await desk.start(CLERK, "Hello?", keep_open=True, id=by_chance(desk, stranger))
    mine, other = bearer(TOKENS.mint(first.id)), bearer(TOKENS.mint(stranger.id))
    async with opened(app_of(desk, CLERK)) as http:

        async def read(run_id: str, headers: Any) -> Any:
            return await http.get(f"/api/conversations/{run_id}", headers=headers)

        before = (await read(first.id, mine)).json()
        assert (before["has_ended"], before["followed_by"]) == (False, None)
        body = {"text": "And now?", "message_id": "m1"}
        for _ in range(2):  # a client that did not get the answer
            sent = await http.post(
                f"/api/conversations/{first.id}/messages", json=body, headers=mine
            )
            assert (sent.status_code, sent.json()["id"]) == (202, f"{first.id}.2")
        second = RunHandle(desk.client, f"{first.id}.2")
        desk.ids.append(second.id)
        await desk.until_status(second, "idle")
        shown = (await read(second.id, mine)).json()
        assert [one["text"] for one in shown["messages"]] == ["And now?", "Hello."]
        assert (shown["follows"], (await read(first.id, mine)).json()["followed_by"]) == (
            first.id,
            second.id,
        )
        for run_id, headers in ((second.id, other), (squatter.id, other), (squatter.id, mine)):
            assert (await read(run_id, headers)).status_code == 401
            answer = await http.post(
                f"/api/conversations/{run_id}/messages", json=body, headers=headers
            )
            assert answer.status_code == 401


async def test_a_run_that_has_the_id_by_chance_is_not_what_follows(desk: Desk) -> None:
    await opens(desk)
    first = await ended(desk)
    await desk.start(CLERK, "Hello?", keep_open=True, id=by_chance(desk, first))
    async with opened(app_of(desk, CLERK)) as http:
        headers = bearer(TOKENS.mint(first.id))
        path = f"/api/conversations/{first.id}/messages"
        answer = await http.post(path, json={"text": "And now?"}, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "conversation_ended")
    assert await newest_following(desk.client, first.id) == first.id


async def test_words_at_the_same_time_begin_one_conversation_and_both_are_in_it(
    desk: Desk,
) -> None:
    await opens(desk)
    first = await ended(desk)
    async with opened(app_of(desk, CLERK)) as http:
        path = f"/api/conversations/{first.id}/messages"
        sent = await asyncio.gather(
            *(http.post(path, json={"text": f"word {at}"}, headers=PROGRAM) for at in range(4))
        )
    assert {one.json()["id"] for one in sent} == {f"{first.id}.2"}
    second = RunHandle(desk.client, f"{first.id}.2")
    desk.ids.append(second.id)
    state = await desk.until_status(second, "idle")
    said_words = sorted(one.raw["content"] for one in state.items if one.kind == "input")
    assert said_words == [f"word {at}" for at in range(4)]


async def test_one_that_ended_without_being_resolved_takes_no_word(desk: Desk) -> None:
    await opens(desk)
    handle = await desk.start(CLERK, "Hello?", keep_open=True)
    await desk.until_status(handle, "idle")
    await handle.cancel(mode="after_turn")
    await desk.result(handle)
    async with opened(app_of(desk, CLERK)) as http:
        path = f"/api/conversations/{handle.id}/messages"
        answer = await http.post(path, json={"text": "And now?"}, headers=PROGRAM)
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "run_closed")


async def test_a_chat_of_a_front_end_goes_on_under_its_old_id(desk: Desk) -> None:
    await opens(desk)
    first = await ended(desk)
    app = app_of(desk, CLERK)
    async with asyncio.timeout(PATIENCE_SECONDS), opened(app) as http:
        chat = Chat(app, first.id, bearer(TOKENS.mint(first.id)))
        assert "Hello." in json.dumps(await chat.send(said("And now?")))
        second = RunHandle(desk.client, f"{first.id}.2")
        desk.ids.append(second.id)
        await desk.until_status(second, "idle")
        assert "Hello." in json.dumps(await chat.send(said("One more thing.", "m2")))
        body: Any = {
            "threadId": first.id, "runId": "r1", "state": {}, "tools": [], "context": [],
            "forwardedProps": {}, "messages": [{"id": "m3", "role": "user", "content": "Third."}],
        }  # fmt: skip
        headers = bearer(TOKENS.mint(first.id))
        streamed = await http.post("/agui/Clerk", json=body, headers=headers)
        assert "RUN_FINISHED" in streamed.text
        asked = {"model": "Clerk", "input": "Fourth.", "conversation": first.id}
        answer = await http.post("/v1/responses", json=asked, headers=headers)
        assert answer.status_code == 200, answer.text
        headers = {**headers, "A2A-Version": "1.0"}
        message = {"messageId": "m5", "role": "ROLE_USER", "parts": [{"text": "Fifth."}]}
        task = await http.post(
            "/a2a/Clerk/message:send", json={"message": message}, headers=headers
        )
        assert task.status_code == 200, task.text
        message |= {"messageId": "m6", "contextId": task.json()["task"]["contextId"]}
        task = await http.post(
            "/a2a/Clerk/message:send", json={"message": message}, headers=headers
        )
        assert task.status_code == 200, task.text
    state = await desk.until(second, lambda run: run.status == "idle" and len(run.answers) == 6)
    words = [text_of(one.raw) for one in state.items if one.kind == "input"]
    assert words == ["And now?", "One more thing.", "Third.", "Fourth.", "Fifth.", "Fifth."]


async def test_the_chat_leads_a_customer_to_what_follows_and_back(desk: Desk) -> None:
    await desk.open(A, model=ScriptedModel(always=lambda _: say("Hello.")))
    first = await ended(desk, A)
    async with browser(desk, first.id) as http:
        page = (await http.get(f"/chat/c/{first.id}")).text
        assert 'class="chat-end"' not in page
        moved = await send(http, first.id, "And now?")
        assert (moved.status_code, moved.headers["Location"]) == (303, f"/chat/c/{first.id}.2")
        second = RunHandle(desk.client, f"{first.id}.2")
        desk.ids.append(second.id)
        await desk.until_status(second, "idle")
        page = await http.get(moved.headers["Location"])
        assert page.status_code == 200
        assert "Where is my order?" not in page.text
        assert f"/chat/c/{first.id}?former=1" in page.text
        former = await http.get(f"/chat/c/{first.id}?former=1")
        assert "Where is my order?" in former.text
        assert (await http.get(f"/chat/c/{first.id}")).headers["Location"] == f"/chat/c/{second.id}"
        script = await send(http, first.id, "And more?", headers={"X-Chat": "1"})
        assert (script.status_code, script.headers["Location"]) == (204, f"/chat/c/{second.id}")
