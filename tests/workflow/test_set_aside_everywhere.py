"""What is set aside is named by every surface that shows the run, whoever set it aside."""

import asyncio
import functools
import json
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.sdk.v1 import WorkflowMetadata
from typer.testing import CliRunner

from outlast.agents.agent import Agent
from outlast.archive import Archive
from outlast.cli.app import app
from outlast.client.audit import audit_run
from outlast.client.forks import fork_run
from outlast.client.handle import RunHandle
from outlast.client.identity import person
from outlast.client.recordings import record_run
from outlast.client.timeline import Timeline
from outlast.contract.identity import new_shared_key
from outlast.loop.values import JsonObject
from outlast.ports.model import ModelError, ModelRequest
from outlast.testing import ScriptedModel, say
from outlast.views.run import loop_state
from tests.pictures import PNG, url_of
from tests.workflow.desk import PATIENCE_SECONDS, Desk
from tests.workflow.test_archive import SOON, ended, taken_by_retention, until
from tests.workflow.test_desk_api import Reader, app_of, of_run, opened

REFUSED = "Invalid image data of the provider."
ASKED_FOR = "The customer asked us to."
PHOTO = url_of("image/png", PNG)
ASKED: list[JsonObject] = [
    {
        "role": "user",
        "content": [
            {"type": "input_text", "text": "What is this?"},
            {"type": "input_image", "image_url": PHOTO, "detail": "auto"},
        ],
    }
]


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The desk proves who acts."""
    monkeypatch.setenv("OUTLAST_IDENTITY_KEY", new_shared_key())


def takes_no_photo(request: ModelRequest) -> Any:
    if PHOTO[40:] in str(request.input):
        message = f"The model provider refused the request. HTTP 400. Its message: {REFUSED}"
        raise ModelError(message, code="invalid_request", retryable=False, status=400)
    return say(f"{len(request.input)} items.")


async def with_both(desk: Desk, agent: Agent[Any], **options: Any) -> RunHandle:
    """Start a conversation in which the provider refused a photo, and a person set an answer aside."""
    await desk.open(agent, model=ScriptedModel(always=takes_no_photo), **options)
    handle = await desk.start(agent, ASKED, keep_open=True)
    await desk.until_status(handle, "idle")
    await handle.set_aside(1, by=person("ann", groups=["billing"]), reason=ASKED_FOR)
    return handle


# --- The surfaces: each returns all that it shows ---------------------------------------------------


async def _typed(desk: Desk, *arguments: str) -> str:
    config = desk.client.service_client.config
    environment = {"OUTLAST_ADDRESS": "", "TEMPORAL_ADDRESS": config.target_host, "COLUMNS": "200"}
    arguments = (*arguments, "--namespace", desk.client.namespace)
    command = functools.partial(CliRunner().invoke, app, arguments, env=environment)
    done = await asyncio.to_thread(command)
    assert done.exit_code == 0, done.output
    return done.stdout


def typed(*arguments: str) -> Callable[[Desk, RunHandle], Awaitable[str]]:
    async def surface(desk: Desk, handle: RunHandle) -> str:
        return await _typed(desk, *(one.replace("ID", handle.id) for one in arguments))

    return surface


def got(*parts: str, page: bool = False) -> Callable[[Desk, RunHandle], Awaitable[str]]:
    async def surface(desk: Desk, handle: RunHandle) -> str:
        async with opened(app_of(desk)) as http:
            path = of_run(handle.id, *parts)
            answer = await http.get(path.removeprefix("/api") if page else path)
            assert answer.status_code == 200
            return answer.text

    return surface


async def live(desk: Desk, handle: RunHandle) -> str:
    """Return what the live stream of the API says; it has an event of its own for this."""
    app_ = app_of(desk)
    async with opened(app_):
        reader = Reader(app_, of_run(handle.id, "events"), {})
        await reader.until(lambda it: bool(it.events))
        ann = person("ann", groups=["billing"])
        await handle.take_back(1, by=ann)
        await handle.set_aside(1, by=ann, reason=ASKED_FOR)
        await reader.until(
            lambda it: it.events[-1][0] == "set_aside" and len(it.events[-1][1]["items"]) == 2
        )
        await reader.close()
        return json.dumps(reader.events[-1])


async def query(desk: Desk, handle: RunHandle) -> str:
    return json.dumps(await desk.workflow(handle).query("state"))


async def in_temporal(desk: Desk, handle: RunHandle) -> str:
    found = await desk.workflow(handle).query(
        "__temporal_workflow_metadata", result_type=WorkflowMetadata
    )
    return found.current_details


async def snapshot(desk: Desk, handle: RunHandle) -> str:
    del desk
    return str((loop_state(await handle.state())).aside)


async def result(desk: Desk, handle: RunHandle) -> str:
    del desk
    newest = await (await handle.send("And now?")).answer()
    return str(loop_state(newest.snapshot).aside)


async def timeline(desk: Desk, handle: RunHandle) -> str:
    del desk
    shown = Timeline()
    async with aclosing(handle.past()) as past:
        async for progress in past:
            shown.take_state(progress)
    return str([step.text for step in shown.steps if step.kind == "set_aside"])


async def audit(desk: Desk, handle: RunHandle) -> str:
    return str((await audit_run(desk.client, handle.id)).records)


async def recording(desk: Desk, handle: RunHandle) -> str:
    return (await record_run(desk.client, handle.id)).to_json()


SURFACES: dict[str, Callable[[Desk, RunHandle], Awaitable[str]]] = {
    "outlast show": typed("show", "ID"),
    "outlast show --json": typed("show", "ID", "--json"),
    "outlast tail": typed("tail", "ID"),
    "outlast tail --json": typed("tail", "ID", "--json"),
    "outlast audit": typed("audit", "ID"),
    "outlast audit --json": typed("audit", "ID", "--json"),
    "outlast export": typed("export", "ID"),
    "outlast record": typed("record", "ID"),
    "the query `state`": query,
    "the details in Temporal's UI": in_temporal,
    "handle.state()": snapshot,
    "result.snapshot": result,
    "the timeline": timeline,
    "the audit": audit,
    "a recording": recording,
    "the desk's page": got(page=True),
    "the desk's API": got(),
    "the desk's live stream": live,
}
"""Every surface that shows a run; `outlast list`, the inbox and notices of requests name no items."""

OF_ENDED = ("outlast tail", "outlast tail --json")
"""They follow a run until it ends."""


async def test_every_surface_names_what_the_provider_and_a_person_set_aside(desk: Desk):
    handle = await with_both(desk, Agent[Any](name="Clerk"))
    async with asyncio.timeout(PATIENCE_SECONDS):
        shown = {
            name: await read(desk, handle)
            for name, read in SURFACES.items()
            if name not in OF_ENDED
        }
        await handle.cancel("after_turn")
        shown |= {name: await SURFACES[name](desk, handle) for name in OF_ENDED}
    lacks = {
        name: [one for one in (REFUSED, ASKED_FOR) if one not in " ".join(text.split())]
        for name, text in shown.items()
    }
    assert {name: what for name, what in lacks.items() if what} == {}
    assert shown.keys() == SURFACES.keys()


async def test_a_fork_and_the_archive_name_it_too(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OUTLAST_ARCHIVE", str(tmp_path))
    archive = Archive(tmp_path, every=SOON)
    handle = await with_both(desk, Agent[Any](name="Clerk"), archive=archive)
    copy = await fork_run(desk.client, handle.id, name="copy", task_queue=desk.queue)
    desk.ids.append(copy.id)
    assert [one.reason for one in (loop_state(await copy.state())).aside] == [REFUSED, ASKED_FOR]
    answer = await (await copy.send("And now?")).answer()
    assert answer.final_output == "3 items.", "the fork's model reads neither of them"
    for run in (copy, handle):
        await run.cancel("after_turn")
        await desk.result(run)
    await until(lambda: ended(archive, handle))
    entries = await archive.histories_of(desk.client.namespace, handle.id)
    await taken_by_retention(desk.client, entries)
    desk.ids.remove(handle.id)
    for read in (snapshot, timeline, audit, recording, typed("show", "ID", "--json")):
        shown = await read(desk, handle)
        assert REFUSED in shown
        assert ASKED_FOR in shown
