"""Which of an agent's models is called, and which one follows a model that does not answer."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from outlast import (
    Agent,
    Budget,
    FallbackModel,
    ModelCallFailed,
    ModelRetrySettings,
    ModelSettings,
    RunConfig,
    UserError,
    function_tool,
)
from outlast.activities.attempt import Attempt
from outlast.activities.effects.call_model import call_model
from outlast.activities.errors import EffectError
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.approvals.policy_file import ApprovalFile
from outlast.agents.config.compaction import Compaction
from outlast.agents.registry import Registry
from outlast.contract.effects import EffectRequest
from outlast.contract.streams.window import ShownText
from outlast.loop.effects import CallModel
from outlast.loop.fallback import NEXT_MODEL
from outlast.loop.items import Item
from outlast.models.openai.provider import OpenAIProvider
from outlast.models.openai.responses import ResponsesModel
from outlast.ports.model import Model
from outlast.testing import (
    ScriptedModel,
    call,
    fail_after,
    run_in_memory,
    run_in_memory_streamed,
    say,
    wait_for,
)
from tests.workflow.replies import model_error

BUSY = model_error("overloaded", retryable=True, status=529)
NO_QUOTA = model_error("quota_exceeded", retryable=False, status=429)
NOT_OF_ITS_OWN = ("invalid_request", "no_api_key", "conversation_locked")
OF_ITS_OWN = ("quota_exceeded", "unauthorized", "not_found", "server_error", "bad_response")


@dataclass
class Models:
    """A provider with models by name."""

    models: Mapping[str, Model]
    asked: list[str | None] = field(default_factory=list[str | None])

    def get_model(self, name: str | None) -> Model:
        self.asked.append(name)
        if name not in self.models:
            raise UserError(f"There is no model {name!r}.")
        return self.models[str(name)]

    async def aclose(self) -> None: ...


def busy(*then: Any) -> ScriptedModel:
    """A model that is too busy for ten attempts, and then goes on."""
    return ScriptedModel(*[BUSY] * 10, *then)


def desk(*models: Any, **fields: Any) -> Agent[Any]:
    return Agent[Any](name="Desk", model=FallbackModel(*models), **fields)


async def ask(agent: Agent[Any], models: Mapping[str, Model], asked: Any = "Hello", **options: Any):
    """Run an agent in memory with a provider of these models."""
    return await run_in_memory(agent, asked, model=Models(models), **options)  # pyright: ignore[reportArgumentType]


@function_tool
def look_up(order: str) -> str:
    """Look an order up."""
    return f"{order} is on its way."


# --- When another model follows ------------------------------------------------------------------


async def test_the_next_model_answers_when_the_attempts_of_the_first_are_used_up():
    first, second = busy(), ScriptedModel("Here.")

    result = await ask(desk("first", "second"), {"first": first, "second": second})

    assert result.final_output == "Here."
    assert (first.calls, second.calls) == (10, 1)
    assert list(result.cost.by_model) == ["second"]


@pytest.mark.parametrize("reason", OF_ITS_OWN)
async def test_a_model_that_refuses_for_its_own_reason_is_not_asked_again(reason: str):
    first = ScriptedModel(model_error(reason, retryable=False))
    second = ScriptedModel("Here.")

    result = await ask(desk("first", "second"), {"first": first, "second": second})

    assert (result.final_output, first.calls, second.calls) == ("Here.", 1, 1)


@pytest.mark.parametrize("reason", NOT_OF_ITS_OWN)
async def test_a_request_that_is_at_fault_is_not_sent_to_another_model(reason: str):
    first = ScriptedModel(model_error(reason, retryable=False))
    second = ScriptedModel("Here.")

    with pytest.raises(ModelCallFailed, match=reason):
        await ask(desk("first", "second"), {"first": first, "second": second})

    assert second.calls == 0


async def test_code_of_the_program_that_fails_is_not_a_model_that_does_not_answer():
    second = ScriptedModel("Here.")
    broken = ScriptedModel(*[ValueError("a defect")] * 3)

    with pytest.raises(ValueError, match="a defect"):
        await ask(desk("first", "second"), {"first": broken, "second": second})

    assert (broken.calls, second.calls) == (1, 0)  # each call of it may cost


async def test_a_model_that_takes_longer_than_its_own_time_out_is_followed():
    limit = ModelSettings(timeout=timedelta(seconds=0.01), retry=ModelRetrySettings(max_retries=0))
    never = ScriptedModel(wait_for(asyncio.Event(), "Never."))
    second = ScriptedModel("Here.")

    result = await ask(desk(("first", limit), "second"), {"first": never, "second": second})

    assert (result.final_output, never.calls) == ("Here.", 1)
    assert second.requests[0].settings.timeout is None


async def test_when_no_model_answers_the_failure_says_why_of_each():
    first, second = ScriptedModel(NO_QUOTA), busy()

    with pytest.raises(ModelCallFailed) as caught:
        await ask(desk("first", "second"), {"first": first, "second": second})

    assert str(caught.value) == (
        "No model answered (first: quota_exceeded). The last one: The provider failed: overloaded."
    )


async def test_a_question_stays_with_the_model_that_answers():
    first, second = (
        ScriptedModel(NO_QUOTA),
        ScriptedModel([call("look_up", "c1", order="A-1")], "Yes"),
    )

    result = await ask(desk("first", "second", tools=[look_up]), {"first": first, "second": second})

    assert (result.final_output, first.calls, second.calls) == ("Yes", 1, 2)


async def test_each_agent_as_a_tool_begins_with_its_own_first_model():
    inner = Agent[Any](name="Inner", model=FallbackModel("broken", "second"))
    outer = Agent[Any](name="Outer", model="outer", tools=[inner.as_tool("ask_inner", "Ask.")])
    models = {
        "outer": ScriptedModel([call("ask_inner", "c1", input="?")], "Done."),
        "broken": ScriptedModel(NO_QUOTA),
        "second": ScriptedModel("From within."),
    }

    result = await ask(outer, models)

    assert result.final_output == "Done."
    assert models["second"].calls == 1


async def test_a_handoffs_agent_has_its_own_models():
    billing = Agent[Any](name="Billing", model=FallbackModel("third", "fourth"))
    models = {
        "first": ScriptedModel(NO_QUOTA),
        "second": ScriptedModel([call("transfer_to_billing", "h1")]),
        "third": ScriptedModel(NO_QUOTA),
        "fourth": ScriptedModel("Paid."),
    }

    result = await ask(desk("first", "second", handoffs=[billing]), models)

    assert result.final_output == "Paid."
    assert set(result.cost.by_model) == {"second", "fourth"}


# --- Settings, prices and names ------------------------------------------------------------------


async def test_a_model_with_settings_has_these_in_place_of_the_agents_and_the_runs_override_both():
    first, second, third = ScriptedModel(NO_QUOTA), ScriptedModel(NO_QUOTA), ScriptedModel("Here.")
    agent = desk(
        "first",
        ("second", ModelSettings(temperature=0.5)),
        "third",
        model_settings=ModelSettings(reasoning={"effort": "high"}, temperature=0.1),
    )
    config = RunConfig(model_settings=ModelSettings(max_tokens=70))

    await ask(agent, {"first": first, "second": second, "third": third}, run_config=config)

    (one,), (two,), (three,) = (
        [request.settings for request in model.requests] for model in (first, second, third)
    )
    assert (one.reasoning, one.temperature, one.max_tokens) == ({"effort": "high"}, 0.1, 70)
    assert (two.reasoning, two.temperature, two.max_tokens) == (None, 0.5, 70)
    assert three == one


async def test_the_defaults_of_a_name_are_those_of_the_model_that_is_called():
    first, second = ScriptedModel(NO_QUOTA), ScriptedModel("Here.")

    await ask(desk("gpt-5.1", "litellm/other"), {"gpt-5.1": first, "litellm/other": second})

    assert first.requests[0].settings.verbosity == "low"
    assert second.requests[0].settings.verbosity is None


async def test_a_run_names_models_that_outrank_the_agents():
    second = ScriptedModel("Here.")
    models = {"first": ScriptedModel(NO_QUOTA), "second": second}
    config = RunConfig(model=FallbackModel("first", "second"))

    result = await ask(Agent[Any](name="Desk", model="other"), models, run_config=config)

    assert result.final_output == "Here."


async def test_models_may_be_objects_of_the_program():
    first, second = ScriptedModel(NO_QUOTA), ScriptedModel("Here.")

    result = await ask(desk(first, second), {})

    assert result.final_output == "Here."
    config = RunConfig(model=FallbackModel(ScriptedModel(NO_QUOTA), ScriptedModel("There.")))
    result = await ask(Agent[Any](name="Desk"), {}, run_config=config)
    assert result.final_output == "There."


async def test_an_unknown_name_fails_before_the_first_model_is_paid_for():
    first = ScriptedModel("Here.")

    with pytest.raises(UserError, match="There is no model 'missing'"):
        await ask(desk("first", "missing"), {"first": first})

    assert first.calls == 0


async def test_a_budget_in_money_needs_a_price_of_every_model():
    first, second = ScriptedModel("Here."), ScriptedModel("There.")
    config = RunConfig(budgets=[Budget(usd=1)])

    with pytest.raises(UserError, match="the model 'no-such-model' has no price"):
        await ask(
            desk("gpt-4.1", "no-such-model"),
            {"gpt-4.1": first, "no-such-model": second},
            run_config=config,
        )

    assert first.calls == 0


async def test_the_cost_is_that_of_the_model_that_answered():
    models = {"gpt-4.1": ScriptedModel(NO_QUOTA), "gpt-4.1-nano": ScriptedModel("Here.")}
    cheap = await ask(desk("gpt-4.1", "gpt-4.1-nano"), models)
    dear = await ask(desk("gpt-4.1", "gpt-4.1-nano"), {**models, "gpt-4.1": ScriptedModel("Here.")})

    assert cheap.cost.usd is not None
    assert dear.cost.usd is not None
    assert 0 < cheap.cost.usd < dear.cost.usd


# --- What binds a conversation to a provider -----------------------------------------------------


async def test_where_the_provider_keeps_the_conversation_only_its_models_follow():
    class OfAnother(ScriptedModel):
        pass

    models: dict[str, Model] = {
        "first": ScriptedModel(NO_QUOTA),
        "other": OfAnother("From another provider."),
        "sibling": ScriptedModel("From the same one."),
    }
    agent = desk("first", "other", "sibling")

    result = await ask(agent, models, previous_response_id="resp_0")

    assert result.final_output == "From the same one."


async def test_where_no_model_of_the_provider_is_left_the_question_fails_with_its_reason():
    class OfAnother(ScriptedModel):
        pass

    other = OfAnother("From another provider.")
    models: dict[str, Model] = {"first": ScriptedModel(NO_QUOTA), "other": other}

    with pytest.raises(ModelCallFailed, match=r"^The provider failed: quota_exceeded"):
        await ask(desk("first", "other"), models, conversation_id="conv_1")

    assert other.calls == 0


async def test_models_of_one_server_keep_conversations_for_each_other():
    one = OpenAIProvider(api_key="sk-a-key", base_url="http://127.0.0.1:1/v1")
    two = OpenAIProvider(api_key="sk-a-key", base_url="http://127.0.0.1:2/v1")
    models = one.get_model("gpt-5.6"), one.get_model("gpt-5.5"), two.get_model("gpt-5.5")

    assert [model.conversations_at() for model in models if isinstance(model, ResponsesModel)] == [
        "http://127.0.0.1:1/v1",
        "http://127.0.0.1:1/v1",
        "http://127.0.0.1:2/v1",
    ]


def request_of(agent: Agent[Any], *raws: dict[str, Any], **fields: Any) -> EffectRequest[CallModel]:
    items = tuple(Item("input", raw) for raw in raws) or (
        Item("input", {"role": "user", "content": "Hello"}),
    )
    effect = CallModel(
        effect=2, agent=agent.name, turn=1, input_length=len(items), run_id="run", **fields
    )
    return EffectRequest(effect=effect, items=items)


async def failure_of(
    agent: Agent[Any],
    models: Mapping[str, Model],
    request: EffectRequest[CallModel],
    attempt: Attempt | None = None,
    **deps: Any,
) -> EffectError:
    worker = WorkerDeps(registry=Registry([agent]), models=Models(models), **deps)
    with pytest.raises(EffectError) as caught:
        await call_model(worker, request, attempt or Attempt())
    return caught.value


async def test_a_summary_that_only_its_provider_reads_is_not_sent_to_another_one():
    class OfAnother(ScriptedModel):
        pass

    agent = desk("first", "other", "sibling")
    models: dict[str, Model] = {
        "first": ScriptedModel(NO_QUOTA),
        "other": OfAnother(),
        "sibling": ScriptedModel(),
    }
    summary = {"type": "compaction", "encrypted_content": "…"}

    error = await failure_of(agent, models, request_of(agent, summary))

    assert error.details == {
        "reason": "quota_exceeded",
        "status": 429,
        NEXT_MODEL: {"at": 2, "model": "sibling", "tried": "first"},
    }


async def test_a_model_that_is_unknown_since_a_deploy_does_not_follow_where_the_thread_is_kept():
    agent = desk("first", "gone")
    models: dict[str, Model] = {"first": ScriptedModel(NO_QUOTA)}

    error = await failure_of(
        agent, models, request_of(agent, previous_response_id="r", chained=True)
    )

    assert NEXT_MODEL not in (error.details or {})


async def test_after_a_deploy_with_fewer_models_the_last_one_is_called():
    agent = desk("first", "second")
    second = ScriptedModel(NO_QUOTA)

    error = await failure_of(agent, {"second": second}, request_of(agent, model_at=7))

    assert (second.calls, NEXT_MODEL in (error.details or {})) == (1, False)


# --- The operators' file -------------------------------------------------------------------------


def file_of(text: str) -> ApprovalFile:
    return ApprovalFile("ops.toml", text)


async def next_of(agent: Agent[Any], text: str, names: Sequence[str]) -> Any:
    models: dict[str, Model] = {"first": ScriptedModel(NO_QUOTA)}
    models |= {name: ScriptedModel() for name in names}
    error = await failure_of(agent, models, request_of(agent), approvals=file_of(text))
    return (error.details or {}).get(NEXT_MODEL)


async def test_operators_name_what_follows_a_model():
    single = Agent[Any](name="Desk", model="first")
    several = desk("first", "second")
    everyone, nobody = '[fallback]\nmodels = ["third"]', "[fallback]\nmodels = []"
    of_agent = f'{nobody}\n[agent.Desk.fallback]\nmodels = ["fourth"]'

    third = {"at": 1, "model": "third", "tried": "first"}
    assert await next_of(single, everyone, ["third"]) == third
    assert await next_of(several, everyone, ["second", "third"]) == third
    assert await next_of(several, nobody, ["second"]) is None
    assert await next_of(several, of_agent, ["fourth"]) == {**third, "model": "fourth"}
    of_another = '[agent.Other.fallback]\nmodels = ["fourth"]'
    assert await next_of(several, of_another, ["second"]) == {**third, "model": "second"}


# --- Text that has left --------------------------------------------------------------------------


async def test_no_other_model_follows_once_text_of_a_stream_has_left():
    first = ScriptedModel(fail_after(5, NO_QUOTA, "A long answer of many words."))
    second = ScriptedModel("Another answer.")
    agent = desk("first", "second")
    models: Any = Models({"first": first, "second": second})

    stream = run_in_memory_streamed(agent, "Hello", model=models)
    with pytest.raises(ModelCallFailed, match=r"^The provider failed: quota_exceeded"):
        async for _ in stream.stream_events():
            pass

    assert second.calls == 0


async def test_a_stream_that_ends_before_its_first_text_is_followed():
    first = ScriptedModel(fail_after(1, NO_QUOTA, "A long answer of many words."))
    models: Any = Models({"first": first, "second": ScriptedModel("Another answer.")})

    stream = run_in_memory_streamed(desk("first", "second"), "Hello", model=models)
    async for _ in stream.stream_events():
        pass

    assert stream.final_output == "Another answer."


async def test_text_that_left_on_an_earlier_attempt_counts():
    steps = [fail_after(5, BUSY, "A long answer of many words."), *[BUSY] * 9]
    second = ScriptedModel("Another answer.")
    models: Any = Models({"first": ScriptedModel(*steps), "second": second})

    stream = run_in_memory_streamed(desk("first", "second"), "Hello", model=models)
    with pytest.raises(ModelCallFailed, match=r"^The provider failed: overloaded"):
        async for _ in stream.stream_events():
            pass

    assert second.calls == 0


async def test_who_watches_a_run_that_is_not_streamed_changes_nothing():
    agent = desk("first", "second")
    events: list[Any] = []
    shown = ShownText()
    attempt = Attempt(on_event=events.append, has_reader_here=lambda: True, shown=shown)
    first = ScriptedModel(fail_after(5, NO_QUOTA, "A long answer of many words."))

    error = await failure_of(
        agent, {"first": first, "second": ScriptedModel()}, request_of(agent), attempt
    )

    assert any(one["type"] == "response.output_text.delta" for one in events)
    assert NEXT_MODEL in (error.details or {})
    assert not shown.has_left


async def test_the_stream_of_an_agent_as_a_tool_counts_where_its_callback_gets_the_text():
    heard: list[Any] = []
    inner = Agent[Any](name="Inner", model=FallbackModel("broken", "second"))
    tool = inner.as_tool("ask_inner", "Ask.", on_stream=heard.append)
    outer = Agent[Any](name="Outer", model="outer", tools=[tool])
    second = ScriptedModel("Another answer.")
    models: dict[str, Model] = {
        "outer": ScriptedModel([call("ask_inner", "c1", input="?")], "Done."),
        "broken": ScriptedModel(fail_after(5, NO_QUOTA, "A long answer of many words.")),
        "second": second,
    }

    stream = run_in_memory_streamed(outer, "Hello", model=Models(models))  # pyright: ignore[reportArgumentType]
    async for _ in stream.stream_events():
        pass

    assert heard
    assert second.calls == 0


async def test_an_answer_that_a_person_approves_is_not_shown_before_so_another_model_follows():
    agent = desk("first", "second", output_approval=True)
    shown = ShownText()
    attempt = Attempt(on_event=lambda _: None, shown=shown)
    first = ScriptedModel(fail_after(5, NO_QUOTA, say("A long answer of many words.")))

    error = await failure_of(
        agent,
        {"first": first, "second": ScriptedModel()},
        request_of(agent, streams=True),
        attempt,
    )

    assert NEXT_MODEL in (error.details or {})


async def test_a_summary_of_the_conversation_comes_from_the_model_that_answers():
    second = ScriptedModel(
        [call("look_up", "c1", order="A-1" * 500)],
        say("Noted."),
        "Here.",
    )
    agent = desk("first", "second", tools=[look_up], compaction=Compaction(window=16, above=0.1))

    await ask(agent, {"first": ScriptedModel(NO_QUOTA), "second": second})

    assert second.calls >= 2
