"""Contexts with live values: in the process that started the run, and on workers elsewhere."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from outlast.agents.agent import Agent
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.run_objects import RUN_OBJECTS
from outlast.agents.tools.function_tool import function_tool
from outlast.testing import ScriptedModel, call
from tests.servers import TemporalServer
from tests.unit.sessions import postgres
from tests.workflow.desk import Desk
from tests.workflow.test_scripts import output_of, script


@dataclass
class Shop:
    customer: str
    database: sqlite3.Connection
    asked: int = 0


@function_tool
async def orders(ctx: RunContextWrapper[Shop]) -> list[str]:
    """List the customer's orders."""
    ctx.context.asked += 1
    rows = ctx.context.database.execute(
        "select name from orders where customer = ?", (ctx.context.customer,)
    )
    return [name for (name,) in rows]


CLERK = Agent[Shop](name="Clerk", tools=[orders])
HELPER = Agent[Shop](name="Helper", tools=[CLERK.as_tool("ask_clerk", "Ask.")])


def database(order: str) -> sqlite3.Connection:
    made = sqlite3.connect(":memory:", check_same_thread=False)
    made.execute("create table orders (customer, name)")
    made.execute("insert into orders values ('ann', ?)", (order,))
    return made


def model() -> ScriptedModel:
    return ScriptedModel([call("orders", "c1")], "Done.")


def outputs(asked: ScriptedModel) -> list[Any]:
    return [item["output"] for item in asked.requests[-1].input if "output" in item]


def forget() -> None:
    """Have the worker take all runs for ones that another process has started."""
    vars(RUN_OBJECTS)["_kept"].clear()


async def test_tools_use_the_objects_of_the_program_and_history_has_the_data(desk: Desk):
    asked = model()
    await desk.open(CLERK, model=asked)
    shop = Shop("ann", database("umbrella"))
    result = await desk.run(CLERK, context=shop)
    assert outputs(asked) == ['["umbrella"]']
    assert (shop.asked, result.context_wrapper.context.database) == (1, shop.database)
    assert result.context == {"customer": "ann", "database": {"$live": "Connection"}, "asked": 1}


async def test_nested_runs_use_them_too(desk: Desk):
    asked = ScriptedModel(
        [call("ask_clerk", "c0", input="Orders?")], [call("orders", "c1")], "Umbrella.", "Done."
    )
    await desk.open(HELPER, model=asked)
    shop = Shop("ann", database("umbrella"))
    assert (await desk.run(HELPER, context=shop)).final_output == "Done."
    assert shop.asked == 1


async def test_a_worker_elsewhere_makes_them_of_the_data_and_closes_them(desk: Desk):
    closed: list[str] = []

    async def make(data: Any) -> AsyncGenerator[Shop]:
        shop = Shop(data["customer"], database(f"made for {data['customer']}"))
        yield shop
        shop.database.close()
        closed.append(data["customer"])

    asked = model()
    handle = await desk.start(CLERK, context=Shop("ann", database("elsewhere")))
    forget()
    worker = await desk.open(CLERK, model=asked, context=make)
    assert (await desk.result(handle)).final_output == "Done."
    assert outputs(asked) == ['["made for ann"]']
    await desk.close(worker)
    assert closed == ["ann"]


async def test_a_run_waits_visibly_for_a_worker_that_makes_what_is_missing(desk: Desk):
    handle = await desk.start(CLERK, context=Shop("ann", database("elsewhere")))
    forget()
    first = await desk.open(CLERK, model=model())
    state = await desk.until(handle, lambda state: bool(state.blocked))
    assert "context's database (Connection)" in state.blocked[0].lacks
    assert "context={'database': make_it}" in state.blocked[0].lacks
    asked = model()
    await desk.close(first)
    await desk.open(CLERK, model=asked, context={"database": lambda: database("by field")})
    assert (await desk.result(handle)).final_output == "Done."
    assert outputs(asked) == ['["by field"]']


SCRIPT = '''
import sqlite3, threading
from dataclasses import dataclass
from outlast import RunContextWrapper

@dataclass
class Shop:
    lock: object
    rows: sqlite3.Connection
    n: int = 0

@function_tool
def count(ctx: RunContextWrapper[Shop]) -> int:
    """Count."""
    with ctx.context.lock:
        ctx.context.n += 1
        return ctx.context.rows.execute("select 41 + 1").fetchone()[0]

shop = Shop(threading.Lock(), sqlite3.connect(":memory:", check_same_thread=False))
model = ScriptedModel([call("count", "c1")], "Done.")
agent = Agent(name="Clerk", tools=[count], model=model)
result = Runner.run_sync(agent, "Hello", context=shop)
print(result.final_output, shop.n, model.requests[-1].input[-1]["output"])
'''


async def test_a_script_that_carries_its_own_runs_uses_its_objects(
    tmp_path: Path, server: TemporalServer
):
    assert await output_of(SCRIPT, tmp_path, address=server.address) == ["Done. 1 42"]


async def test_a_factory_that_fails_keeps_the_run_waiting_with_its_words(desk: Desk):
    attempts = 0

    async def make() -> sqlite3.Connection:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise ConnectionError("no database yet")
        return database("late")

    asked = model()
    handle = await desk.start(CLERK, context=Shop("ann", database("elsewhere")))
    forget()
    following = asyncio.create_task(desk.ever(handle, lambda state: bool(state.blocked)))
    await desk.open(CLERK, model=asked, context={"database": make})
    state = await following
    assert "raised ConnectionError: no database yet" in state.blocked[0].lacks
    assert (await desk.result(handle)).final_output == "Done."
    assert outputs(asked) == ['["late"]']


@function_tool
async def connect(ctx: RunContextWrapper[dict[str, Any]]) -> str:
    """Open what the other tools use."""
    ctx.context["database"] = database("late")
    return "ok"


@function_tool
async def count(ctx: RunContextWrapper[dict[str, Any]]) -> int:
    """Count the orders."""
    (found,) = ctx.context["database"].execute("select count(*) from orders").fetchone()
    return found


LAZY = Agent[dict[str, Any]](name="Lazy", tools=[connect, count])


@pytest.mark.parametrize("is_elsewhere", [False, True])
async def test_a_tool_may_add_an_object_where_the_program_runs(desk: Desk, is_elsewhere: bool):
    asked = ScriptedModel([call("connect", "c1")], [call("count", "c2")], "Done.")
    handle = await desk.start(LAZY, context={})
    if is_elsewhere:
        forget()
    await desk.open(LAZY, model=asked)
    assert (await desk.result(handle)).final_output == "Done."
    first, second = (item["output"] for item in asked.requests[-1].input if "output" in item)
    if is_elsewhere:
        assert first.startswith("The tool connect failed")
    else:
        assert (first, second) == ("ok", "1")


# --- A real database pool -----------------------------------------------------------------------


@dataclass
class Branch:
    customer: str
    database: AsyncEngine
    reads: int = 0


@function_tool
async def balance(ctx: RunContextWrapper[Branch]) -> int:
    """Return the customer's balance."""
    ctx.context.reads += 1
    query = text("select amount from balances where customer = :customer")
    async with ctx.context.database.connect() as connection:
        return (await connection.execute(query, {"customer": ctx.context.customer})).scalar_one()


TELLER = Agent[Branch](name="Teller", tools=[balance], tool_use_behavior="stop_on_first_tool")


@pytest.fixture(scope="module")
def postgres_url() -> Iterator[str]:
    """Return the URL of a Postgres with a table of balances."""
    programs = postgres.programs()
    if programs is None:
        pytest.skip("Postgres is not installed: there is no program named postgres")
    with postgres.serve(programs) as url:
        yield url


async def test_a_worker_elsewhere_shares_one_pool_of_a_real_database(desk: Desk, postgres_url: str):
    pools: list[AsyncEngine] = []

    async def make_pool() -> AsyncGenerator[AsyncEngine]:
        pool = create_async_engine(postgres_url, pool_size=2)
        pools.append(pool)
        async with pool.begin() as connection:
            await connection.execute(text("create table balances (customer text, amount int)"))
            rows = [{"customer": f"c{number}", "amount": number} for number in range(5)]
            await connection.execute(text("insert into balances values (:customer, :amount)"), rows)
        yield pool
        await pool.dispose()

    elsewhere = create_async_engine(postgres_url)  # its pool opens no connection
    handles = [
        await desk.start(TELLER, context=Branch(f"c{number}", elsewhere)) for number in range(5)
    ]
    forget()
    models = ScriptedModel(always=[call("balance", "c1")])
    worker = await desk.open(TELLER, model=models, context={"database": make_pool})
    results = await asyncio.gather(*[desk.result(handle) for handle in handles])
    assert [result.final_output for result in results] == ["0", "1", "2", "3", "4"]
    assert [result.context["reads"] for result in results] == [1] * 5
    (pool,) = pools
    assert "Connections in pool: 0 " not in pool.pool.status()
    await desk.close(worker)
    assert "Connections in pool: 0 " in pool.pool.status()


KILLED = '''
import sqlite3
from dataclasses import dataclass, field
from datetime import date, timedelta
from outlast import RunContextWrapper

@dataclass
class Shop:
    database: sqlite3.Connection
    opened: object = date(2026, 1, 1)
    seen: set[str] = field(default_factory=set)

@function_tool
def look(ctx: RunContextWrapper[Shop]) -> str:
    """Look."""
    ctx.context.seen.add("looked")
    return "looked"

@function_tool(timeout=timedelta(minutes=1))
async def count(ctx: RunContextWrapper[Shop]) -> str:
    """Count."""
    Path("counting").write_text("yes\\n")
    while not Path("door").exists():
        await asyncio.sleep(0.01)
    (row,) = ctx.context.database.execute("select name from program").fetchone()
    return f"{row} {sorted(ctx.context.seen)} {ctx.context.opened.year}"

def reply(request):
    outputs = [one["output"] for one in request.input if one.get("type") == "function_call_output"]
    steps = [[call("look", "c1")], [call("count", "c2")]]
    return steps[len(outputs)] if len(outputs) < 2 else say(outputs[1])

database = sqlite3.connect(":memory:", check_same_thread=False)
database.execute("create table program (name)")
database.execute("insert into program values (?)", ["second" if Path("door").exists() else "first"])
agent = Agent(name="Clerk", model=ScriptedModel(always=reply), tools=[look, count])
shop = Shop(database)
print(Runner.run_sync(agent, "How many?", id="shop-1", context=shop).final_output, shop.seen)
'''


@pytest.mark.full
async def test_a_program_that_was_killed_goes_on_with_its_data_and_its_new_objects(
    tmp_path: Path, server: TemporalServer
):
    async with script(KILLED, tmp_path, address=server.address) as process:
        async with asyncio.timeout(60):
            while not (tmp_path / "counting").exists():  # noqa: ASYNC110  another process writes it
                await asyncio.sleep(0.05)
        process.kill()
        await process.wait()
    (tmp_path / "door").touch()
    lines = await output_of(KILLED, tmp_path, address=server.address)
    assert lines == ["second ['looked'] 2026 {'looked'}"]
