"""The session of a run: which it is, what is read of it, what is written into it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast.activities.attempt import Attempt
from outlast.activities.effects.save_session import save_session
from outlast.activities.errors import EffectError
from outlast.activities.session import load, session_of
from outlast.agents.agent import Agent
from outlast.agents.config.run_config import RunConfig
from outlast.agents.config.session_input import SessionSettings
from outlast.agents.registry import Registry
from outlast.loop.call_forms import BLANK_SCREEN, output_item
from outlast.loop.items import Item
from outlast.loop.values import JsonObject
from outlast.sessions.described import allow_place
from outlast.sessions.sqlite import SQLiteSession
from outlast.testing import call, say
from tests.unit.activities.desk import HELLO, name_of, save_request, settings_of, worker_of

WORKER = worker_of(Agent(name="A"))
REGISTRY = WORKER.registry
BYE: JsonObject = {"role": "user", "content": "Bye"}
THOUGHT: JsonObject = {"type": "reasoning", "id": "rs_1", "summary": []}


class Notebook:
    """A session in memory that knows nothing of keys."""

    session_id = "notebook"

    def __init__(self, *items: JsonObject, error: Exception | None = None) -> None:
        self.items: list[Any] = list(items)
        self.error = error

    async def get_items(self, limit: int | None = None) -> list[Any]:
        if self.error is not None:
            raise self.error
        return self.items if limit is None else self.items[max(len(self.items) - limit, 0) :]

    async def add_items(self, items: list[Any]) -> None:
        if self.error is not None:
            raise self.error
        self.items.extend(items)

    async def pop_item(self) -> Any:
        return self.items.pop()

    async def clear_session(self) -> None:
        self.items.clear()


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[SQLiteSession]:
    session = SQLiteSession("support-42", tmp_path / "sessions.db")
    allow_place(tmp_path)
    yield session
    session.close()


def by_name(session: object, **settings: Any) -> JsonObject:
    return {"session": {"ref": name_of(session)}, **settings}


# --- Which session --------------------------------------------------------------------------------------


async def test_a_session_travels_as_data_or_by_name(kept: SQLiteSession) -> None:
    await kept.add_items([BYE])
    described = session_of(REGISTRY, {"session": kept.describe()})
    assert described is not kept
    assert await described.get_items() == [BYE]
    notebook = Notebook()
    assert session_of(REGISTRY, by_name(notebook)) is notebook


@pytest.mark.parametrize(
    ("described", "problem"),
    [
        ({"ref": "gone:Session"}, "has no object named 'gone:Session'"),
        ({"kind": "redis"}, "There is no kind of session 'redis'"),
        ("typed by hand", "There is no kind of session None"),
    ],
)
def test_a_session_that_this_worker_cannot_find_another_may(described: Any, problem: str) -> None:
    with pytest.raises(EffectError, match=problem) as caught:
        session_of(REGISTRY, {"session": described})
    assert (caught.value.code, caught.value.retryable) == ("worker_lacks", True)


def test_the_session_of_a_nested_run_is_that_of_its_tool() -> None:
    notebook, other = Notebook(), Notebook()
    settings = by_name(other)
    own = Agent[Any](name="B").as_tool(session=notebook)
    assert session_of(REGISTRY, settings, own) is notebook
    assert session_of(REGISTRY, settings, Agent[Any](name="B").as_tool()) is other


# --- Reading --------------------------------------------------------------------------------------------


async def test_the_run_begins_with_what_the_session_remembers(kept: SQLiteSession) -> None:
    await kept.add_items([BYE])
    merged = await load(REGISTRY, {"session": kept.describe()}, (HELLO.raw,))
    assert merged.items == (BYE, HELLO.raw)
    assert merged.new == (False, True)


async def test_the_run_says_how_much_is_read() -> None:
    settings = settings_of(RunConfig(session_settings=SessionSettings(limit=1)))
    merged = await load(REGISTRY, by_name(Notebook(HELLO.raw, BYE), **settings), (HELLO.raw,))
    assert merged.items == (BYE, HELLO.raw)


async def test_the_runs_callback_puts_the_input_together() -> None:
    def newest_first(history: list[Any], new: list[Any]) -> list[Any]:
        return [*new, *history]

    settings = settings_of(RunConfig(session_input_callback=newest_first))
    merged = await load(REGISTRY, by_name(Notebook(BYE), **settings), (HELLO.raw,))
    assert (merged.items, merged.new) == ((HELLO.raw, BYE), (True, False))


async def test_ids_of_reasoning_are_left_out_where_the_run_says_so() -> None:
    settings = by_name(Notebook(THOUGHT, *say("Hi")), reasoning_item_id_policy="omit")
    merged = await load(REGISTRY, settings, (HELLO.raw,))
    assert "id" not in merged.items[0]


@pytest.mark.parametrize(
    ("raised", "retryable"), [(ConnectionError("down"), True), (TypeError("x"), False)]
)
async def test_a_session_that_cannot_be_read_fails_the_run(
    raised: Exception, *, retryable: bool
) -> None:
    with pytest.raises(EffectError, match="The session 'notebook' raised") as caught:
        await load(REGISTRY, by_name(Notebook(error=raised)), ())
    assert caught.value.retryable is retryable


@pytest.mark.parametrize(
    ("raised", "retryable"), [(ConnectionError("down"), True), (TypeError("x"), False)]
)
async def test_a_callback_that_raises_is_named(raised: Exception, *, retryable: bool) -> None:
    def newest_first(_history: list[Any], _new: list[Any]) -> list[Any]:
        raise raised

    settings = settings_of(RunConfig(session_input_callback=newest_first))
    expected = rf"^session_input_callback '.*newest_first' raised {type(raised).__name__}"
    with pytest.raises(EffectError, match=expected) as caught:
        await load(REGISTRY, by_name(Notebook(BYE), **settings), (HELLO.raw,))
    assert caught.value.retryable is retryable


async def test_what_is_no_session_is_refused_in_words() -> None:
    with pytest.raises(EffectError, match="session") as caught:
        await load(REGISTRY, by_name(Agent(name="B")), ())
    assert not caught.value.retryable


async def test_a_callback_that_nobody_knows_is_named() -> None:
    settings = by_name(Notebook(), session_input_callback="gone:merge")
    with pytest.raises(EffectError, match="has no object named 'gone:merge'"):
        await load(REGISTRY, settings, ())


# --- Writing --------------------------------------------------------------------------------------------


async def save(settings: JsonObject, *items: Item, attempt: int = 1, **call: Any) -> None:
    request = save_request(*items, settings=settings, **call)
    await save_session(WORKER, request, Attempt(number=attempt))


async def test_a_save_that_is_tried_again_doubles_nothing(kept: SQLiteSession) -> None:
    settings: JsonObject = {"session": kept.describe()}
    await save(settings, HELLO)
    await save(settings, HELLO, attempt=2)
    assert await kept.get_items() == [HELLO.raw]


@pytest.mark.parametrize(
    "other", [{"number": 1}, {"run_id": "support-43"}, {"chain_id": "second"}], ids=str
)
async def test_every_part_of_every_run_is_saved(kept: SQLiteSession, other: JsonObject) -> None:
    settings: JsonObject = {"session": kept.describe()}
    await save(settings, HELLO)
    await save(settings, HELLO, **other)
    assert await kept.get_items() == [HELLO.raw, HELLO.raw]


async def test_the_key_of_a_save_never_changes() -> None:
    """An attempt after a deploy must not save again what an older worker has saved."""

    class Keyed(Notebook):
        key = ""

        async def add_items_once(self, key: str, items: list[Any]) -> None:
            del items
            self.key = key

    keyed = Keyed()
    await save(by_name(keyed), HELLO, number=3, chain_id="first")
    assert keyed.key == "support-42@first:3:79b3a8c372541f14"


def delete(session: SQLiteSession) -> None:
    """Delete the file of a session."""
    for name in (session.db_path, f"{session.db_path}-wal", f"{session.db_path}-shm"):
        Path(name).unlink(missing_ok=True)


async def test_a_session_that_lost_what_it_held_is_missed_and_goes_on(
    kept: SQLiteSession, caplog: pytest.LogCaptureFixture
) -> None:
    settings: JsonObject = {"session": kept.describe()}
    await save(settings, HELLO)
    delete(kept)
    request = save_request(Item("input", BYE, "A", 1), settings=settings, start=1, follows=True)
    note = await save_session(WORKER, request, Attempt(number=1))
    lost = "The session 'support-42' no longer holds the items that were saved before"
    assert str(note["note"]).startswith(lost)
    assert caplog.messages == [note["note"]]
    assert await kept.get_items() == [BYE]
    request = save_request(Item("input", BYE, "A", 2), settings=settings, start=2, follows=True)
    assert await save_session(WORKER, request, Attempt(number=1)) == {}


async def test_a_session_without_keys_is_not_read_for_what_it_lost() -> None:
    notebook = Notebook()
    await save(by_name(notebook), HELLO, start=1, follows=True)
    assert notebook.items == [HELLO.raw]


async def test_an_answer_that_differs_after_a_reset_is_saved_too(kept: SQLiteSession) -> None:
    """A reset repeats the question, and the model may answer it otherwise."""
    settings: JsonObject = {"session": kept.describe()}
    other = Item("message", {"type": "message", "role": "assistant", "content": []}, "A", 1)
    await save(settings, HELLO)
    await save(settings, HELLO)
    await save(settings, other)
    assert await kept.get_items() == [HELLO.raw, other.raw]


async def test_a_session_without_keys_is_asked_before_a_second_try() -> None:
    notebook = Notebook()
    await save(by_name(notebook), HELLO)
    await save(by_name(notebook), HELLO, attempt=2)
    assert notebook.items == [HELLO.raw]


async def test_an_output_that_was_blocked_leaves_a_placeholder() -> None:
    notebook = Notebook()
    asked = Item("tool_call", call("look_up", "c1"), "A", 1)
    answered = Item("tool_output", output_item("c1", "a secret"), "A", 1)
    await save(by_name(notebook), HELLO, asked, answered, withheld="[withheld]")
    assert notebook.items == [HELLO.raw, asked.raw, output_item("c1", "[withheld]")]
    assert answered.raw["output"] == "a secret", "the transcript stays what it is"


@pytest.mark.parametrize("beside", [[], [THOUGHT], [{"type": "web_search_call", "id": "ws_1"}]])
async def test_what_was_said_beside_a_blocked_output_is_not_saved(beside: list[JsonObject]) -> None:
    def turn(number: int, *others: Item) -> list[Item]:
        asked = Item("tool_call", call("look_up", f"c{number}"), "A", number)
        answered = Item("tool_output", output_item(f"c{number}", "found"), "A", number)
        said = {"type": "message", "role": "assistant", "content": f"{number}"}
        return [Item("message", said, "A", number), *others, asked, answered]

    notebook, first = Notebook(), turn(1)
    second = turn(2, *(Item("other", raw, "A", 2) for raw in beside))
    await save(by_name(notebook), HELLO, *first, *second, withheld="[withheld]")
    left = [] if beside else [second[1].raw, output_item("c2", "[withheld]")]
    assert notebook.items == [HELLO.raw, *(item.raw for item in first), *left]


async def test_the_runs_own_reasoning_loses_its_id_and_the_callers_keeps_it() -> None:
    notebook = Notebook()
    settings = by_name(notebook, reasoning_item_id_policy="omit")
    await save(settings, Item("input", THOUGHT), Item("reasoning", THOUGHT, "A", 1))
    assert [item.get("id") for item in notebook.items] == ["rs_1", None]


@pytest.mark.parametrize("withheld", [None, "[withheld]"])
async def test_what_only_replies_may_have_is_not_saved(withheld: str | None) -> None:
    notebook, asked = Notebook(), call("look_up", "c1")
    marked = Item("tool_call", {**asked, "created_by": "p", "status": None}, "A", 1)
    await save(by_name(notebook), HELLO, marked, withheld=withheld)
    assert notebook.items == [HELLO.raw, asked]


async def test_a_database_may_be_away_for_longer_than_a_function_is_wrong() -> None:
    with pytest.raises(EffectError, match="The session 'notebook' raised") as caught:
        await save(by_name(Notebook(error=ConnectionError("down"))), HELLO)
    assert (caught.value.retryable, caught.value.attempts) == (True, None)


async def test_a_worker_elsewhere_makes_the_session_that_the_run_has() -> None:
    made: list[str] = []

    def make(session_id: str) -> Notebook:
        made.append(session_id)
        session = Notebook()
        session.session_id = session_id
        return session

    registry = Registry([Agent[Any](name="A")])
    registry.add_references({"shop:Notebook": make})
    described = {"ref": "run:shop:Notebook", "factory": "shop:Notebook", "session_id": "c7"}
    assert session_of(registry, {"session": described}).session_id == "c7"
    assert made == ["c7"]


async def test_another_customers_session_is_never_taken() -> None:
    registry = Registry([Agent[Any](name="A")])
    registry.add_references({"shop:Notebook": Notebook()})
    described = {"ref": "run:shop:Notebook", "factory": "shop:Notebook", "session_id": "c7"}
    with pytest.raises(EffectError, match=r"session is 'c7', but .* is the session 'notebook'"):
        session_of(registry, {"session": described})


class Stored(Notebook):
    """A session that says which store it is in."""

    def __init__(self, store_name: str) -> None:
        super().__init__()
        self.store_name = store_name


def opening(store_name: str) -> Registry:
    """Return what a worker knows that opens the sessions of one store."""

    def open_session(_session_id: str) -> Stored:
        return Stored(store_name)

    registry = Registry([Agent[Any](name="A")])
    registry.add_references({"shop:Stored": open_session})
    return registry


@pytest.mark.parametrize(("store", "opened"), [("tenant-a", "tenant-b"), ("tenant-a", "")])
async def test_a_session_of_the_same_id_in_another_store_is_never_taken(
    store: str, opened: str
) -> None:
    described = {"ref": "run:shop:Stored", "factory": "shop:Stored", "session_id": "notebook"}
    with pytest.raises(EffectError, match=f"in the store '{store}', .* opens '{opened}'") as caught:
        session_of(opening(opened), {"session": {**described, "store": store}})
    assert (caught.value.code, caught.value.retryable) == ("worker_lacks", True)


async def test_a_worker_elsewhere_opens_the_session_in_the_store_that_it_is_in() -> None:
    described = {"ref": "run:shop:Stored", "factory": "shop:Stored", "store": "tenant-a"}
    assert isinstance(session_of(opening("tenant-a"), {"session": described}), Stored)


@pytest.mark.parametrize(
    ("form", "left"),
    [
        ("custom_tool_call", {"output": "[withheld]"}),
        ("apply_patch_call", {"status": "failed", "output": "[withheld]"}),
        ("computer_call", {"output": {"type": "computer_screenshot", "image_url": BLANK_SCREEN}}),
    ],
)
async def test_what_a_guardrail_has_blocked_keeps_the_form_of_its_call(
    form: str, left: JsonObject
) -> None:
    notebook = Notebook()
    answered = Item("tool_output", output_item("c1", {"output": "a secret"}, form), "A", 1)
    await save(by_name(notebook), answered, withheld="[withheld]")
    assert notebook.items == [{"type": f"{form}_output", "call_id": "c1", **left}]
