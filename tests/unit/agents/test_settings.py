"""The settings of a run as they travel."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from outlast.agents.config.model_settings import ModelSettings, read_model_settings
from outlast.agents.config.run_config import RunConfig
from outlast.agents.config.session_input import SessionSettings
from outlast.agents.config.settings import (
    read_session_settings,
    read_tool_execution,
    references_in,
    write_run_config,
)
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import UserError
from outlast.agents.guardrails.guardrail import (
    GuardrailFunctionOutput,
    input_guardrail,
    output_guardrail,
)
from outlast.agents.references import RunReferences, resolve
from outlast.agents.tools.use_behavior import ToolExecutionConfig
from outlast.loop.values import JsonObject

HERE = __name__


class HouseModel:
    async def get_response(self, request: object) -> object:
        return request


class HouseProvider:
    def get_model(self, name: str | None) -> HouseModel:
        return HouseModel()


@input_guardrail
def polite(ctx: RunContextWrapper[Any], agent: Any, text: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)


@output_guardrail
def safe(ctx: RunContextWrapper[Any], agent: Any, output: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)


def merge(history: list[Any], new_items: list[Any]) -> list[Any]:
    return [*history, *new_items]


def trim(data: Any) -> Any:
    return data


def blocked(withheld: Any) -> str:
    return "withheld"


def written_by(config: Any, references: RunReferences | None = None) -> JsonObject:
    return write_run_config(config, (references or RunReferences()).name)


def test_a_run_carries_only_what_is_set() -> None:
    assert written_by(RunConfig()) == {}
    assert written_by(None) == {}
    assert written_by(RunConfig(model="gpt-5")) == {"model": "gpt-5"}
    assert written_by({"model": "gpt-5"}) == {"model": "gpt-5"}


def test_plain_data_travels_as_it_is() -> None:
    written = written_by(
        RunConfig(
            tool_not_found_behavior="raise",
            heartbeat_timeout=timedelta(seconds=2),
            stream_interval=timedelta(milliseconds=250),
            model_settings=ModelSettings(temperature=0),
            session_settings=SessionSettings(limit=5),
            nest_handoff_history=True,
            conversation_history_wrappers=("<a>", "</a>"),
            reasoning_item_id_policy="omit",
            tracing_disabled=True,
            tracing={"include_task_and_turn_spans": True},
            trace_include_sensitive_data=False,
            workflow_name="Support",
            trace_id="trace_1",
            group_id="chat-7",
            trace_metadata={"tier": "gold"},
            tool_name_collision_policy="error",
            tool_execution=ToolExecutionConfig(max_function_tool_concurrency=2),
            output_guardrail_blocked_message="withheld",
        )
    )
    assert json.loads(json.dumps(written)) == {
        "tool_not_found_behavior": "raise",
        "heartbeat_ms": 2000,
        "stream_interval_ms": 250,
        "model_settings": {"temperature": 0},
        "session_settings": {"limit": 5},
        "nest_handoff_history": True,
        "conversation_history_wrappers": ["<a>", "</a>"],
        "reasoning_item_id_policy": "omit",
        "tracing_disabled": True,
        "tracing": {"include_task_and_turn_spans": True},
        "trace_include_sensitive_data": False,
        "workflow_name": "Support",
        "trace_id": "trace_1",
        "group_id": "chat-7",
        "trace_metadata": {"tier": "gold"},
        "tool_name_collision_policy": "error",
        "tool_execution": {
            "max_function_tool_concurrency": 2,
            "pre_approval_tool_input_guardrails": False,
        },
        "output_guardrail_blocked_message": "withheld",
    }
    assert references_in(written) == []


def test_callables_and_objects_travel_by_names_that_the_run_has() -> None:
    model, provider, references = HouseModel(), HouseProvider(), RunReferences()
    config = RunConfig(
        model=model,
        model_provider=provider,
        session_input_callback=merge,
        input_guardrails=[polite],
        output_guardrails=[safe],
        handoff_input_filter=trim,
        handoff_history_mapper=trim,
        call_model_input_filter=trim,
        call_model_output_filter=trim,
        tool_error_formatter=trim,
        output_guardrail_blocked_message=blocked,
    )
    written = written_by(config, references)
    names = references_in(json.loads(json.dumps(written)))
    assert written["call_model_input_filter"] == f"{HERE}:trim"
    assert written["call_model_output_filter"] == f"{HERE}:trim"
    assert written["input_guardrails"] == [f"{HERE}:polite"]
    assert written["model_ref"] == f"run:{HERE}:HouseModel"
    assert references[written["model_ref"]] is model
    assert "model" not in written
    assert resolve(written["output_guardrail_blocked_message_ref"]) is blocked
    found = [references[name] for name in names]
    assert found == [model, provider, merge, trim, blocked, polite, safe]


def test_a_name_that_the_worker_gave_travels_as_it_is() -> None:
    written = written_by(RunConfig(call_model_input_filter="trimmer"))
    assert written == {"call_model_input_filter": "trimmer"}
    assert references_in(written) == ["trimmer"]


def test_a_lambda_travels_by_its_line() -> None:
    keep: Callable[[Any], Any] = lambda data: data  # noqa: E731
    references = RunReferences()
    settings = written_by(RunConfig(call_model_input_filter=keep), references)
    name = settings["call_model_input_filter"]
    assert f"<lambda>:{keep.__code__.co_firstlineno}" in name
    assert references[name] is keep


def test_hooks_and_error_handlers_of_a_run_are_names_too() -> None:
    settings = {
        "hooks": "app:Logging",
        "error_handlers": {"max_turns": "app:sorry", "model_refusal": "app:sorry"},
        "model": "gpt-5",
        "workflow_name": "app:trim",
    }
    assert references_in(settings) == ["app:Logging", "app:sorry"]


@pytest.mark.parametrize(
    "settings",
    [None, {}, [], "x", {"hooks": 5}, {"error_handlers": "x"}, {"input_guardrails": {"a": 1}},
     {"output_guardrails": [None]}],
)  # fmt: skip
def test_what_was_typed_by_hand_holds_no_names(settings: Any) -> None:
    assert references_in(settings) == []


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"model": object()}, r"RunConfig\(model=...\) must be a model's name"),
        ({"model_settings": ["temperature"]}, r"must be ModelSettings, not \['temperature'\]"),
        ({"model_settings": ModelSettings(extra_args={"x": object()})}, "must be plain data"),
        ({"model_settings": ModelSettings(extra_body={"x": b"1"})}, "must be plain data"),
        ({"heartbeat_timeout": 5}, r"heartbeat_timeout=\.\.\.\) must be a timedelta, not 5"),
        ({"trace_metadata": {"x": object()}}, r"trace_metadata=...\) must be plain data"),
    ],
)
def test_what_cannot_travel_is_refused_before_the_run_starts(
    config: dict[str, Any], problem: str
) -> None:
    with pytest.raises(UserError, match=problem):
        written_by(RunConfig(**config))


SECRET = "t0p-s3cret"


@pytest.mark.parametrize(
    ("config", "place"),
    [
        ({"tracing": {"api_key": SECRET}}, "tracing.api_key"),
        *(
            ({"model_settings": {"extra_headers": {name: SECRET}}},
             f"model_settings.extra_headers.{name}")
            for name in (
                "Authorization", "authorization", "Proxy-Authorization", "Cookie", "X-Api-Key",
                "x-goog-api-key", "api-key", "Ocp-Apim-Subscription-Key", "X-Auth-Token",
                "X-Vault-Token", "X-Amz-Security-Token", "cf-aig-authorization",
            )
        ),
        *(
            ({"model_settings": {"extra_headers": {"X-Team": value}}},
             "model_settings.extra_headers.X-Team")
            for value in (
                f"Bearer {SECRET}", "Basic dTpw", "sk-proj-0123456789abcdefghij",
                "sk-ant-api03-0123456789abcdefghij", "ghp_0123456789abcdefghijklmnop",
                "xoxb-0123456789-abc", "AIza0123456789abcdefghijklmnopqrstu",
                "AKIA0123456789ABCDEF", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2ln",
                "-----BEGIN RSA PRIVATE KEY-----\nMII", f"https://ann:{SECRET}@models.internal",
            )
        ),
        ({"model_settings": ModelSettings(extra_query={"access_token": SECRET})},
         "model_settings.extra_query.access_token"),
        ({"model_settings": ModelSettings(extra_body={"tools": [{"apiKey": SECRET}]})},
         "model_settings.extra_body.tools[0].apiKey"),
        ({"model_settings": ModelSettings(extra_args={"aws": {"secret_access_key": SECRET}})},
         "model_settings.extra_args.aws.secret_access_key"),
        ({"model_settings": ModelSettings(metadata={"password": SECRET})},
         "model_settings.metadata.password"),
        ({"trace_metadata": {"token": SECRET}}, "trace_metadata.token"),
        ({"group_id": f"Bearer {SECRET}"}, "group_id"),
    ],
)  # fmt: skip
def test_secrets_do_not_travel(config: dict[str, Any], place: str) -> None:
    with pytest.raises(UserError) as caught:
        written_by(RunConfig(**config))
    assert f"RunConfig: {place} looks like a secret" in str(caught.value)
    assert SECRET not in str(caught.value)


def test_settings_that_only_sound_like_secrets_travel() -> None:
    settings = ModelSettings(
        max_tokens=100,
        prompt_cache_key="customer-7",
        extra_headers={"Idempotency-Key": "order-7", "X-Team": "billing", "Authorization": ""},
        extra_body={"stop_token_ids": [1], "eos_token": "</s>", "max_completion_tokens": 9},
        extra_query={"api-version": "2026-01-01"},
    )
    written = written_by(
        RunConfig(model_settings=settings, trace_metadata={"task": "Basic", "secrets": 2})
    )
    assert read_model_settings(written["model_settings"]) == settings


def test_what_travelled_is_read() -> None:
    execution = ToolExecutionConfig(
        max_function_tool_concurrency=3, pre_approval_tool_input_guardrails=True
    )
    written = written_by(
        RunConfig(
            tool_execution=execution,
            session_settings=SessionSettings(limit=0),
            model_settings=ModelSettings(timeout=3),
        )
    )
    assert read_tool_execution(written) == execution
    assert read_session_settings(written) == SessionSettings(limit=0)
    assert read_model_settings(written["model_settings"]) == ModelSettings(timeout=3)


@pytest.mark.parametrize(
    "settings",
    [None, {}, {"tool_execution": 5, "session_settings": 5},
     {"tool_execution": {"max_function_tool_concurrency": -1}, "session_settings": {"limit": "x"}}],
)  # fmt: skip
def test_what_cannot_be_read_counts_as_not_given(settings: Any) -> None:
    assert read_tool_execution(settings) == ToolExecutionConfig()
    assert read_session_settings(settings) is None
