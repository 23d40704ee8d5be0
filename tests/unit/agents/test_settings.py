"""Settings that travel with a run."""

import json
from dataclasses import fields
from datetime import timedelta
from typing import Any

import pytest

from outlast.agents.errors import UserError
from outlast.agents.settings import (
    ModelSettings,
    RunConfig,
    read_model_settings,
    write_run_config,
)

EVERYTHING = ModelSettings(
    temperature=0.0,
    top_p=0.5,
    frequency_penalty=0.1,
    presence_penalty=0.2,
    tool_choice="required",
    parallel_tool_calls=False,
    truncation="auto",
    max_tokens=100,
    reasoning={"effort": "low"},
    verbosity="low",
    metadata={"team": "support"},
    store=False,
    include=["reasoning.encrypted_content"],
    timeout=timedelta(milliseconds=1500),
    extra_headers={"x-a": "1"},
    extra_query={"q": 1},
    extra_body={"b": [1]},
    extra_args={"a": None},
)


def test_every_setting_survives_the_journey() -> None:
    assert all(getattr(EVERYTHING, field.name) is not None for field in fields(ModelSettings))
    written = write_run_config(RunConfig(model_settings=EVERYTHING))
    travelled = json.loads(json.dumps(written))
    assert read_model_settings(travelled["model_settings"]) == EVERYTHING


def test_a_run_carries_only_what_is_set() -> None:
    assert write_run_config(RunConfig()) == {}
    assert write_run_config(RunConfig(model="gpt-5")) == {"model": "gpt-5"}
    assert write_run_config(
        RunConfig(
            tool_not_found_behavior="raise",
            heartbeat_timeout=timedelta(seconds=2),
            model_settings=ModelSettings(temperature=0),
        )
    ) == {
        "tool_not_found_behavior": "raise",
        "heartbeat_ms": 2000,
        "model_settings": {"temperature": 0},
    }


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"model": object()}, "a model's name, so that it can travel"),
        ({"model_settings": {"temperature": 0}}, "must be ModelSettings, not {'temperature': 0}"),
        ({"model_settings": ModelSettings(extra_args={"x": object()})}, "must be plain data"),
        ({"model_settings": ModelSettings(extra_body={"x": b"1"})}, "must be plain data"),
        ({"heartbeat_timeout": 5}, r"heartbeat_timeout=\.\.\.\) must be a timedelta, not 5"),
    ],
)
def test_what_cannot_travel_is_refused_before_the_run_starts(
    config: dict[str, Any], problem: str
) -> None:
    with pytest.raises(UserError, match=problem):
        write_run_config(RunConfig(**config))


def test_a_bare_number_is_no_duration() -> None:
    seconds: Any = 30
    with pytest.raises(UserError, match=r"ModelSettings\(timeout=\.\.\.\) must be a timedelta"):
        write_run_config(RunConfig(model_settings=ModelSettings(timeout=seconds)))


@pytest.mark.parametrize("written", [None, {}, [], "hot", 5])
def test_what_is_no_settings_is_none(written: Any) -> None:
    assert read_model_settings(written) is None


@pytest.mark.parametrize("seconds", ["soon", None, -1, 0, [], 1e300])
def test_a_timeout_typed_by_hand_counts_where_it_is_one(seconds: Any) -> None:
    written = {"timeout_seconds": seconds, "temperature": 1, "colour": "red", "timeout": "x"}
    assert read_model_settings(written) == ModelSettings(temperature=1)


def test_what_is_laid_over_wins_field_by_field() -> None:
    own = ModelSettings(temperature=1, max_tokens=5, metadata={"a": "1"})
    over = ModelSettings(temperature=0.0, metadata={"b": "2"}, store=False)
    assert own.resolve(over) == ModelSettings(
        temperature=0.0, max_tokens=5, metadata={"b": "2"}, store=False
    )
    assert own.resolve(None) is own
    assert own.resolve(ModelSettings()) == own


def test_further_arguments_are_merged_key_by_key() -> None:
    own, over = ModelSettings(extra_args={"a": 1, "b": 1}), ModelSettings(extra_args={"b": 2})
    assert own.resolve(over).extra_args == {"a": 1, "b": 2}
    assert ModelSettings().resolve(over).extra_args == {"b": 2}
    assert own.extra_args == {"a": 1, "b": 1}, "the agent's own are untouched"
