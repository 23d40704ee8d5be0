from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.errors import UserError
from outlast.agents.registry import Registry
from outlast.models.multi_provider import MultiProvider
from outlast.ports.model import ModelError
from outlast.testing import ScriptedModel
from outlast.worker.model_access import places_of_models


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
