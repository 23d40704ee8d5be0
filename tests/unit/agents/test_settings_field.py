"""Settings may be given as dicts of their fields, wherever settings are taken."""

import copy
import dataclasses
import pickle
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.config.model_settings import ModelSettings
from outlast.agents.config.retry import ModelRetrySettings
from outlast.agents.config.run_config import RunConfig
from outlast.agents.config.session_input import SessionSettings
from outlast.agents.config.settings_field import as_settings
from outlast.agents.errors import UserError
from outlast.agents.tools.use_behavior import ToolExecutionConfig
from outlast.sessions.sqlite import SQLiteSession

CALM: Any = {"reasoning": {"effort": "low"}, "retry": {"max_retries": 1}, "verbosity": "low"}
CALMED = ModelSettings(
    reasoning={"effort": "low"}, retry=ModelRetrySettings(max_retries=1), verbosity="low"
)


def test_an_agent_takes_its_model_settings_as_a_dict_at_any_time() -> None:
    agent = Agent(name="A", model_settings=CALM)
    assert agent.model_settings == CALMED
    assert agent.clone(model_settings={"top_p": 0.5}).model_settings == ModelSettings(top_p=0.5)
    agent.model_settings = {"top_p": 0.1}
    assert agent.model_settings == ModelSettings(top_p=0.1)
    assert Agent(name="B").model_settings == ModelSettings()


def test_an_agent_that_is_made_in_another_way_has_the_default() -> None:
    class Bare(Agent[None]):
        def __init__(self) -> None:
            self.name = "Bare"

    assert Bare().model_settings == ModelSettings()


def test_a_copy_has_the_settings_and_a_field_of_its_own() -> None:
    agent = Agent(name="A", model_settings=CALM)
    for twin in (copy.copy(agent), copy.deepcopy(agent), pickle.loads(pickle.dumps(agent))):
        assert twin.model_settings == CALMED
        twin.model_settings = ModelSettings(top_p=1)
    assert agent.model_settings == dataclasses.replace(agent, name="B").model_settings == CALMED
    assert dataclasses.asdict(agent)["model_settings"]["verbosity"] == "low"


def test_a_runs_settings_may_be_dicts() -> None:
    config = RunConfig(
        model_settings=CALM,
        session_settings={"limit": 3},
        tool_execution={"max_function_tool_concurrency": 2},
    )
    assert config.model_settings == CALMED
    assert config.session_settings == SessionSettings(limit=3)
    assert config.tool_execution == ToolExecutionConfig(max_function_tool_concurrency=2)
    assert RunConfig().model_settings is None


def test_a_session_and_what_is_laid_over_settings_may_be_dicts() -> None:
    limited = SQLiteSession("s", session_settings={"limit": 3})
    assert limited.session_settings == SessionSettings(limit=3)
    assert SQLiteSession("s").session_settings == SessionSettings()
    assert SessionSettings(limit=1).resolve({"limit": 2}) == SessionSettings(limit=2)
    assert SessionSettings(limit=1).resolve({}) == SessionSettings(limit=1)
    assert ModelSettings(top_p=0.5).resolve(CALM).top_p == 0.5
    assert ModelSettings(top_p=0.5).resolve({"top_p": 1}) == ModelSettings(top_p=1)


def test_a_key_that_is_no_field_is_refused_with_those_that_are() -> None:
    with pytest.raises(
        UserError, match=r"^Unknown session settings: most\. The fields of SessionSettings are lim"
    ):
        RunConfig(session_settings={"most": 3})
    with pytest.raises(UserError, match=r"^Unknown model settings: heat, tempo\. The fields"):
        Agent(name="A", model_settings={"tempo": 1, "heat": 2})


def test_what_is_neither_is_left_for_others_to_refuse() -> None:
    assert as_settings(ModelSettings, 5) == 5
    given: Any = 5
    with pytest.raises(UserError, match="model_settings must be ModelSettings, not 5"):
        Agent(name="A", model_settings=given)
