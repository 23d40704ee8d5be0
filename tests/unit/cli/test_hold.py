"""A person takes a conversation over from the command line."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable

import pytest
from temporalio.client import Client
from typer.testing import Result

from outlast.agents.errors import UserError
from outlast.client.handle import RunHandle
from outlast.client.identity import os_user
from outlast.client.start.runner import Runner
from outlast.testing import ScriptedModel
from outlast.views.run import loop_state
from tests.hostile_text import assert_visible
from tests.unit.cli.conftest import Invoke, Open

COLOURS = re.compile(r"\x1b\[(?:[0-9;]*m|\?25[lh]|1A|2K)|\r")
"""And the way in which a text grows in place."""


def plain(done: Result) -> str:
    return COLOURS.sub("", done.stdout)


async def conversation(client: Client, open_desk: Open, run_id: str) -> RunHandle:
    """Start a conversation that waits for its next message."""
    queue = await open_desk(ScriptedModel("Hello.", "Goodbye."))
    handle = await Runner.start(
        "Helper", "Hello", id=run_id, keep_open=True, client=client, task_queue=queue
    )
    await handle.wait_for_answer("start")
    return handle


async def test_a_person_takes_over_answers_and_gives_the_conversation_back(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    handle = await conversation(client, open_desk, run_id)
    me = os_user().subject

    held = await cli("hold", run_id, "--json")

    assert json.loads(held.stdout) == {
        "run_id": run_id,
        "status": "held",
        "held_by": me,
        "agent": "Helper",
    }
    message = await handle.send("Is anybody there?")
    said = await cli("say", run_id, "I am.")
    assert said.stdout == f"Said. {me} has the conversation.\n"
    assert said.stderr == f"See the run: `outlast show {run_id}`.\n"
    assert (await message.answer()).final_output == "I am."

    released = await cli("release", run_id, "--note", "All is well.")

    assert released.stdout == "The agent Helper has the conversation again.\n"
    state = await handle.state()
    assert state.status == "idle"
    assert "All is well." in str(state.items[-1].raw)
    await handle.cancel()


async def test_nobody_speaks_in_a_conversation_that_nobody_holds(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    handle = await conversation(client, open_desk, run_id)

    refused = await cli("say", run_id, "Hello?")

    assert refused.exit_code == 5
    assert "Nobody has the conversation. Hold it first." in refused.stderr
    await handle.cancel()


async def test_what_is_wrong_in_the_command_is_no_refusal(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    handle = await conversation(client, open_desk, run_id)

    empty = await cli("say", run_id, " ")

    assert empty.exit_code == 2
    assert "must be a text that says something" in empty.stderr
    assert (await cli("hold", "never-was")).exit_code == 4
    await handle.cancel()


async def test_a_conversation_is_held_when_its_turn_is_over(
    cli: Invoke,
    client: Client,
    open_slow: Callable[[asyncio.Event], Awaitable[str]],
    run_id: str,
) -> None:
    gate = asyncio.Event()
    queue = await open_slow(gate)
    handle = await Runner.start(
        "Slow", "Hello", id=run_id, keep_open=True, client=client, task_queue=queue
    )
    await handle.wait(
        lambda state: any(one.kind == "run_tool" for one in loop_state(state).pending)
    )

    held = await cli("hold", run_id)

    me = os_user().subject
    assert held.stdout == (f"{me} has the conversation. The agent Slow waits; tools finish.\n")
    gate.set()
    await handle.wait(lambda state: loop_state(state).phase == "held")
    taken = await cli("hold", run_id, "--by", "eve")  # a name without proof
    assert taken.exit_code == 5
    assert "needs proof of who decides" in taken.stderr
    with pytest.raises(UserError, match=f"{me} has the conversation. Only who has it"):
        await handle.hold(by="eve")
    await handle.cancel()


async def test_a_conversation_is_handed_to_a_colleague_and_taken_from_them(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    handle = await conversation(client, open_desk, run_id)
    me = os_user().subject

    async def holder() -> str | None:
        hold = (await handle.state()).hold
        return None if hold is None else hold.by

    early = await cli("hold", run_id, "--to", "bob")
    assert (early.exit_code, await holder()) == (5, None)
    assert "Nobody has the conversation" in early.stderr

    await cli("hold", run_id)
    handed = await cli("hold", run_id, "--to", "bob")
    assert (handed.exit_code, handed.stdout) == (0, "bob has the conversation now.\n")
    assert await holder() == "bob"

    for late in (("hold", run_id), ("hold", run_id, "--to", "eve"), ("release", run_id)):
        refused = await cli(*late)
        assert refused.exit_code == 5
        assert "bob has the conversation. Only who has it speaks in it" in refused.stderr
    vague = await cli("hold", run_id, "--to", "eve", "--force")
    assert vague.exit_code == 2
    assert "leave out --force and --after-turn" in vague.stderr
    assert await holder() == "bob"

    taken = await cli("hold", run_id, "--force", "--json")
    record = json.loads(taken.stdout)
    assert (record["status"], record["held_by"]) == ("held", me)
    assert await holder() == me
    await handle.cancel()


@pytest.mark.smoke
@pytest.mark.parametrize("where", ["pipe", "terminal"])
async def test_the_team_sees_a_takeover_in_the_tail_the_list_and_the_report(
    cli: Invoke,
    client: Client,
    open_desk: Open,
    run_id: str,
    where: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if where == "terminal":
        monkeypatch.setenv("FORCE_COLOR", "1")
    handle = await conversation(client, open_desk, run_id)
    me = os_user().subject
    await cli("hold", run_id)
    await handle.send("Is anybody there?")
    await cli("say", run_id, "I am.\x1b[2K\nerror: all is well")
    shown = await cli("show", run_id)

    async def listed() -> list[dict[str, str]]:
        rows = json.loads((await cli("list", "--status", "held", "--json")).stdout)
        return [row for row in rows if row["run_id"] == run_id]

    async with asyncio.timeout(30):  # visibility is a moment behind
        while not (rows := await listed()):  # noqa: ASYNC110  nothing announces it
            await asyncio.sleep(0.1)
    await cli("release", run_id, "--note", "All is \u202ewell.")
    await handle.cancel()
    await handle.wait(lambda state: loop_state(state).phase == "closed")
    numbers = [event.id async for event in handle.stream_events() if event.id is not None]

    tailed = await cli("tail", run_id)
    records = [
        json.loads(line) for line in (await cli("tail", run_id, "--json")).stdout.splitlines()
    ]

    assert (rows[0]["status"], rows[0]["waits_for"]) == ("held", f"person: {me}")
    status, *_ = [line for line in plain(shown).splitlines() if "  status " in line]
    assert status.strip() == "status     held: a person has the conversation"
    assert f"  held by    {me}, since 20" in plain(shown)
    screen = plain(tailed)
    assert_visible(screen, layout="\n")
    assert "\nerror: all is well" not in screen
    lines = [line[9:].rstrip() for line in screen.splitlines()]
    assert f"{me:10} takes the conversation over" in lines
    assert f"{me} (team) I am.\\u001b[2K" in lines
    assert f"{me:10} gives the conversation back to Helper" in lines
    assert any(
        line.startswith("developer") and line.endswith("All is \\u202ewell.") for line in lines
    )
    entries = [one for one in records if one["type"] != "raw_response_event"]
    assert [one["id"] for one in entries if "id" in one] == numbers
    without = {one["type"] for one in entries if "id" not in one}
    assert without == {"held", "released", "note"}
