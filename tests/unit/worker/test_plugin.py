"""The plugin that makes any Temporal worker carry runs."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.agent import Agent
from outlast.agents.approvals.policy_file import ApprovalFile
from outlast.agents.context.encoding import type_name
from outlast.agents.errors import UserError
from outlast.agents.registry import Registry
from outlast.agents.run_objects import RunKey, RunObjectTable
from outlast.contract import records
from outlast.loop.state import LoopState
from outlast.models.multi_provider import MultiProvider
from outlast.models.openai.provider import OpenAIProvider
from outlast.ports.notifier import Notification, Notifier
from outlast.testing import ScriptedModel, SpanCollector
from outlast.worker.plugin import OutlastPlugin, _model_patience
from outlast.workflows.agent_run import AgentRun
from outlast.workflows.errand import Errand
from outlast.workflows.people_notices import PeopleNotices
from outlast.workflows.scheduled_message import QualityCheck, ScheduledMessage
from outlast.workflows.team import Team
from tests.mcp_servers import Shelf


@dataclass
class Customer:
    name: str = ""


A = Agent[Any](name="A")


def running(plugin: OutlastPlugin) -> AbstractAsyncContextManager[None]:
    """What surrounds the life of a worker."""
    context: Callable[[], AbstractAsyncContextManager[None]] | None = plugin.run_context
    assert context is not None
    return context()


def test_it_knows_the_agents_and_what_they_hand_over_to() -> None:
    plugin = OutlastPlugin([Agent(name="Triage", handoffs=[A])])
    assert plugin.registry.names == ["A", "Triage"]


def test_it_brings_the_workflow_and_the_activities() -> None:
    plugin: Any = OutlastPlugin([A])
    assert plugin.workflows == [
        AgentRun,
        PeopleNotices,
        ScheduledMessage,
        Errand,
        Team,
        QualityCheck,
    ]
    assert [one.__name__ for one in plugin.activities] == [
        "run_effect",  # all effects
        "refuse_effect",  # what no worker knows
        "free_nested_id",
        "check_quality",
        "send_scheduled_message",
    ]


def deps_of(plugin: OutlastPlugin) -> WorkerDeps:
    """Return what the effects of a worker get."""
    return vars(plugin)["_deps"]


@pytest.mark.parametrize(
    ("agents", "hosts_runs"), [([A], False), (Registry([A], tell_apart=True), True)]
)
def test_only_a_program_hosts_runs_with_the_agents_of_each_start(
    agents: Any, *, hosts_runs: bool
) -> None:
    assert deps_of(OutlastPlugin(agents)).hosts_runs is hosts_runs


def test_a_workflow_that_ends_tells_those_who_keep_the_objects_of_its_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended: list[RunKey] = []

    class Table(RunObjectTable):
        def has_ended(self, key: RunKey) -> None:
            ended.append(key)

    monkeypatch.setattr("outlast.worker.plugin.RUN_OBJECTS", Table())
    deps_of(OutlastPlugin([A])).state.on_end("default", "first-execution")
    assert ended == [RunKey("default", "first-execution")]


def test_types_of_contexts_can_be_named() -> None:
    plugin = OutlastPlugin([A], context_types=[Customer])
    assert plugin.registry.context_type(type_name(Customer)) == (Customer, True)


def test_callables_that_settings_refer_to_can_be_registered() -> None:
    def shorten(data: object) -> object:
        return data

    registry = OutlastPlugin([A], references={"the filter": shorten}).registry
    assert registry.reference("the filter") is shorten


BAD: list[tuple[Any, str]] = [
    ([], r"A worker needs at least one agent: agents=\[my_agent\]\."),
    ([Agent(name="A"), Agent(name="A")], "Two agents are named 'A'"),
    (["A"], "'A' is not an Agent"),
    ([None], "None is not an Agent"),
    (A, "agents= must be a list"),
    ("A", "agents= must be a list"),
    (None, "agents= must be a list"),
]


class Silent(Notifier):
    """A notifier that delivers nothing."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def notify(self, notice: Notification) -> None:
        pass


@pytest.mark.parametrize(("agents", "problem"), BAD)
def test_agents_that_make_no_sense_are_refused(agents: Any, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        OutlastPlugin(agents)


@pytest.mark.parametrize(
    ("option", "given", "problem"),
    [
        ("model_provider", "gpt-5", "model_provider= must be an object with get_model"),
        ("model_provider", ScriptedModel, "model_provider= must be an object with get_model"),
        ("context_types", Customer, "context_types= must be a list of classes"),
        ("context_types", [3], "context_types= holds 3: pass the class itself"),
        ("references", "shorten", "references="),
        ("references", {"the filter": None}, "references="),
        ("notifiers", Silent("chat"), "notifiers= must be a list of notifiers"),
        ("notifiers", ["chat"], "notifiers= holds 'chat': pass objects of outlast.notifications"),
        ("notifiers", [Silent("")], "needs a name"),
        ("notifiers", [Silent("chat"), Silent("chat")], "Two notifiers have the name 'chat'"),
    ],
)
def test_options_that_make_no_sense_are_refused(option: str, given: Any, problem: str) -> None:
    options: Any = {option: given}
    with pytest.raises(UserError, match=problem):
        OutlastPlugin([A], **options)


def test_notifiers_with_names_of_their_own_are_accepted() -> None:
    OutlastPlugin([A], notifiers=(Silent("chat"), Silent("mail")))


async def test_a_provider_that_was_given_is_left_open() -> None:
    """It may serve other workers."""
    model = ScriptedModel()
    async with running(OutlastPlugin([A], model_provider=model)):
        pass
    assert model.closed == 0


async def test_a_provider_of_its_own_is_closed_however_the_worker_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed: list[MultiProvider] = []

    async def close(provider: MultiProvider) -> None:
        closed.append(provider)

    monkeypatch.setattr(MultiProvider, "aclose", close)
    plugin = OutlastPlugin([A])
    assert closed == []

    async def carry_and_break() -> None:
        async with running(plugin):
            raise ConnectionError

    with pytest.raises(ConnectionError):
        await carry_and_break()
    assert len(closed) == 1


async def test_what_is_slow_to_build_is_built_before_the_first_workflow_task() -> None:
    records.adapter.cache_clear()
    async with running(OutlastPlugin([A], model_provider=ScriptedModel())):
        hits = records.adapter.cache_info().hits
        records.adapter(LoopState)
        assert records.adapter.cache_info().hits == hits + 1


@pytest.mark.parametrize("breaks", [True, False])
async def test_what_was_traced_is_sent_when_the_worker_ends(
    monkeypatch: pytest.MonkeyPatch, breaks: bool
) -> None:
    async def close(_provider: OpenAIProvider) -> None:
        if breaks:
            raise ConnectionError

    class Sending(SpanCollector):
        sent = 0

        def force_flush(self) -> None:
            self.sent += 1

    monkeypatch.setattr(OpenAIProvider, "aclose", close)
    with Sending() as collected, suppress(ConnectionError):
        async with running(OutlastPlugin([A])):
            assert collected.sent == 0
    assert collected.sent == 1


async def test_connections_to_mcp_servers_end_with_the_worker() -> None:
    shelf = Shelf()
    plugin = OutlastPlugin(
        [Agent[Any](name="B", mcp_servers=[shelf])], model_provider=ScriptedModel()
    )
    async with running(plugin):
        assert shelf.steps == []
    assert shelf.steps == ["release"]


def test_a_codec_is_an_object() -> None:
    with pytest.raises(UserError, match="codec= must be a PayloadCodec object, not 'mine'"):
        OutlastPlugin([A], codec=cast("Any", "mine"))


def test_the_operators_file_is_compared_with_the_agents(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = tmp_path / "approvals.toml"
    place.write_text("[answer.A]\nquorum = 2\n", encoding="utf-8")
    OutlastPlugin([A], approvals=place)
    place.write_text("[answer.B]\n", encoding="utf-8")
    problem = r"approvals.toml:1:1: there is no agent 'B'"
    with pytest.raises(UserError, match=problem):
        OutlastPlugin([A], approvals=str(place))
    monkeypatch.setenv("OUTLAST_APPROVALS", str(place))
    with pytest.raises(UserError, match=problem):
        OutlastPlugin([A])
    # A program that hosts its own runs does not know all its agents yet.
    OutlastPlugin([A], approvals=ApprovalFile.load(place))


@pytest.mark.parametrize(
    ("value", "seconds"), [(None, 45.0), ("", 45.0), ("600", 600.0), ("0", 0.0), ("-1", 0.0)]
)
def test_only_programs_that_host_their_runs_give_a_failing_model_up(
    monkeypatch: pytest.MonkeyPatch, value: str | None, seconds: float
) -> None:
    monkeypatch.delenv("OUTLAST_MODEL_PATIENCE_SECONDS", raising=False)
    if value is not None:
        monkeypatch.setenv("OUTLAST_MODEL_PATIENCE_SECONDS", value)
    agent = Agent[Any](name="Desk")
    own: Any = Registry([agent], tell_apart=True)
    assert _model_patience(own) == timedelta(seconds=seconds)
    assert _model_patience([agent]) is None


def test_a_patience_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTLAST_MODEL_PATIENCE_SECONDS", "long")
    own: Any = Registry([Agent[Any](name="Desk")], tell_apart=True)
    with pytest.raises(UserError, match="OUTLAST_MODEL_PATIENCE_SECONDS='long' must be a number"):
        OutlastPlugin(own)
