"""Costs at a terminal: of a run, and of lists of runs. Everything is read from histories."""

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from temporalio.client import Client

from outlast import Tenant
from outlast.agents.agent import Agent
from outlast.agents.errors import MaxTurnsExceeded
from outlast.agents.tools.function_tool import function_tool
from outlast.cli import costs, terminal
from outlast.client.costs import QuestionCost, RunCosts
from outlast.client.read.final_usage import final_uses
from outlast.client.runs import ListedRun, RunFilter, find_runs, with_costs
from outlast.client.start.runner import Runner
from outlast.loop.values import Usage
from outlast.pricing import Cost, CostPart, Pricing, dollars
from outlast.testing import ScriptedModel, call, costing
from outlast.views.run import loop_state
from tests.unit.cli.conftest import Invoke, Open

USED = Usage(requests=1, input_tokens=900, output_tokens=100, total_tokens=1_000)


def price(model: str) -> Decimal:
    """Return the cost of a call with `USED`."""
    found = Pricing().price(model)
    assert found is not None
    return round(found.cost(USED), 6)


def paid(*steps: Any) -> ScriptedModel:
    return ScriptedModel(*(costing(USED, step) for step in steps))


@function_tool
def look() -> str:
    """Look."""
    return "seen"


@function_tool(needs_approval=True)
def sign() -> str:
    """Sign."""
    return "signed"


def office(name: str) -> Agent[Any]:
    """Return an agent that asks another one, whose model has no price."""
    lawyer = Agent[Any](name="Lawyer", model="house-model", tools=[look, sign])
    tool = lawyer.as_tool("ask_lawyer", "Ask the lawyer.")
    return Agent[Any](name=name, model="gpt-5-mini", tools=[tool])


async def listed(client: Client, agent: str, count: int) -> list[ListedRun]:
    """Return the runs of an agent, once visibility has all of them as ended."""
    async with asyncio.timeout(30):
        while True:
            found = await find_runs(client, RunFilter(agent=agent, nested=False), limit=100)
            if len([one for one in found if one.closed]) == count:
                return found


@pytest.mark.smoke
async def test_a_conversation_costs_by_question_agent_and_model(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    steps = [[call("ask_lawyer", "c1", input="Legal?")], "Yes.", "It is legal.", "Bye."]
    queue = await open_desk(paid(*steps), office("Helper"))
    handle = await Runner.start(
        "Helper", "Legal?", id=run_id, client=client, task_queue=queue, keep_open=True
    )
    first = await handle.wait(lambda state: loop_state(state).phase == "idle")
    result = await (await handle.send("Thanks.")).answer()

    record = json.loads((await cli("show", run_id, "--json")).stdout)["cost"]
    shown = (await cli("show", run_id)).stdout

    each = price("gpt-5-mini")
    unknown = "price unknown for model house-model: 1,000 tokens"
    assert (Decimal(record["usd"]), record["problem"]) == (3 * each, unknown)
    questions = [(one["question"], Decimal(one["usd"])) for one in record["by_question"]]
    assert questions == [(1, 2 * each), (2, each)]
    assert [(one["agent"], one["calls"], one["usd"]) for one in record["by_agent"]] == [
        ("Helper", 3, f"{3 * each:f}"),
        ("Lawyer", 1, "0"),
    ]
    lines = [line.split() for line in shown.splitlines()]
    assert ["uncounted", *unknown.split()] in lines
    assert ["question", "1", "3", "3,000", "0", "0", "≥", dollars(2 * each)] in lines
    assert ["question", "2", "1", "1,000", "0", "0", dollars(each)] in lines
    assert ["model", "house-model", "1", "1,000", "0", "0", "unknown"] in lines
    assert first.cost.usd == 2 * each
    assert (result.cost.usd, result.cost.total, result.cost.problem) == (3 * each, None, unknown)
    assert result.cost.by_agent["Helper"].total == 3 * each
    await handle.cancel()


async def test_a_nested_run_that_waits_or_was_terminated_counts_too(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    steps = [[call("ask_lawyer", "c1", input="Sign?")], [call("sign", "c2")]]
    queue = await open_desk(paid(*steps), office("Helper"))
    handle = await Runner.start("Helper", "Sign", id=run_id, client=client, task_queue=queue)
    waiting = await handle.wait(lambda state: state.status == "waiting")
    (nested,) = [one.nested_id for one in loop_state(waiting.snapshot).nested]

    async def cost() -> dict[str, Any]:
        return json.loads((await cli("show", run_id, "--json")).stdout)["cost"]

    open_one = await cost()
    assert [one["agent"] for one in open_one["by_agent"]] == ["Helper", "Lawyer"]
    assert [one["tokens"] for one in open_one["by_question"]] == [2_000]
    await client.get_workflow_handle(nested).terminate()
    await client.get_workflow_handle(run_id).terminate()
    assert await cost() == open_one


async def test_the_last_event_says_what_an_ended_run_used_and_lists_add_it_up(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    agent = f"Office-{run_id}"
    steps = [
        [call("ask_lawyer", "c1", input="Legal?")],
        "Yes.",
        "It is legal.",
        "Hello.",
        [call("ask_lawyer", "c3", input="More?")],
        "Yes.",
    ]
    queue = await open_desk(paid(*steps), office(agent))
    options: dict[str, Any] = {"client": client, "task_queue": queue}
    await Runner.run(agent, "Legal?", id=f"{run_id}-1", tenant=Tenant("acme"), **options)
    await Runner.run(agent, "Hi", id=f"{run_id}-2", tenant=Tenant("umbrella"), **options)
    with pytest.raises(MaxTurnsExceeded):
        await Runner.run(agent, "Legal?", id=f"{run_id}-3", max_turns=1, **options)
    rows = await with_costs(client, await listed(client, agent, 3))
    each = price("gpt-5-mini")

    costs_of = {row.run_id: row.cost for row in rows}
    for row in rows:
        uses = await final_uses(client, row.run_id, row.execution_id)
        assert uses is not None
        assert row.cost == Cost.of_uses(uses)
    amounts = {name[-1]: one.usd for name, one in costs_of.items() if one is not None}
    assert amounts == {"1": 2 * each, "2": each, "3": each}

    async def by(what: str) -> dict[str, tuple[int, Decimal]]:
        done = await cli("list", "--agent", agent, "--by", what, "--json")
        groups = json.loads(done.stdout)
        return {one[what]: (one["runs"], Decimal(one["usd"])) for one in groups}

    day = rows[0].started.strftime("%Y-%m-%d")
    assert await by("tenant") == {"acme": (1, 2 * each), "umbrella": (1, each), "": (1, each)}
    assert await by("agent") == {agent: (3, 4 * each), "Lawyer": (2, Decimal(0))}
    assert await by("model") == {"gpt-5-mini": (3, 4 * each), "house-model": (2, Decimal(0))}
    assert day in await by("day")
    shown = (await cli("list", "--agent", agent, "--by", "tenant")).stdout.splitlines()
    assert shown[0].split() == [
        *("TENANT", "RUNS", "CALLS", "TOKENS", "CACHED", "REASONING", "COST")
    ]
    assert shown[-1] == f"Sum: ≥ {dollars(4 * each)}, 6,000 tokens in 3 runs."
    whole = await cli("list", "--agent", agent)
    assert f"Sum: ≥ {dollars(4 * each)}, 6,000 tokens in 3 runs." in whole.stdout
    assert "Not counted: price unknown for model house-model: 2,000 tokens." in whole.stderr


def test_texts_of_models_move_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    evil = "\x1b[2J\x07\u202eevil\nSum: $0.00"
    cost = Cost(
        tuple(CostPart(agent=name, model=name, calls=1, tokens=5, usd=None) for name in (evil, "b"))
    )
    questions = tuple(QuestionCost(at, at, cost) for at in range(1, 31))
    whole = RunCosts(cost, questions, (evil,))
    costs.show_parts(terminal.out(), whole)
    shown = capsys.readouterr().out + "\n".join(text for _, text in costs.facts(whole))
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)
    assert "\nSum" not in shown
    assert "questions 1 to 10" in shown
    assert len([line for line in shown.splitlines() if line.startswith("question")]) == 21


async def test_cached_and_reasoning_tokens_are_told(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    used = replace(USED, cached_tokens=600, reasoning_tokens=40)
    queue = await open_desk(ScriptedModel(costing(used, "Hi."), costing(used, "Bye.")))
    for number in range(2):
        await Runner.run("Helper", "Hi", id=f"{run_id}-{number}", client=client, task_queue=queue)
    shown = (await cli("show", f"{run_id}-0")).stdout
    assert "1,000 tokens (600 cached, 40 for reasoning)" in shown
    record = json.loads((await cli("show", f"{run_id}-0", "--json")).stdout)
    assert (record["cost"]["cached_tokens"], record["cost"]["reasoning_tokens"]) == (600, 40)
    assert record["usage"]["cached_tokens"] == 600


async def test_sums_count_the_runs_since_a_time(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    agent = f"Desk-{run_id}"
    queue = await open_desk(paid("Hi."), Agent[Any](name=agent, model="gpt-5-mini"))
    await Runner.run(agent, "Hi", id=run_id, client=client, task_queue=queue)
    (row,) = await listed(client, agent, 1)
    assert row.closed is not None
    options = ("--agent", agent, "--by", "agent", "--json", "--since")
    since_then = json.loads((await cli("list", *options, "1h")).stdout)
    assert [(one["agent"], one["runs"]) for one in since_then] == [(agent, 1)]
    tomorrow = (row.closed + timedelta(days=1)).strftime("%Y-%m-%d")
    found = await find_runs(
        client, RunFilter(agent=agent, since=row.closed + timedelta(days=1)), limit=9
    )
    assert (found, tomorrow > row.closed.strftime("%Y-%m-%d")) == ([], True)
    assert RunFilter(since=row.closed).accepts(row)
    assert not RunFilter(since=row.closed + timedelta(seconds=1)).accepts(row)
