"""What the firings of a schedule do, and which schedules are refused before anything is sent."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.common import TypedSearchAttributes
from temporalio.converter import DataConverter

from outlast.agents.agent import Agent
from outlast.agents.approvals.budget import Budget
from outlast.agents.config.run_config import RunConfig
from outlast.agents.errors import UserError
from outlast.client.schedules import ScheduleOptions, Times
from outlast.client.schedules.plans import check_schedule, digest_of, plan_of
from outlast.client.start.tenant import Tenant
from outlast.contract import names, records
from outlast.contract.blobs import OWN, escape_item
from outlast.loop.start import Customer
from outlast.temporal.payloads.attributes import CUSTOMER, TENANT

DAILY = Times(cron="0 9 * * *")
PASSED = Times(at=datetime(2020, 1, 1, tzinfo=UTC))
AGENT = {"agent": "Desk"}


@pytest.mark.parametrize(
    ("name", "times", "options", "problem"),
    [
        ("s", DAILY, {}, "name an agent (agent), a conversation (to), or both"),
        ("", DAILY, AGENT, "id= must be a non-empty string"),
        ("x" * 201, DAILY, AGENT, "1 to 200 characters"),
        ("team/agent-1", DAILY, AGENT, "the form of the id of a nested run"),
        ("s", "0 9 * * *", AGENT, "times must be Times(...)"),
        ("s", PASSED, AGENT, "at=2020-01-01T00:00:00+00:00 has passed already"),
        ("s", DAILY, AGENT | {"overlap": "never"}, "create(overlap=...) must be 'skip', "),
        ("s", DAILY, AGENT | {"to": "c", "mode": "shout"}, "create(mode=...) must be 'queue'"),
        ("s", DAILY, AGENT | {"mode": "steer"}, "Only a message has a mode"),
        ("s", DAILY, AGENT | {"catch_up": 60}, "catch_up= must be a timedelta"),
        ("s", DAILY, AGENT | {"note": "x" * 1001}, "note= must be a text of up to 1000"),
        ("s", DAILY, AGENT | {"to": "c/agent-1"}, "the form of the id of a nested run"),
        ("s", DAILY, {"to": "c", "max_turns": 3}, "max_turns would start a conversation"),
        ("s", DAILY, AGENT | {"keep_open": True}, "so no second one would start"),
    ],
)
def test_a_schedule_that_does_not_fit_is_refused_in_words(
    name: str, times: Any, options: Any, problem: str
) -> None:
    with pytest.raises(UserError) as refused:
        check_schedule(name, times, options)
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    "options",
    [
        {"agent": Agent[Any](name="Desk")},
        {"agent": "Desk", "keep_open": True, "overlap": "allow_all"},
        {"to": "case-7"},
        {"to": "case-7", "agent": "Desk", "max_turns": 3, "mode": "interrupt"},
    ],
)
def test_a_schedule_that_fits(options: Any) -> None:
    check_schedule("s", DAILY, options)


def test_one_run_may_stay_open() -> None:
    at = Times(at=datetime(2100, 1, 1, tzinfo=UTC))
    check_schedule("s", at, ScheduleOptions(agent="Desk", keep_open=True))


async def test_a_run_is_that_of_any_start() -> None:
    config = RunConfig(budgets=[Budget(model_calls=3)])
    options = ScheduleOptions(
        agent="Desk",
        run_config=config,
        max_turns=5,
        tenant=Tenant("a", 2),
        customer=Customer("c-17", "Maria", "de"),
        author="ann",
    )
    client: Any = SimpleNamespace(data_converter=DataConverter.default)
    plan = await plan_of(client, "report", "Report, please.", options)
    action = plan.action("q", visibility=True)

    assert (action.workflow, action.id, action.task_queue) == ("AgentRun", "report", "q")
    assert (action.priority.fairness_key, action.priority.fairness_weight) == ("a", 2)
    attributes = action.typed_search_attributes
    assert isinstance(attributes, TypedSearchAttributes)
    assert (attributes.get(TENANT), attributes.get(CUSTOMER)) == ("a", "c-17")
    assert action.memo == {names.MEMO_INPUT_DIGEST: plan.digest}
    assert action.static_summary == "Desk: Report, please."
    run = records.read(records.RunInput, action.args[0])
    assert (run.agent, run.input, run.max_turns, run.keep_open) == (
        *("Desk", "Report, please.", 5),
        False,
    )
    assert run.visibility
    assert [one.limit for one in records.budgets_of(run.settings)] == [3]
    assert records.customer_of(run.settings) == Customer("c-17", "Maria", "de")
    assert run.authors == ("ann",)


async def test_a_message_holds_the_start_of_its_conversation() -> None:
    options = ScheduleOptions(agent="Desk", to="case-7", mode="queue", stream=True)
    plan = await plan_of(None, "nudge", "Any news?", options)  # pyright: ignore[reportArgumentType]
    action = plan.action("q", visibility=True)

    assert (action.workflow, action.id) == ("ScheduledMessage", "scheduled-nudge")
    assert action.static_summary == "To case-7: Any news?"
    sent = records.read(records.ScheduledRecord, action.args[0])
    assert (sent.run_id, sent.input, sent.mode, sent.stream) == (
        *("case-7", "Any news?", "queue"),
        True,
    )
    assert sent.start is not None
    assert (sent.start.agent, sent.start.input, sent.start.keep_open) == ("Desk", "", True)
    assert sent.digest == plan.digest


@pytest.mark.parametrize("options", [{"to": "c"}, {"to": "c", "agent": "A"}, {"agent": "A"}])
async def test_what_looks_like_stored_content_is_only_text(options: Any) -> None:
    """Whoever may write a message must not read another's stored content with it."""
    items: list[Any] = [{"role": "user", "content": {f"{OWN}text": "sha256-of-another"}}]
    plan = await plan_of(None, "s", items, options)  # pyright: ignore[reportArgumentType]
    record = plan.scheduled or plan.run
    assert record is not None
    assert record.input == [escape_item(items[0])] != items


async def test_the_digest_tells_schedules_apart() -> None:
    async def digest(text: str, times: Times, **options: Any) -> str:
        options = {"agent": "Desk", **options}
        return digest_of(await plan_of(None, "s", text, options), "q", times, options)  # pyright: ignore[reportArgumentType]

    every = [
        await digest(text, times, **options)
        for text in ("a", "b")
        for times in (DAILY, Times(cron="0 9 * * *", time_zone="Europe/Berlin"))
        for options in (
            {},
            {"tenant": "t"},
            {"overlap": "allow_all"},
            {"catch_up": timedelta(hours=1)},
            {"max_turns": 3},
            {"to": "case-7"},
        )
    ]
    assert len(set(every)) == len(every)
    assert every[0] == await digest("a", DAILY)
