"""How to call a model."""

import copy
import json
from dataclasses import fields, replace
from datetime import timedelta
from typing import Any

import pytest
from openai.types.shared import Reasoning
from pydantic import BaseModel

from outlast.agents.config.model_settings import (
    MCPToolChoice,
    ModelSettings,
    read_model_settings,
    write_model_settings,
)
from outlast.agents.config.retry import ModelRetrySettings
from outlast.agents.errors import UserError

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
    top_logprobs=3,
    prompt_cache_retention="24h",
    prompt_cache_key="support",
    prompt_cache_options={"mode": "implicit"},
    include_usage=True,
    preserve_raw_usage=True,
    background=False,
    context_management=[{"type": "compaction"}],
    timeout=timedelta(milliseconds=1500),
    retry=ModelRetrySettings(max_retries=2),
    extra_headers={"x-a": "1"},
    extra_query={"q": 1},
    extra_body={"b": [1]},
    extra_args={"a": None},
)
ALIASES = {"response_include"}


def test_every_setting_survives_the_journey() -> None:
    names = {field.name for field in fields(ModelSettings)} - ALIASES
    assert all(getattr(EVERYTHING, name) is not None for name in names)
    travelled = json.loads(json.dumps(write_model_settings(EVERYTHING)))
    assert read_model_settings(travelled) == EVERYTHING


def test_settings_of_runs_that_started_before_are_read() -> None:
    written = {"temperature": 0, "timeout_seconds": 1.5, "include": ["x"]}
    read = ModelSettings(temperature=0, timeout=1.5, include=["x"])
    assert read_model_settings(written) == read
    assert write_model_settings(read) == written


def test_a_bare_number_as_timeout_is_seconds() -> None:
    assert ModelSettings(timeout=30).timeout == timedelta(seconds=30)


@pytest.mark.parametrize("timeout", [0, -1, "soon", True, float("nan"), timedelta(0)])
def test_a_timeout_that_makes_no_sense_is_refused(timeout: Any) -> None:
    with pytest.raises(UserError, match=r"ModelSettings\(timeout=\.\.\.\) must be a positive"):
        ModelSettings(timeout=timeout)


def test_the_openai_packages_record_of_reasoning_is_kept_as_a_dict() -> None:
    settings = ModelSettings(reasoning=Reasoning(effort="low", summary="auto"))
    assert settings.reasoning == {"effort": "low", "summary": "auto"}
    assert settings == ModelSettings(reasoning={"effort": "low", "summary": "auto"})


def test_reasoning_that_is_no_record_is_refused() -> None:
    effort: Any = "low"
    with pytest.raises(UserError, match=r"reasoning=\.\.\.\) must be a dict .* not 'low'"):
        ModelSettings(reasoning=effort)


def test_the_other_name_of_include_is_taken() -> None:
    settings = ModelSettings(response_include=["reasoning.encrypted_content"])
    assert settings == ModelSettings(include=["reasoning.encrypted_content"])
    own = ModelSettings(include=["a"])
    assert own.resolve(ModelSettings(response_include=["b"])).include == ["b"]


def test_retries_may_be_given_as_a_dict() -> None:
    retry: Any = {"max_retries": 4}
    assert ModelSettings(retry=retry).retry == ModelRetrySettings(max_retries=4)


@pytest.mark.parametrize(
    ("retry", "problem"),
    [
        (
            {"polcy": 1},
            "in retry: polcy. Did you mean .policy.. The fields of ModelRetrySettings are backoff",
        ),
        (
            {"policy": lambda: True},
            r"ModelRetrySettings\(policy=\.\.\.\) is called with \(context\)",
        ),
        ({"backoff": 1}, r"backoff=\.\.\.\) must be ModelRetryBackoffSettings, not 1"),
        (
            {"backoff": {"first": 1}},
            "in retry.backoff: first. The fields of ModelRetryBackoffSettings are initial_delay, jitter",
        ),
        ({"backoff": {"max_delay": -1}}, r"max_delay=\.\.\.\) must be a number from 0, not -1"),
        ({"max_retries": -1}, r"max_retries=\.\.\.\) must be a whole number from 0, not -1"),
        ({"max_retries": True}, "not True"),
        ({"max_retries": "2"}, "not '2'"),
        (3, r"retry=\.\.\.\) must be ModelRetrySettings, not 3"),
    ],
)
def test_retries_that_make_no_sense_are_refused(retry: Any, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        ModelSettings(retry=retry)


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        ("temperature", "hot", "a number, not 'hot'"),
        ("top_p", True, "a number, not True"),
        ("max_tokens", 1.5, r"a whole number, not 1\.5"),
        ("tool_choice", len, "a string or MCPToolChoice, not <built-in"),
        ("parallel_tool_calls", "no", "True or False, not 'no'"),
        ("metadata", [("team", "support")], "a dict, not"),
        ("include", "reasoning.encrypted_content", "a list, not"),
        ("extra_headers", "X: y", "a dict, not"),
    ],
)
def test_a_setting_of_the_wrong_type_is_refused_where_it_is_made(
    field: str, value: Any, wanted: str
) -> None:
    settings: Any = {field: value}
    with pytest.raises(UserError, match=rf"^ModelSettings\({field}=\.\.\.\) must be {wanted}"):
        ModelSettings(**settings)


@pytest.mark.parametrize("written", [None, {}, [], "hot", 5])
def test_what_is_no_settings_is_none(written: Any) -> None:
    assert read_model_settings(written) is None


@pytest.mark.parametrize("seconds", ["soon", None, -1, 0, [], 1e300])
@pytest.mark.parametrize("retry", [None, 3, {"max_retries": "x"}])
def test_what_was_typed_by_hand_counts_where_it_makes_sense(seconds: Any, retry: Any) -> None:
    written = {
        "timeout_seconds": seconds,
        "retry": retry,
        "temperature": 1,
        "colour": "red",
        "timeout": "x",
        "response_include": 5,
        "max_tokens": "many",
        "store": 1,
    }
    assert read_model_settings(written) == ModelSettings(temperature=1)


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        (ModelSettings(extra_args={"x": object()}), "extra_args"),
        (ModelSettings(extra_body={"x": b"1"}), "extra_body"),
    ],
)
def test_what_cannot_travel_is_refused_by_name(settings: ModelSettings, field: str) -> None:
    with pytest.raises(UserError, match=f"must be plain data \\(JSON\\): {field}: "):
        write_model_settings(settings)


def test_what_is_laid_over_wins_field_by_field() -> None:
    own = ModelSettings(temperature=1, max_tokens=5, metadata={"a": "1"}, timeout=5)
    over = ModelSettings(temperature=0.0, metadata={"b": "2"}, store=False)
    assert own.resolve(over) == ModelSettings(
        temperature=0.0, max_tokens=5, metadata={"b": "2"}, store=False, timeout=5
    )
    assert own.resolve(None) is own
    assert own.resolve(ModelSettings()) == own
    assert own.resolve(ModelSettings(timeout=6)).timeout == timedelta(seconds=6)


def test_further_arguments_are_merged_key_by_key() -> None:
    own, over = ModelSettings(extra_args={"a": 1, "b": 1}), ModelSettings(extra_args={"b": 2})
    assert own.resolve(over).extra_args == {"a": 1, "b": 2}
    assert ModelSettings().resolve(over).extra_args == {"b": 2}
    assert own.extra_args == {"a": 1, "b": 1}, "the agent's own are untouched"


def test_settings_can_be_written_down_whole() -> None:
    written = EVERYTHING.to_json_dict()
    assert list(written) == [field.name for field in fields(ModelSettings)]
    assert json.loads(json.dumps(written)) == written
    assert written["response_include"] == written["include"] == ["reasoning.encrypted_content"]
    assert (written["timeout"], written["retry"]) == (1.5, {"max_retries": 2, "backoff": None})
    written["metadata"]["team"] = "sales"
    assert EVERYTHING.metadata == {"team": "support"}
    assert set(ModelSettings().to_json_dict().values()) == {None}


def test_settings_can_be_copied_and_not_changed() -> None:
    assert copy.deepcopy(EVERYTHING) == EVERYTHING
    with pytest.raises(AttributeError):
        EVERYTHING.temperature = 1  # type: ignore[misc]  # what a program without types may try


def test_numbers_may_come_as_text_from_the_environment() -> None:
    texts: Any = {"temperature": "0.2", "max_tokens": "500"}
    settings = ModelSettings(**texts)
    assert (settings.temperature, settings.max_tokens) == (0.2, 500)


def test_a_tool_of_an_mcp_server_survives_the_journey() -> None:
    settings = ModelSettings(tool_choice=MCPToolChoice(server_label="wiki", name="search"))
    travelled = json.loads(json.dumps(write_model_settings(settings)))
    assert read_model_settings(travelled) == settings
    assert settings.to_json_dict()["tool_choice"] == {"server_label": "wiki", "name": "search"}


@pytest.mark.parametrize("choice", [{}, {"name": "x"}, {"server_label": 1, "name": "x"}, ["x"]])
def test_a_choice_that_names_no_tool_of_a_server_counts_as_not_given(choice: Any) -> None:
    assert read_model_settings({"tool_choice": choice, "store": True}) == ModelSettings(store=True)


def test_the_two_names_of_a_tool_of_an_mcp_server_are_texts() -> None:
    name: Any = None
    with pytest.raises(UserError, match="must be a string, not"):
        MCPToolChoice(server_label="wiki", name=name)


def test_retry_settings_merge_field_by_field() -> None:
    own = ModelSettings(retry=ModelRetrySettings(2, {"max_delay": 1}, "house"))  # pyright: ignore[reportArgumentType]
    over = ModelSettings(retry=ModelRetrySettings(5))
    merged = own.resolve(over).retry
    assert merged is not None
    assert (merged.max_retries, merged.policy) == (5, "house")
    assert own.to_json_dict()["retry"]["backoff"]["max_delay"] == 1
    assert read_model_settings(write_model_settings(own)) == own


def test_unknown_settings_are_ignored_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    unknown: dict[str, Any] = {"top_k": 5, "temprature": 1.0}
    settings = ModelSettings(temperature=0.5, **unknown)
    assert settings == ModelSettings(temperature=0.5)
    (record,) = caplog.records
    assert record.getMessage() == (
        "ModelSettings has no field temprature, top_k, which is ignored. Did you mean "
        "'temperature'? Use extra_args={'top_k': ...}, where the provider has it. A provider's own "
        "parameters go into extra_body or extra_args."
    )
    caplog.clear()
    assert replace(settings, top_p=0.1) == ModelSettings(temperature=0.5, top_p=0.1)
    assert caplog.records == []


def test_the_fields_are_in_the_order_of_the_agents_sdk() -> None:
    settings = ModelSettings(0.5, 0.9, None, None, "auto", True, None, 100)
    assert settings == ModelSettings(
        temperature=0.5, top_p=0.9, tool_choice="auto", parallel_tool_calls=True, max_tokens=100
    )


def test_the_keys_of_reasoning_are_attributes_too() -> None:
    values: tuple[Any, ...] = (Reasoning(effort="low"), {"effort": "low"})
    for given in values:
        reasoning: Any = ModelSettings(reasoning=given).reasoning
        assert (reasoning.effort, reasoning.summary) == ("low", None)
        assert reasoning == {"effort": "low"}
        assert copy.deepcopy(reasoning) == reasoning


def test_the_wait_between_retries_merges_key_by_key() -> None:
    own: Any = {"max_retries": 1, "backoff": {"initial_delay": 0.1, "jitter": True}}
    base = ModelSettings(retry=own)
    retry = base.resolve({"retry": {"backoff": {"multiplier": 3.0, "jitter": False}}}).retry
    assert retry is not None
    assert retry.max_retries == 1
    assert retry.to_json_dict()["backoff"] == {
        "initial_delay": 0.1,
        "max_delay": None,
        "multiplier": 3.0,
        "jitter": False,
    }


def test_traces_show_no_key_of_the_provider() -> None:
    secret = {"key": "sk-1"}
    settings = ModelSettings(
        temperature=0.5,
        extra_headers={"key": "sk-1"},
        extra_query=secret,
        extra_body=secret,
        extra_args=secret,
    )
    traced = settings.to_traceable_dict()
    assert traced["temperature"] == 0.5
    assert "sk-1" not in str(traced)


def test_a_pydantic_model_has_settings_as_a_field() -> None:
    class Profile(BaseModel):
        settings: ModelSettings

    profile = Profile.model_validate({"settings": {"temperature": 0.5, "timeout": 1.5}})
    assert profile.settings == ModelSettings(temperature=0.5, timeout=1.5)
    assert Profile.model_validate_json(profile.model_dump_json()) == profile
    with pytest.raises(TypeError, match="Unknown model settings: heat"):
        Profile.model_validate({"settings": {"heat": 1}})
