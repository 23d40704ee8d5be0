"""The input of a run's workflow: what travels in which form, and what is refused."""

from pathlib import Path
from typing import Any, cast

import pytest

from outlast.agents.agent import Agent
from outlast.agents.config.run_config import RunConfig
from outlast.agents.errors import UserError
from outlast.agents.guardrails.guardrail import GuardrailFunctionOutput, output_guardrail
from outlast.agents.hooks import AgentHooks, RunHooks
from outlast.agents.references import RunReferences, resolve
from outlast.client.results.local_definitions import RemoteAgent
from outlast.client.start.options import agent_name, run_input
from outlast.contract import failures
from outlast.loop.events import ServerThread
from outlast.sessions.sqlite import SQLiteSession


@output_guardrail
def polite(context: Any, agent: Any, agent_output: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)


def keep(data: Any) -> Any:
    return data


class Watching(RunHooks[Any]):
    pass


class Own:
    """A session of a program's own."""

    session_id = "customer-7"

    async def get_items(self, limit: int | None = None) -> list[Any]:
        return []

    async def add_items(self, items: list[Any]) -> None:
        pass

    async def pop_item(self) -> Any:
        return None

    async def clear_session(self) -> None:
        pass


def settings_of(**options: Any) -> dict[str, Any]:
    return run_input("A", "Hello", **options).settings or {}


@pytest.mark.parametrize("agent", ["A", Agent[Any](name="A"), RemoteAgent("A")])
def test_a_run_starts_with_whatever_has_the_name_of_an_agent(agent: Any) -> None:
    assert run_input(agent, "Hello").agent == agent_name(agent) == "A"


@pytest.mark.parametrize("agent", [None, 5, [], "", " "])
def test_nothing_else_is_an_agent(agent: Any) -> None:
    with pytest.raises(UserError, match="an Agent or an agent's name"):
        run_input(agent, "Hello")


def test_a_plain_run_has_no_settings() -> None:
    record = run_input("A", "Hello")
    assert (record.settings, record.session, record.thread, record.handled) == (
        None,
        False,
        None,
        (),
    )
    assert record.max_turns == 10


def test_hooks_and_handlers_travel_by_name() -> None:
    hooks, references = Watching(), RunReferences()
    settings = settings_of(hooks=hooks, references=references)
    assert settings["hooks"].startswith("run:")
    assert references[settings["hooks"]] is hooks
    assert settings_of(hooks="my_hooks") == {"hooks": "my_hooks"}
    record = run_input(
        "A",
        "Hello",
        error_handlers=cast("Any", {"max_turns": keep_going, "invalid_final_output": "mend"}),
    )
    handlers = (record.settings or {})["error_handlers"]
    assert resolve(handlers["max_turns"]) is keep_going
    assert handlers["invalid_final_output"] == "mend"
    assert record.handled == (failures.MAX_TURNS_EXCEEDED, failures.INVALID_OUTPUT)
    none = run_input("A", "Hello", error_handlers=cast("Any", {"model_refusal": None}))
    assert (none.handled, none.settings) == ((), None)


def test_a_run_says_that_its_hooks_are_called_when_it_begins() -> None:
    class Begins(RunHooks[Any]):
        async def on_run_start(self, context: Any, agent: Any) -> None: ...

    assert settings_of(hooks=Begins())["on_run_start"] is True
    assert "on_run_start" not in settings_of(hooks=Watching())


def keep_going(given: Any) -> str:
    return "fallback"


def test_a_session_travels_as_its_description_or_by_name(tmp_path: Path) -> None:
    stored = SQLiteSession("s", tmp_path / "sessions.db")
    record = run_input("A", "Hello", session=stored)
    assert record.session
    described = (record.settings or {})["session"]
    assert (described["kind"], described["session_id"]) == ("sqlite", "s")
    own, references = Own(), RunReferences()
    named = settings_of(session=own, references=references)["session"]
    assert references[named["ref"]] is own
    kind = f"{__name__}:Own"
    assert named == {"ref": f"run:{kind}", "factory": kind, "session_id": "customer-7"}


def test_a_session_says_which_store_it_is_in() -> None:
    class InStore(Own):
        store_name = "tenant-a"

    assert settings_of(session=InStore())["session"]["store"] == "tenant-a"


def test_one_text_that_is_given_as_an_item_is_remembered_as_one() -> None:
    text: Any = {"role": "user", "content": "Hello"}
    assert run_input("A", [text]).settings == {"as_items": True}
    assert run_input("A", [text, text]).settings is None, "nobody would take them for a text"


def test_a_run_that_is_read_along_says_so() -> None:
    assert settings_of(stream=True) == {"stream": True}


@pytest.mark.parametrize(
    ("options", "thread"),
    [
        ({"conversation_id": "conv"}, ServerThread(conversation_id="conv")),
        ({"previous_response_id": "r"}, ServerThread(previous_response_id="r", chained=True)),
        ({"auto_previous_response_id": True}, ServerThread(chained=True)),
    ],
)
def test_the_providers_server_may_keep_the_conversation(
    options: dict[str, Any], thread: ServerThread
) -> None:
    assert run_input("A", "Hello", **options).thread == thread


GUARDED = Agent[Any](name="A", output_guardrails=[polite])
FILTERED = RunConfig(handoff_input_filter=keep)


@pytest.mark.parametrize(
    ("agent", "options", "problem"),
    [
        ("A", {"max_turns": -1}, "max_turns=-1"),
        ("A", {"max_turns": True}, "max_turns=True"),
        ("A", {"max_turns": "3"}, "max_turns='3'"),
        ("A", {"run_config": {"modle": "m"}}, "Unknown run_config settings: modle"),
        ("A", {"run_config": {"max_turns": 3}}, "Pass it to Runner.run itself"),
        ("A", {"context": "\ud800"}, "cannot be written as JSON"),
        ("A", {"error_handlers": {"timeout": keep}}, "no key 'timeout'"),
        ("A", {"error_handlers": [keep]}, "must be a dict"),
        ("A", {"session": "s"}, "session"),
        ("A", {"session": Own}, "not the class Own"),
        ("A", {"conversation_id": ""}, "conversation_id= must be a non-empty string"),
        ("A", {"previous_response_id": 5}, "previous_response_id= must be"),
        (
            "A",
            {"conversation_id": "c", "previous_response_id": "r"},
            "exclude each other. Use one of them",
        ),
        ("A", {"conversation_id": "c", "auto_previous_response_id": True}, "exclude each other"),
        (
            "A",
            {"conversation_id": "c", "session": Own()},
            "Session persistence with conversation_id=",
        ),
        ("A", {"auto_previous_response_id": True, "session": Own()}, "run without previous"),
        ("A", {"conversation_id": "c", "run_config": FILTERED}, "handoff_input_filter"),
        (GUARDED, {"previous_response_id": "r"}, "Agent 'A' has output_guardrails"),
        (
            "A",
            {"conversation_id": "c", "run_config": RunConfig(output_guardrails=[polite])},
            "RunConfig has output_guardrails",
        ),
    ],
)
def test_what_does_not_fit_is_refused_at_the_start(
    agent: Any, options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(UserError, match=problem):
        run_input(agent, "Hello", **options)


def test_hooks_of_an_agent_are_no_hooks_of_a_run() -> None:
    with pytest.raises(TypeError, match="must be instances of RunHooks"):
        run_input("A", "Hello", hooks=AgentHooks())  # pyright: ignore[reportArgumentType]  the mistake that is meant
