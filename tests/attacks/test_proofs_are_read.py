"""What a run says of itself proves nothing: every surface that says "proven" has read the signatures.

Somebody with Temporal starts runs whose state they have written, and has workers of their own.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from html import unescape
from typing import Any, cast

import pytest

from outlast.agents.agent import Agent
from outlast.agents.approvals.policy import ApprovalPolicy
from outlast.client.audit import audit_run
from outlast.client.audit_chain import check_run, proofs_of
from outlast.client.handle import RunHandle
from outlast.client.people.nested_requests import found_requests
from outlast.contract import identity, names, records
from outlast.contract.identity import IdentityKeys, Place, new_shared_key, read_keys
from outlast.edges.clock import now_ms
from outlast.loop.actions import HoldAction, SayAction
from outlast.loop.approvals import Decision
from outlast.loop.human_actions import row_of
from outlast.loop.state import LoopState
from outlast.temporal.proofs import keys as project_keys
from outlast.temporal.proofs import proof_reader
from outlast.testing import ScriptedModel, call
from outlast.views.proofs import PROOF_WORDS
from outlast.worker import plugin
from tests import forked
from tests.attacks.test_somebody_with_temporal import ANN, Bank, request_of
from tests.servers import TemporalServer
from tests.workflow.desk import Desk, waits_for
from tests.workflow.people import clerk, refunds
from tests.workflow.test_cli import Terminal
from tests.workflow.test_desk_api import app_of, opened

KEY, THEIRS = new_shared_key(), new_shared_key()


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTLAST_IDENTITY_KEY", KEY)


@dataclass(frozen=True)
class Seat:
    """Where a run is looked at: the desk, and a terminal of the same machine."""

    desk: Desk
    terminal: Terminal
    http: Any

    async def page(self, path: str) -> str:
        answer = await self.http.get(path)
        assert answer.status_code == 200, answer.text
        return " ".join(unescape(re.sub("<[^>]*>", " ", answer.text)).split())


@pytest.fixture(scope="module")
async def terminal(server: TemporalServer, tmp_path_factory: pytest.TempPathFactory) -> Terminal:
    """A terminal for all tests, since it loads the packages when it first runs a command."""
    # The event loop stands still while the packages are loaded, so no request may be under way.
    await (await forked.start("-c", "")).wait()
    return Terminal(server, tmp_path_factory.mktemp("home"))


@pytest.fixture
async def place(
    desk: Desk, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Seat]:
    monkeypatch.setitem(terminal.environment, "OUTLAST_IDENTITY_KEY", KEY)
    async with opened(app_of(desk)) as http:
        yield Seat(desk, terminal, http)


# --- The surfaces: each returns all words about proofs that it says of Ann's vote and deeds --------


def _words(text: str) -> set[str]:
    """Return what a text says about proofs; longer words come before what they contain."""
    return set(re.findall("not proven|proven|accepted by a worker", text))


def _proofs(value: Any) -> set[str]:
    """Return the words for every `proof` in JSON."""
    if isinstance(value, list):
        return {word for one in cast("list[Any]", value) for word in _proofs(one)}
    if not isinstance(value, dict):
        return set()
    value = cast("dict[str, Any]", value)
    assert "verified" not in value or "made_at" in value  # which the audit's rows have
    own = {PROOF_WORDS[value["proof"]]} if value.get("proof") else set[str]()
    return own | {word for one in value.values() for word in _proofs(one)}


async def api_run(at: Seat, run: RunHandle) -> set[str]:
    return _proofs((await at.http.get(f"/api/conversations/{run.id}")).json())


async def api_steps(at: Seat, run: RunHandle) -> set[str]:
    return _proofs((await at.http.get(f"/api/conversations/{run.id}")).json()["steps"])


async def api_requests(at: Seat, run: RunHandle) -> set[str]:
    return _proofs((await at.http.get(f"/api/conversations/{run.id}/requests")).json())


async def api_request(at: Seat, run: RunHandle) -> set[str]:
    return _proofs((await at.http.get(f"/api/conversations/{run.id}/requests/a1")).json())


async def request_page(at: Seat, run: RunHandle) -> set[str]:
    return _words(await at.page(f"/conversations/{run.id}/requests/a1"))


async def conversation_page(at: Seat, run: RunHandle) -> set[str]:
    return _words(await at.page(f"/conversations/{run.id}"))


async def show(at: Seat, run: RunHandle) -> set[str]:
    return _words((await at.terminal.outlast("show", run.id)).out)


async def show_json(at: Seat, run: RunHandle) -> set[str]:
    return _proofs(await at.terminal.json("show", run.id))


async def inbox_show(at: Seat, run: RunHandle) -> set[str]:
    return _words((await at.terminal.outlast("inbox", "show", run.id)).out)


async def inbox_show_json(at: Seat, run: RunHandle) -> set[str]:
    return _proofs(await at.terminal.json("inbox", "show", run.id))


async def audit(at: Seat, run: RunHandle) -> set[str]:
    lines = (await at.terminal.outlast("audit", run.id)).out.splitlines()
    return _proofs([json.loads(one) for one in lines])


async def audit_in_python(at: Seat, run: RunHandle) -> set[str]:
    found = await proofs_of(at.desk.client, await audit_run(at.desk.client, run.id))
    return {PROOF_WORDS[one] for one in found.values()}


async def query(at: Seat, run: RunHandle) -> set[str]:
    return _proofs(await at.desk.workflow(run).query("approvals"))


Surface = Callable[[Seat, RunHandle], Awaitable[set[str]]]
SURFACES: tuple[Surface, ...] = (
    api_run,
    api_steps,
    api_requests,
    api_request,
    request_page,
    conversation_page,
    show,
    show_json,
    inbox_show,
    inbox_show_json,
    audit,
    audit_in_python,
    query,
)
"""All that say who has proven who they are. The last one has no reader: a worker answers it."""


async def said_by_all(at: Seat, run: RunHandle) -> dict[str, set[str]]:
    found = await asyncio.gather(*(one(at, run) for one in SURFACES))
    return {one.__name__: words for one, words in zip(SURFACES, found, strict=True)}


def without_keys(at: Seat, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the keys away: that of the environment, and that of the project of the tests' server."""

    async def none(_: object) -> None:
        return None

    monkeypatch.delenv("OUTLAST_IDENTITY_KEY")
    monkeypatch.setattr(project_keys, "_project_of", none)
    monkeypatch.delitem(at.terminal.environment, "OUTLAST_IDENTITY_KEY")
    monkeypatch.setattr(at.terminal, "start", partial(_start_without_keys, at.terminal))


async def _start_without_keys(
    terminal: Terminal, _module: str, *arguments: str
) -> asyncio.subprocess.Process:
    return await forked.start(
        *("-c", _KEYLESS, *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=terminal.environment,
    )


_KEYLESS = """
import runpy
from outlast.temporal.proofs import keys

async def none(_):
    return None

keys._project_of = none
runpy.run_module("outlast.cli.entry", run_name="__main__")
"""


# --- The runs -------------------------------------------------------------------------------------


async def asked(desk: Desk, bank: Bank) -> RunHandle:
    await desk.open(bank.agent, model=ScriptedModel([call("refund", "c1", euros=500)], "Done."))
    handle = await desk.start(bank.agent, keep_open=True)
    await desk.until(handle, waits_for(1))
    return handle


async def decided(desk: Desk, handle: RunHandle) -> LoopState:
    """Let Ann vote, take the conversation over, and say something."""
    await handle.approve(await request_of(handle), by=ANN)
    await handle.hold(by=ANN)
    await handle.say("I am Ann.", by=ANN)
    return await desk.until(handle, lambda state: state.hold is not None)


async def started(desk: Desk, state: LoopState, run_id: str) -> RunHandle:
    """Start a run with a state, as somebody who reaches the server can."""
    carried = records.write(records.RunInput(agent="Bank", carried=records.write_state(state)))
    await desk.client.start_workflow(names.WORKFLOW, carried, id=run_id, task_queue=desk.queue)
    return RunHandle(desk.client, run_id)


def _expect(found: dict[str, set[str]], wanted: set[str], *, query_: set[str]) -> None:
    assert {name: one for name, one in found.items() if name != "query"} == {
        name: wanted for name in found if name != "query"
    }
    assert found["query"] == query_


async def test_what_is_genuine_is_proven_on_every_surface(
    desk: Desk, place: Seat, monkeypatch: pytest.MonkeyPatch
):
    handle = await asked(desk, Bank())
    await decided(desk, handle)
    accepted = {"accepted by a worker"}
    _expect(await said_by_all(place, handle), {"proven"}, query_=accepted)
    found = await check_run(desk.client, handle.id)
    assert (found.problems, found.signatures) == ((), 3)  # a vote, the takeover, and words

    without_keys(place, monkeypatch)
    _expect(await said_by_all(place, handle), accepted, query_=accepted)
    await handle.cancel()


@pytest.mark.parametrize("proof", [None, f"v2.{'0' * 8}.1700000000000.{'0' * 32}.{'A' * 43}"])
async def test_a_state_that_says_verified_proves_nothing(
    desk: Desk, place: Seat, monkeypatch: pytest.MonkeyPatch, proof: str | None
):
    """Ann has approved and taken over, it says, and whose signature was checked."""
    handle = await asked(desk, Bank())
    state = await decided(desk, handle)
    (request,) = state.approvals
    (vote,) = request.votes
    votes = (replace(vote, decision=replace(vote.decision, proof=proof)),)
    forged = replace(state, approvals=(replace(request, votes=votes),))
    mine = await started(desk, forged, f"{handle.id}-forged")
    await _is_proven_nowhere(place, mine)
    without_keys(place, monkeypatch)
    await _is_proven_nowhere(place, mine)
    for one in (mine, handle):
        await one.cancel()


async def test_a_copied_state_proves_nothing_in_another_run(
    desk: Desk, place: Seat, monkeypatch: pytest.MonkeyPatch
):
    """It has all genuine signatures, and names the run and the chain that they were made for."""
    handle = await asked(desk, Bank())
    state = await decided(desk, handle)
    for run_id in (f"{handle.id}-copied", handle.id):
        if run_id == handle.id:
            await handle.cancel()
            await desk.settled(handle)
        mine = await started(desk, state, run_id)
        assert (await mine.state()).approvals[0].votes[0].decision.proof is not None
        # The audit of an id tells of the run before, too, where all that is true.
        await _is_proven_nowhere(place, mine, *(_AUDITS if run_id == handle.id else ()))
        if run_id != handle.id:
            await mine.cancel()
    desk.ids.remove(handle.id)  # its laws are those of the run that they have put in its place
    without_keys(place, monkeypatch)
    await _is_proven_nowhere(place, mine)
    await mine.cancel()


_AUDITS: tuple[Surface, ...] = (audit, audit_in_python)


def _takes_all(*_: object) -> None:
    """Find no problem with any proof."""


async def test_a_worker_that_accepts_everything_proves_nothing(
    desk: Desk, place: Seat, monkeypatch: pytest.MonkeyPatch
):
    """It takes what is signed with a key of theirs, in Ann's name, for verified."""
    monkeypatch.setattr(plugin._Observed, "_proof_problem", _takes_all)
    handle = await asked(desk, Bank())
    request = await request_of(handle)
    key = IdentityKeys(read_keys(THEIRS)).signing
    assert key is not None
    state = await handle.state()
    at = Place(namespace=desk.client.namespace, chain_id=state.chain_id, run_id=handle.id)
    who: dict[str, Any] = {"by": ANN.subject, "groups": ANN.groups, "method": ANN.method}
    for action in (
        Decision(request_id="a1", type="approve", seen=request.seen, **who),
        HoldAction(**who),
        SayAction(text="I am Ann.", **who),
    ):
        name = row_of(action).name
        sent = identity.signed(action, at, key, action=name, at_ms=now_ms())
        await desk.workflow(handle).execute_update(  # pyright: ignore[reportUnknownMemberType]  the SDK's own annotation
            name, records.write(sent)
        )
    state = await handle.state()
    assert state.approvals[0].votes[0].verified
    _expect(await said_by_all(place, handle), {"not proven"}, query_={"accepted by a worker"})
    found = await check_run(desk.client, handle.id)
    assert (len(found.problems), found.signatures) == (3, 0)
    without_keys(place, monkeypatch)
    _expect(
        await said_by_all(place, handle),
        {"accepted by a worker"},
        query_={"accepted by a worker"},
    )
    await handle.cancel()


async def _is_proven_nowhere(at: Seat, run: RunHandle, *but: Surface) -> None:
    found = await said_by_all(at, run)
    left_out = {one.__name__ for one in but}
    assert {name for name, words in found.items() if "proven" in words} <= left_out
    assert all(found[one.__name__] for one in SURFACES if one is not audit)


async def test_a_vote_in_a_nested_run_is_proven_after_its_root_has_gone_on_in_another_history(
    desk: Desk,
):
    """It is signed for the root's first execution, which the nested run's history does not name."""
    two = clerk(ApprovalPolicy(quorum=2))
    lead = Agent[Any](name="Lead", tools=[two.as_tool("ask_clerk", "Ask.")])
    texts = [f"{one}" for one in range(4)]
    replies = *texts, [call("ask_clerk", "c0", input="Refund A")], refunds(1), "Refunded.", "Done."
    await desk.open(lead, model=ScriptedModel(*replies))
    handle = await desk.start_short(lead, keep_open=True, events=20)
    await desk.until_status(handle, "idle")
    for number in range(3):
        await (await handle.send(f"{number}")).answer()
    assert len(await desk.all_events(handle)) > 1
    await handle.send("Ask the clerk")
    await desk.until(handle, waits_for(1))
    (request,) = await handle.approvals()
    await handle.approve(request.id, by="ann")
    (found,) = await found_requests(await handle.state(), desk.client)
    assert found.proofs(await proof_reader(desk.client)) == ("proven",)
    await handle.approve(request.id, by="bob")
    await desk.until_status(handle, "idle")
    await handle.cancel("after_turn")
