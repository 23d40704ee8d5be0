"""The program of the guide to FastAPI, served by Uvicorn and used over HTTP."""

import asyncio
import hmac
import json
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx2
import pytest
import uvicorn

from outlast.client import RunHandle, identity
from outlast.contract.identity import new_shared_key
from outlast.models.openai.provider import OpenAIProvider
from outlast.testing import ScriptedModel, call
from tests.servers import TemporalServer

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "fastapi.md"
SECRET = "the courier's"


@pytest.fixture
def program(server: TemporalServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """Import the program of the page, and add two customers and two people of the team."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", server.address)
    monkeypatch.setenv("TEMPORAL_NAMESPACE", server.namespace)
    monkeypatch.setenv("OUTLAST_IDENTITY_KEY", new_shared_key())
    monkeypatch.setenv("COURIER_SECRET", SECRET)
    [code] = re.findall(
        r'^```py title="app.py"\n(.*?)^```$', PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    module = ModuleType("fastapi_guide")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(code, str(tmp_path / "app.py"), "exec"), module.__dict__)
    module.__dict__["QUEUE"] = f"shop-{tmp_path.name}"
    for name, groups in {
        "mara": [],
        "eve": [],
        "lee": ["staff"],
        "ann": ["staff", "billing"],
    }.items():
        module.people[name] = identity.person(name, groups=groups, method="session")
    return module


def scripted(monkeypatch: pytest.MonkeyPatch, *replies: Any) -> ScriptedModel:
    model = ScriptedModel(*replies)
    monkeypatch.setattr(OpenAIProvider, "get_model", staticmethod(model.get_model))
    return model


@asynccontextmanager
async def serving(program: ModuleType) -> AsyncGenerator[str]:
    """Serve the program at a port of its own."""
    uvicorn_server = uvicorn.Server(uvicorn.Config(program.app, port=0, log_level="warning"))
    task = asyncio.create_task(uvicorn_server.serve())
    while not uvicorn_server.started:
        assert not task.done(), task.result()
        await asyncio.sleep(0.01)
    port = uvicorn_server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        uvicorn_server.should_exit = True
        await task


def browser(url: str, name: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=url, cookies={"session": name}, timeout=60)


async def read(
    http: httpx2.AsyncClient, case: str, until: tuple[str, str], last: int = -1
) -> list[tuple[int | None, str, str]]:
    """Return the events of a case up to one."""
    found: list[tuple[int | None, str, str]] = []
    headers = {"Last-Event-ID": str(last)}
    async with http.stream("GET", f"/cases/{case}/events", headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        number, kind = None, ""
        async for line in answer.aiter_lines():
            name, _, value = line.partition(": ")
            match name:
                case "id":
                    number = int(value)
                case "event":
                    kind = value
                case "data":
                    found.append((number, kind, json.loads(value)))
                    if found[-1][1:] == until:
                        break
                    number = None
                case _:
                    pass
    return found


async def test_a_case_is_answered_decided_and_read_again_after_a_restart(
    program: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    refunds = [call("refund", "c1", order="A-1", amount=20)]
    scripted(monkeypatch, "Hello, Mara.", refunds, "Done.")
    async with serving(program) as url, browser(url, "mara") as mara, browser(url, "eve") as eve:
        async with browser(url, "nobody") as nobody:
            assert (await nobody.post("/cases", json={"text": "Hi"})).status_code == 401
        case = (await mara.post("/cases", json={"text": "Hi"})).json()["id"]
        heard = await read(mara, case, ("answer", "Hello, Mara."))
        assert "".join(text for _, kind, text in heard if kind == "text") == "Hello, Mara."
        message = {"text": "20 EUR back for A-1, please.", "message_id": "m1"}
        for _ in range(2):
            sent = await mara.post(f"/cases/{case}/messages", json=message)
            assert (sent.status_code, sent.json()) == (202, {"message_id": "m1"})
        waiting = await read(mara, case, ("request", "pending"))
        for method, path in (
            ("GET", "/events"), ("POST", "/messages"), ("GET", "/requests"), ("POST", "/requests/a1"),
        ):  # fmt: skip
            body = {"text": "Hi", "approve": True, "digest": "x"}
            attempt = await eve.request(method, f"/cases/{case}{path}", json=body)
            assert attempt.status_code in {403, 404}, path
    async with serving(program) as url, browser(url, "lee") as lee, browser(url, "ann") as ann:
        [request] = (await ann.get(f"/cases/{case}/requests")).json()
        assert (request["tool"], json.loads(request["arguments"])["amount"]) == ("refund", 20)
        verdict = {"approve": True, "digest": request["digest"]}
        decide = f"/cases/{case}/requests/{request['id']}"
        async with browser(url, "mara") as mara:
            assert (await mara.post(decide, json=verdict)).status_code == 403
            refused = await lee.post(decide, json=verdict)
            assert (refused.status_code, refused.json()["code"]) == (409, "decision_refused")
            other = await ann.post(decide, json={**verdict, "digest": "0" * 64})
            assert other.status_code == 409
            assert (await ann.post(decide, json=verdict)).json() == {"status": "approved"}
            again = await read(mara, case, ("answer", "Done."), last=waiting[-1][0] or 0)
            assert ("answer", "Hello, Mara.") not in [event[1:] for event in again]
        handle = RunHandle(program.app.state.client, case)
        [settled] = (await handle.state()).approvals
        [vote] = settled.votes
        assert (vote.decision.by, vote.verified) == ("ann", True)
        users = [one for one in (await handle.state()).items if one.raw.get("role") == "user"]
        assert len(users) == 2, "a repeated message is one"
        await handle.cancel("after_turn")
        await handle.result()
        end = await read(ann, case, ("ended", ""))
        assert [one[1:] for one in end].count(("answer", "Done.")) == 1
        closed = await ann.post(f"/cases/{case}/messages", json={"text": "Hi"})
        assert (closed.status_code, closed.json()["code"]) == (409, "run_closed")
        absent = await ann.get("/cases/case-absent/requests")
        assert (absent.status_code, absent.json()["code"]) == (404, "run_not_found")


async def test_a_webhook_counts_once_and_only_with_its_signature(
    program: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, [call("send_parcel", "c1", order="A-1")], "It is on its way.")
    async with serving(program) as url, browser(url, "mara") as mara:
        case = (await mara.post("/cases", json={"text": "Send it."})).json()["id"]
        handle = RunHandle(program.app.state.client, case)
        await handle.wait(lambda state: state.status == "parked")
        [wait] = await handle.pending_waits()

        async def deliver(event_id: str, parcel: str, secret: str = SECRET) -> int:
            body = json.dumps({"id": event_id, "token": wait.token, "parcel": parcel}).encode()
            signature = hmac.new(secret.encode(), body, "sha256").hexdigest()
            headers = {"X-Signature": signature}
            return (await mara.post("/courier", content=body, headers=headers)).status_code

        assert await deliver("e1", "P-1", secret="somebody's") == 403
        assert [await deliver("e1", "P-1"), await deliver("e1", "P-1")] == [200, 200]
        assert await deliver("e2", "P-2") == 409
        await read(mara, case, ("answer", "It is on its way."))
        state = await handle.state()
        assert "Parcel P-1 is on its way." in [one.raw.get("output") for one in state.items]
        await handle.cancel("after_turn")
        await handle.result()
