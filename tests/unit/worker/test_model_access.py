from typing import Any

import pytest

from outlast import FallbackModel
from outlast.agents.agent import Agent
from outlast.agents.approvals.policy_file import ApprovalFile
from outlast.agents.errors import UserError
from outlast.agents.registry import Registry
from outlast.models.multi_provider import MultiProvider
from outlast.ports.model import ModelError
from outlast.testing import ScriptedModel
from outlast.worker.model_access import check_following_models, places_of_models
from outlast.worker.plugin import OutlastPlugin

OPERATORS = '[fallback]\nmodels = ["other/model"]'


class Refused(ScriptedModel):
    async def check_access(self) -> str:
        raise ModelError("The key is refused.", code="unauthorized", retryable=False)


async def test_places_are_named_once() -> None:
    script = ScriptedModel()
    inner = Agent[Any](name="Inner", model=ScriptedModel())
    registry = Registry([Agent[Any](name="Desk", handoffs=[inner])])

    assert await places_of_models(registry, script) == ("a script, offline",)


async def test_a_refused_key_names_the_agent_and_how_to_work_offline() -> None:
    registry = Registry([Agent[Any](name="Desk", model=Refused())])

    with pytest.raises(UserError) as caught:
        await places_of_models(registry, ScriptedModel())

    assert caught.value.message == (
        "Agent 'Desk' has no model. The key is refused. To work without a model, give the agent "
        "scripted answers: model=ScriptedModel(...) of outlast.testing."
    )


async def test_a_missing_key_names_both_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    registry = Registry([Agent[Any](name="Desk")])

    with pytest.raises(UserError, match="Set OPENAI_API_KEY") as caught:
        await places_of_models(registry, MultiProvider())

    assert caught.value.message.count("ScriptedModel") == 1


async def test_a_model_without_a_check_is_left_alone() -> None:
    class Own:
        async def get_response(self, request: Any) -> Any: ...
        def stream_response(self, request: Any) -> Any: ...

    registry = Registry([Agent[Any](name="Desk", model=Own())])

    assert await places_of_models(registry, ScriptedModel()) == ()


async def test_the_keys_of_every_model_of_an_agent_are_checked() -> None:
    models = FallbackModel("first", Refused())
    registry = Registry([Agent[Any](name="Desk", model=models)])

    with pytest.raises(UserError, match="The key is refused"):
        await places_of_models(registry, ScriptedModel())


async def test_models_that_operators_name_are_checked_too() -> None:
    registry, script = Registry([Agent[Any](name="Desk", model="first")]), ScriptedModel()

    await places_of_models(registry, script, ApprovalFile("ops.toml", OPERATORS))

    assert script.names == ["first", "other/model"]


@pytest.mark.parametrize(
    ("model", "text"), [(FallbackModel("gpt-5.6", "other/model"), ""), ("gpt-5.6", OPERATORS)]
)
def test_an_unknown_name_of_a_model_that_follows_is_refused_with_its_fix(
    model: Any, text: str
) -> None:
    registry = Registry([Agent[Any](name="Desk", model=model)])
    file = ApprovalFile("ops.toml", text)

    with pytest.raises(UserError) as caught:
        check_following_models(registry, MultiProvider(), file)

    assert caught.value.message.startswith(
        "Agent 'Desk': the fallback model 'other/model' is unknown. Unknown prefix: other"
    )
    assert "MultiProvider(unknown_prefix_mode='model_id')" in caught.value.message


def test_an_object_that_follows_and_a_single_model_need_no_provider() -> None:
    agents = [
        Agent[Any](name="Desk", model=FallbackModel("other/first", ScriptedModel())),
        Agent[Any](name="Single", model="other/model"),
    ]
    check_following_models(Registry(agents), MultiProvider(), None)


async def test_a_worker_does_not_start_with_a_model_that_follows_and_is_unknown() -> None:
    models = FallbackModel("gpt-5.6", "other/model")
    plugin = OutlastPlugin([Agent[Any](name="Desk", model=models)])

    with pytest.raises(UserError, match="the fallback model 'other/model' is unknown"):
        await plugin.prepare()
