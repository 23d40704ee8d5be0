"""Ratings on a server: customers by the chat and by the API, programs, and those who attack."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.approvals.policy import ApprovalPolicy
from outlast.agents.errors import RunClosed
from outlast.agents.threads import run_in_thread
from outlast.agents.tools.function_tool import function_tool
from outlast.client.handle import RunHandle
from outlast.client.identity import person
from outlast.client.runs import RunFilter, list_runs
from outlast.edges import clock
from outlast.evals import check_report, collect_bad_ratings, load_dataset, task_of
from outlast.loop.problems import ENDED_UNRATED
from outlast.serve import ratings
from outlast.serve.access import RoleRules
from outlast.testing import ScriptedModel, call, say
from tests.unit.serve.hostile_pages import active_content
from tests.workflow.desk import Desk
from tests.workflow.test_case import CLERK, rests
from tests.workflow.test_chat_page import OpenPage, browser
from tests.workflow.test_desk_api import PROGRAM, TOKENS, app_of, keys, opened
from tests.workflow.test_long_runs import true_in_the_end

__all__ = ["keys"]

HOSTILE = "<script>alert(1)</script> \u202e{{ 7*7 }} <img src=x onerror=alert(1)>"


def customer(run_id: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {TOKENS.mint(run_id)}"}


async def rated(handle: RunHandle) -> tuple[int, str] | None:
    rating = (await handle.state()).case.rating
    return None if rating is None else (rating.score, rating.text)


async def test_customers_and_programs_rate_by_the_api_until_the_conversation_ends(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ratings, "APART_MS", 0)
    handle = await rests(desk)
    path = f"/api/conversations/{handle.id}"
    hers = customer(handle.id)
    async with opened(app_of(desk, CLERK)) as http:
        shown = (await http.get(path, headers=hers)).json()
        assert (shown["can_rate"], shown["rating"]) == (True, None)
        for body in ({"score": 0}, {"score": 6}, {"score": 1, "text": "x" * 2_001}, {}):
            assert (await http.post(f"{path}/rating", headers=hers, json=body)).status_code == 400
        answer = await http.post(
            f"{path}/rating", headers=hers, json={"score": 2, "text": " Slow. "}
        )
        assert (answer.status_code, await rated(handle)) == (204, (2, "Slow."))
        assert (await http.get(path, headers=hers)).json()["rating"]["text"] == "Slow."
        answer = await http.post(f"{path}/rating", headers=PROGRAM, json={"score": 4})
        assert (answer.status_code, await rated(handle)) == (204, (4, ""))

        async def is_listed() -> bool:
            good = (await http.get("/api/conversations?rated=good")).json()["conversations"]
            bad = await list_runs(desk.client, RunFilter(rated="bad"))
            found = {one["id"]: one["rating"] for one in good}
            return found.get(handle.id) == 4 and handle.id not in {one.run_id for one in bad}

        await true_in_the_end(is_listed)
        page = (await http.get("/conversations?rated=good")).text
        assert handle.id in page
        assert "rated 4 of 5" in page

        await handle.cancel(mode="after_turn")
        await desk.result(handle)
        answer = await http.post(f"{path}/rating", headers=hers, json={"score": 4})
        assert (answer.status_code, answer.json()["error"]["message"]) == (409, ENDED_UNRATED)
        answer = await http.post(
            f"/chat/c/{handle.id}/rating", headers=hers | {"X-Chat": "1"}, data={"rated": "good"}
        )
        assert (answer.status_code, answer.json()["error"]["message"]) == (409, ENDED_UNRATED)
        assert (await http.get(path, headers=hers)).json()["can_rate"] is False
    with pytest.raises(RunClosed, match=ENDED_UNRATED):
        await handle.rate(1)


async def test_nobody_rates_the_conversation_of_somebody_else(desk: Desk) -> None:
    handle = await rests(desk)
    other = await desk.start(CLERK, "Mine.", keep_open=True)
    viewer = app_of(desk, CLERK, roles=RoleRules(anybody=["viewer"]))
    async with opened(viewer) as http:
        for run_id in (handle.id, "no-such-run"):
            answer = await http.post(
                f"/api/conversations/{run_id}/rating", headers=customer(other.id), json={"score": 1}
            )
            assert answer.status_code == 401
            answer = await http.post(
                f"/chat/c/{run_id}/rating", headers=customer(other.id), data={"rated": "bad"}
            )
            assert answer.status_code == 401
        answer = await http.post(f"/api/conversations/{handle.id}/rating", json={"score": 1})
        assert answer.status_code == 403  # who only watches
        missing = await http.post(
            "/api/conversations/none/rating", headers=customer("none"), json={"score": 1}
        )
        assert missing.status_code == 404
    assert await rated(handle) is None


async def test_a_flood_of_ratings_is_one_event(desk: Desk) -> None:
    handle = await rests(desk)
    path, hers = f"/api/conversations/{handle.id}/rating", customer(handle.id)
    async with opened(app_of(desk, CLERK)) as http:

        async def send(at: int) -> int:
            body = {"score": 1 + at % 5, "text": f"number {at}"}
            return (await http.post(path, headers=hers, json=body)).status_code

        statuses = await asyncio.gather(*map(send, range(40)))
        assert statuses.count(204) == 1
        assert statuses.count(429) == 39
        kept = await rated(handle)
        assert kept is not None
        for _ in range(5):  # the same again is no event
            body = {"score": kept[0], "text": kept[1]}
            assert (await http.post(path, headers=hers, json=body)).status_code == 204


async def test_the_chat_asks_after_an_answer_and_a_word_can_be_added(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ratings, "APART_MS", 0)
    handle = await rests(desk)
    page = f"/chat/c/{handle.id}"
    async with browser(desk, handle.id) as http:
        text = (await http.get(page)).text
        assert "How is this conversation?" in text
        assert 'name="text" dir="auto" maxlength="2000"' not in text
        assert (await http.post(f"{page}/rating", data={"text": "Why?"})).status_code == 400
        done = await http.post(f"{page}/rating", data={"rated": "bad"})
        assert (done.status_code, done.headers["Location"]) == (303, page)
        word = {"text": HOSTILE}
        assert (await http.post(f"{page}/rating", data=word)).status_code == 303
        assert await rated(handle) == (1, HOSTILE)
        text = (await http.get(page)).text
        assert 'value="bad" aria-pressed="true"' in text
        assert "&lt;script&gt;alert(1)" in text
        assert "<img" not in text
        assert "Thank you. You can change this" in text
        long = await http.post(f"{page}/rating", data={"rated": "bad", "text": "x" * 2_001})
        assert long.status_code == 413
        assert "Write up to 2,000 characters." in long.text
        foreign = await http.post(
            f"{page}/rating", data={"rated": "good"}, headers={"Origin": "https://evil.example"}
        )
        assert foreign.status_code == 403
        seen: list[Any] = []

        class Rated(OpenPage):
            def take(self, kind: str, content: Any) -> None:
                super().take(kind, content)
                seen.append(content.get("rating"))

        changing = asyncio.create_task(http.post(f"{page}/rating", data={"rated": "good"}))
        await Rated().follow(
            http,
            handle.id,
            lambda _: any('value="good" aria-pressed="true"' in (one or "") for one in seen),
        )
        await changing
    async with opened(app_of(desk, CLERK)) as team:
        shown = (await team.get(f"/conversations/{handle.id}")).text
        assert "5 of 5" in shown
        assert not active_content(shown)
        case = (await team.get(f"/api/conversations/{handle.id}")).json()["case"]
        assert case["rating"]["score"] == 5


# --- Bad ratings become a data set -------------------------------------------------------------------

IBAN = "DE02120300000000202051"


async def test_bad_ratings_of_a_tenant_become_cases_without_what_is_redacted(
    desk: Desk, tmp_path: Path
) -> None:
    policy = ApprovalPolicy(audience="billing", redact=["iban"], bulk=True)

    @function_tool(needs_approval=policy)
    def pay(iban: str) -> str:
        """Pay."""
        return f"Paid to {iban}."

    def reply(request: Any) -> Any:
        if "output" in str(request.input[-1]):
            return say(f"I paid to {IBAN}.")
        return [call("pay", "c1", iban=IBAN)]

    agent = Agent[Any](name=f"Payer {desk.queue}", tools=[pay])
    await desk.open(agent, model=ScriptedModel(always=reply))
    handles = {
        tenant: await desk.start(agent, f"Pay {IBAN}", keep_open=True, tenant=tenant)
        for tenant in ("acme", "globex")
    }
    for handle in handles.values():
        await desk.until_status(handle, "waiting")
        (request,) = await handle.approvals()
        await handle.approve(request, by=person("ann", groups=["billing"]))
        await desk.until_status(handle, "idle")
        await handle.rate(1, f"Not to {IBAN}!")

    async def rated_bad() -> set[str]:
        found = await list_runs(desk.client, RunFilter(rated="bad", agent=agent.name))
        return {one.run_id for one in found}

    async def collected_at(name: str, **criteria: Any) -> tuple[str, ...]:
        wanted = RunFilter(agent=agent.name, **criteria)
        return (await collect_bad_ratings(desk.client, tmp_path / name, wanted)).added

    async def are_there() -> bool:
        return await rated_bad() == {one.id for one in handles.values()}

    await true_in_the_end(are_there)
    assert await collected_at("acme.yaml", tenant="acme") == (handles["acme"].id,)
    assert await collected_at("acme.yaml", tenant="acme") == ()
    assert await collected_at("none.yaml", tenant="acm") == ()
    assert len(await collected_at("late.yaml", since=clock.now())) == 2  # they are open
    for name in ("acme.yaml", "acme.jsonl", "late.yaml", "late.jsonl"):
        written = await run_in_thread((tmp_path / name).read_text)
        assert IBAN not in written
        assert "Not to [redacted]!" in written
    await handles["acme"].rate(5)

    async def is_forgiven() -> bool:
        return await rated_bad() == {handles["globex"].id}

    await true_in_the_end(is_forgiven)
    assert await collected_at("later.yaml", tenant="acme") == ()
    report = await load_dataset(tmp_path / "acme.yaml").evaluate(
        task_of(agent, model=ScriptedModel(always=reply)), progress=False
    )
    assert check_report(report).is_good
