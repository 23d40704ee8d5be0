"""What a provider refuses does not end a conversation, on a real server."""

import asyncio
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.approvals.policy import ApprovalPolicy
from outlast.agents.config.run_config import RunConfig
from outlast.agents.tools.function_tool import function_tool
from outlast.client.audit import audit_run
from outlast.client.people.actions import AsideReceipt
from outlast.client.timeline import Timeline
from outlast.contract.identity import new_shared_key
from outlast.loop.values import JsonObject
from outlast.ports.model import ModelError, ModelRequest
from outlast.serve.access import RoleRules
from outlast.testing import ScriptedModel, call, say
from outlast.views.run import loop_state
from tests.pictures import PNG, url_of
from tests.workflow.desk import Desk
from tests.workflow.test_desk_api import PROGRAM, TOKENS, app_of, bearer, of_run, opened

PHOTO: JsonObject = {
    "type": "input_image",
    "image_url": url_of("image/png", PNG),
    "detail": "auto",
}
WORDS = "Invalid image data."


def takes_no_photo(request: ModelRequest) -> Any:
    """Refuse as a provider does what holds the photo, and else answer."""
    if PHOTO["image_url"] in str(request.input):
        message = f"The model provider refused the request. HTTP 400. Its message: {WORDS}"
        raise ModelError(message, code="invalid_request", retryable=False, status=400)
    return say(f"{len(request.input)} items.")


async def test_a_photo_that_the_provider_refuses_is_left_out_and_named_everywhere(desk: Desk):
    agent = Agent[Any](name="Clerk")
    await desk.open(agent, model=ScriptedModel(always=takes_no_photo))
    asked: list[JsonObject] = [
        {"role": "user", "content": [{"type": "input_text", "text": "What is this?"}, PHOTO]}
    ]
    handle = await desk.start(agent, asked, keep_open=True)
    state = await desk.until_status(handle, "idle")
    assert state.answers[-1].failure is None
    [one] = state.aside
    assert (one.item, one.part, one.reason) == (0, 1, WORDS)
    assert state.items[0].raw["content"][1] == PHOTO, "people still see it"
    answer = await (await handle.send("And now?")).answer()
    assert answer.final_output == "3 items."
    shown = await desk.workflow(handle).query("state")
    assert [(row["item"], row["reason"]) for row in shown["set_aside"]] == [(0, WORDS)]
    rows = (await audit_run(desk.client, handle.id)).records
    assert [row.event for row in rows if row.event == "set_aside"] == ["set_aside"]
    await handle.take_back(0, part=1, by="ann")
    assert (await (await handle.send("Once more?")).answer()).final_output == "5 items."
    [again] = (loop_state(await handle.state())).aside
    assert again.at_ms > one.at_ms, "it was refused once more"
    await handle.cancel("after_turn")
    timeline = Timeline()
    for progress in await desk.progress(handle):
        timeline.take(progress.event, progress.state)
    told = [step.text for step in timeline.steps if step.kind == "set_aside"]
    refused = f"is not read by the model any more: the model provider refused it: {WORDS}"
    assert told == [
        f"Item 0, part 1, {refused}",
        "Item 0, part 1, is read by the model again.",
        f"Item 0, part 1, {refused}",
    ]


# --- Those who may not, and what nobody may ----------------------------------------------------------


async def test_only_whoever_may_take_over_sets_aside_by_the_api_and_the_page(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OUTLAST_IDENTITY_KEY", new_shared_key())
    agent = Agent[Any](name="Clerk")
    await desk.open(agent, model=ScriptedModel(always="Hello."))
    config = RunConfig(takeover=ApprovalPolicy(audience="billing"))
    handle = await desk.start(agent, keep_open=True, run_config=config)
    await desk.until_status(handle, "idle")
    other = await desk.start(agent, keep_open=True)
    body = {"item": 0, "reason": "SECRET"}
    form = {"item": "0"}
    apps: dict[str, tuple[Any, dict[str, str], int]] = {
        "a viewer": (app_of(desk, roles=RoleRules(anybody=["viewer", "decider"])), {}, 403),
        "a customer": (app_of(desk), bearer(TOKENS.mint(handle.id)), 403),
        "another customer": (app_of(desk), bearer(TOKENS.mint(other.id)), 403),
        "a program": (app_of(desk), PROGRAM, 403),
        "another tenant's": (app_of(desk, name="bob", groups=["acme"]), {}, 409),
        "a page of others": (app_of(desk), {"Origin": "http://evil.example"}, 403),
    }
    for who, (app, headers, status) in apps.items():
        async with opened(app) as http:
            for name in ("set-aside", "take-back"):
                sent = body if name == "set-aside" else {"item": 0}
                answer = await http.post(of_run(handle.id, name), json=sent, headers=headers)
                assert answer.status_code == status, (who, answer.text)
                path = f"/conversations/{handle.id}/{name}"
                page = await http.post(path, data=form, headers=headers)
                assert page.status_code in {400, 401, 403}, who
    assert (loop_state(await handle.state())).aside == ()
    async with opened(app_of(desk)) as http:
        assert (await http.post(of_run(handle.id, "set-aside"), json=body)).status_code == 200
        state = await handle.state()
        assert [(one.by, one.reason) for one in loop_state(state).aside] == [("ann", "SECRET")]
        seen = await http.get(of_run(handle.id), headers=bearer(TOKENS.mint(handle.id)))
        assert seen.json()["messages"][0]["left_out"] is True
        assert "SECRET" not in seen.text
        assert (loop_state(await other.state())).aside == ()


@pytest.mark.parametrize("name", ["set-aside", "take-back"])
async def test_what_no_item_is_or_nobody_may_leave_out_is_refused(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, name: str
):
    monkeypatch.setenv("OUTLAST_IDENTITY_KEY", new_shared_key())
    agent = Agent[Any](name="Clerk")
    await desk.open(agent, model=ScriptedModel(always="Hello."))
    handle = await desk.start(agent, keep_open=True)
    await desk.until_status(handle, "idle")
    async with opened(app_of(desk)) as http:
        await http.post(of_run(handle.id, "hold"))
        await http.post(of_run(handle.id, "release"), json={"note": "Be brief."})
        state = await desk.until_status(handle, "idle")
        note = next(at for at, item in enumerate(state.items) if item.kind == "note")
        wrong: list[tuple[Any, int]] = [
            ({"item": -1}, 400),
            ({"item": "0"}, 400),
            ({"item": 0, "part": -1}, 400),
            ({"item": 1.5}, 400),
            ({"item": None}, 400),
            ({}, 400),
            ([0], 400),
            ({"item": len(state.items)}, 409),
            ({"item": 10**40}, 409),
            ({"item": 0, "part": 0}, 409),
            ({"item": 1, "part": 1}, 409),
            *([({"item": note}, 409)] if name == "set-aside" else []),
        ]
        for body, status in wrong:
            answer = await http.post(of_run(handle.id, name), json=body)
            assert answer.status_code == status, (body, answer.text)
        assert (await http.post(of_run("never-was", name), json={"item": 0})).status_code == 404
        assert (loop_state(await handle.state())).aside == ()
        await handle.cancel("after_turn")
        await desk.result(handle)
        ended = await http.post(of_run(handle.id, name), json={"item": 0})
        assert (ended.status_code, "has ended" in ended.text) == (409, True)


async def test_a_repeated_request_has_the_same_receipt(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OUTLAST_IDENTITY_KEY", new_shared_key())
    agent = Agent[Any](name="Clerk")
    await desk.open(agent, model=ScriptedModel(always="Hello."))
    handle = await desk.start(agent, keep_open=True)
    await desk.until_status(handle, "idle")
    async with (
        opened(app_of(desk)) as http,
        opened(app_of(desk, name="bob")) as colleague,
    ):
        for name, body in (
            ("set-aside", {"item": 0, "reason": "Why."}),
            ("take-back", {"item": 0}),
        ):
            path = of_run(handle.id, name)
            sent = [http.post(path, json=body) for _ in range(3)]
            receipts = [one.json() for one in await asyncio.gather(*sent)]
            is_aside = name == "set-aside"
            assert (
                receipts
                == [
                    {
                        "id": handle.id,
                        "item": 0,
                        "set_aside": is_aside,
                        "parts": [None] if is_aside else [],
                    }
                ]
                * 3
            )
            if is_aside:
                [one] = (loop_state(await handle.state())).aside
                other = await colleague.post(path, json=body)
                assert (other.status_code, "set aside already" in other.text) == (409, True)
                assert (loop_state(await handle.state())).aside == (one,)
    rows = (await audit_run(desk.client, handle.id)).records
    assert [(row.event, row.by) for row in rows if row.event == "set_aside"] == [
        ("set_aside", "ann"),
        ("set_aside", "ann"),
    ]


async def test_of_a_pair_the_other_half_stays_and_says_what_is_left_out(desk: Desk):
    requests: list[ModelRequest] = []

    def answer(request: ModelRequest) -> Any:
        requests.append(request)
        return [call("look_up", "c1", order="A-17")] if len(requests) == 1 else say("It is there.")

    @function_tool
    def look_up(order: str) -> str:
        """Look an order up."""
        return f"{order} is at SECRET."

    agent = Agent[Any](name="Clerk", tools=[look_up])
    await desk.open(agent, model=ScriptedModel(always=answer))
    handle = await desk.start(agent, keep_open=True)
    await desk.until_status(handle, "idle")
    for item, gone in ((2, "SECRET"), (1, "A-17")):
        receipt = await handle.set_aside(item, by="ann")
        assert receipt == AsideReceipt(run_id=handle.id, item=item, parts=(None,))
        await (await handle.send("And now?")).answer()
        read = requests[-1].input
        assert gone not in str(read)
        pair = [one for one in read if str(one.get("type")).startswith("function_call")]
        assert [one["call_id"] for one in pair] == ["c1", "c1"]


async def test_what_is_sent_while_no_worker_runs_counts_when_one_starts(desk: Desk):
    agent = Agent[Any](name="Clerk")
    worker = await desk.open(agent, model=ScriptedModel(always=lambda _: say("Hello.")))
    config = RunConfig(takeover=ApprovalPolicy(unverified="allow"))
    handle = await desk.start(agent, keep_open=True, run_config=config)
    await desk.until_status(handle, "idle")
    await desk.close(worker)
    signal = desk.workflow(handle).signal
    for payload in (
        {"item": 0, "by": "ann", "reason": "Why."},
        {"item": 0, "by": "ann", "reason": "Why."},
        {"item": -1, "by": "ann"},
        {"item": 99, "by": "ann"},
        {"item": 0, "by": "eve"},
        {"item": "0; DROP"},
    ):
        await signal("set_aside", payload)
    await desk.open(
        agent, model=ScriptedModel(always=lambda request: say(f"{len(request.input)}."))
    )
    state = await desk.until(handle, lambda it: len(it.ignored) == 4)
    assert [(one.item, one.by, one.reason) for one in state.aside] == [(0, "ann", "Why.")]
