"""What people do on the page of a conversation, on a server: over HTTP, as a browser does it."""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from html import unescape
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from starlette.applications import Starlette

from outlast.agents.agent import Agent
from outlast.agents.approvals.policy import ApprovalPolicy
from outlast.agents.config.run_config import RunConfig
from outlast.agents.tools.function_tool import function_tool
from outlast.client.handle import RunHandle
from outlast.loop.approvals import Person
from outlast.serve.app import desk as desk_application
from outlast.serve.login import ThisMachine
from outlast.testing import ScriptedModel, call
from tests.workflow.desk import PATIENCE_SECONDS, Desk
from tests.workflow.people import ANN, BOB
from tests.workflow.test_retries import NO_KEY

ANYBODY = RunConfig(takeover=ApprovalPolicy(unverified="allow"))
ORIGIN = "http://localhost:8090"


class Page:
    """The page of a conversation, before one person."""

    def __init__(self, http: httpx2.AsyncClient, handle: RunHandle) -> None:
        self._http = http
        self.path = f"/conversations/{quote(handle.id, safe='')}"

    async def words(self) -> str:
        """Return what the page says."""
        answer = await self._http.get(self.path)
        assert answer.status_code == 200, answer.text
        return " ".join(unescape(re.sub("<[^>]*>", " ", answer.text)).split())

    async def until(self, *expected: str) -> str:
        """Wait until the page says something, and return all that it says then."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                words = await self.words()
                if all(one in words for one in expected):
                    return words
                await asyncio.sleep(0.02)

    async def act(self, deed: str, **form: Any) -> tuple[int, str]:
        """Press a button, and return the status with the sentence beside it."""
        form_type = "application/x-www-form-urlencoded"
        headers = {"Origin": ORIGIN, "HX-Request": "true", "Content-Type": form_type}
        answer = await self._http.post(f"{self.path}/{deed}", data=form, headers=headers)
        return answer.status_code, unescape(re.sub("<[^>]*>", " ", answer.text)).strip()

    async def address_in_temporal(self, title: str) -> str:
        """Return where the link of a step leads."""
        page = (await self._http.get(self.path)).text
        [step] = [one for one in page.split("<li ") if f'step-title">{title}<' in one]
        [link] = re.findall('href="([^"]*/temporal)"', step)
        return (await self._http.get(link)).headers["Location"]


@asynccontextmanager
async def page_of(
    desk: Desk, handle: RunHandle, who: Person, **options: Any
) -> AsyncGenerator[Page]:
    """Open the page of a conversation in a process of its own."""
    app: Starlette = desk_application(desk.client, login=ThisMachine(who), **options)
    transport = httpx2.ASGITransport(app, client=("127.0.0.1", 5000))
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url=ORIGIN) as http,
    ):
        yield Page(http, handle)


@pytest.mark.smoke
async def test_a_person_takes_over_writes_and_gives_back_to_another_agent(desk: Desk) -> None:
    billing = Agent[Any](name="Billing", instructions="Bill.")
    helper = Agent[Any](name="Helper", handoffs=[billing])
    await desk.open(helper, model=ScriptedModel("Hello.", "I am Billing."))
    handle = await desk.start(helper, keep_open=True, run_config=ANYBODY)
    await desk.until_status(handle, "idle")
    async with page_of(desk, handle, ANN) as page:
        assert (await page.act("say", text="Too early."))[0] == 400
        assert await page.act("hold") == (200, "")
        await page.until("you have it")
        message = await handle.send("Is somebody there?")
        await page.until("Is somebody there?", "The customer waits for you.")
        for _ in range(2):  # the second one is the same message
            form = {"text": "Ann here.\r\nHow can I help?", "message_id": "desk-0123456789abcdef"}
            assert (await page.act("say", **form))[0] == 200
        assert (await message.outcome()).status == "answered"
        await handle.send("A refund, please.")
        assert await page.act("release", to="Billing", note="A refund is fine.") == (200, "")
        words = await page.until("I am Billing.")
    assert (await handle.state()).agent == "Billing"
    assert words.count("Ann here. How can I help?") == 2, "in the conversation, and as a step"
    shown = re.sub(r" \d\d:\d\d:\d\d UTC", "", words)
    assert "ann gives the conversation back to Billing proven A refund is fine." in shown


async def test_two_people_who_take_over_at_once_do_not_both_have_it(desk: Desk) -> None:
    helper = Agent[Any](name="Helper")
    await desk.open(helper, model=ScriptedModel("Hello."))
    handle = await desk.start(helper, keep_open=True, run_config=ANYBODY)
    await desk.until_status(handle, "idle")
    async with page_of(desk, handle, ANN) as anns, page_of(desk, handle, BOB) as bobs:
        found = await asyncio.gather(anns.act("hold"), bobs.act("hold"))
        assert sorted(status for status, _ in found) == [200, 400]
        holder = "ann" if found[0][0] == 200 else "bob"
        [sentence] = [said for status, said in found if status != 200]
        assert f"{holder} has the conversation" in sentence
        mine, theirs = (anns, bobs) if holder == "ann" else (bobs, anns)
        await mine.until("you have it")
        await theirs.until(f"{holder} has it", f"Take it from {holder}")
        assert (await theirs.act("say", text="Me, too."))[0] == 400
        assert (await theirs.act("hold", force="yes"))[0] == 200
        assert (await mine.act("say", text="Still me?"))[0] == 400
        await theirs.until("you have it")


async def test_a_failed_question_is_retried(desk: Desk) -> None:
    helper = Agent[Any](name="Helper")
    await desk.open(helper, model=ScriptedModel(NO_KEY, "Now it works."))
    handle = await desk.start(helper, keep_open=True)
    await desk.until(handle, lambda state: state.failure is not None)
    async with page_of(desk, handle, ANN) as page:
        await page.until("The question has no answer", "There is no key")
        assert (await page.act("retry"))[0] == 200
        await desk.until(handle, lambda state: state.failure is None and state.status == "idle")
        await page.until("The question is asked again", "Now it works.")
        assert await page.act("retry") == (
            400,
            "The last question has an answer, so there is nothing to retry.",
        )


async def test_steps_lead_to_their_events(desk: Desk) -> None:
    @function_tool
    def look_up(order: str) -> str:
        return f"{order} is on its way"

    helper = Agent[Any](name="Helper", tools=[look_up])
    model = ScriptedModel([call("look_up", "c1", order="A")], "On its way.")
    await desk.open(helper, model=model)
    handle = await desk.start(helper)
    await handle.result()
    async with page_of(desk, handle, ANN, temporal_ui="http://ui.example") as page:
        address = await page.address_in_temporal("look_up")
    execution = (await desk.workflow(handle).describe()).run_id
    found = re.fullmatch(
        rf"http://ui\.example/namespaces/default/workflows/{re.escape(quote(handle.id, safe=''))}"
        rf"/{execution}/history/events/(\d+)",
        address,
    )
    assert found is not None, address
    events = (await desk.workflow(handle).fetch_history()).events
    scheduled = events[int(found[1]) - 1].activity_task_scheduled_event_attributes
    assert scheduled.activity_type.name == "tool:look_up"
