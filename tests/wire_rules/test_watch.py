"""Every request of a test to a model is checked, whatever carries it."""

import json
from typing import Any
from urllib.request import Request, urlopen

import pytest

from outlast import Agent
from outlast.agents.config.model_settings import ModelSettings
from outlast.models.failures import Target
from outlast.models.litellm import LitellmConnection
from outlast.testing import ScriptedModel, run_in_memory, say
from outlast.testing.demo.responses_server import ResponsesServer, message
from tests.wire_rules.watch import WATCH

HOT = ModelSettings(temperature=3)


def broken() -> dict[str, set[str]]:
    """Return the rules that were broken since the last look, by what carried the request."""
    rules: dict[str, set[str]] = {}
    for fault in WATCH.take():
        how, rule, _ = fault.split(": ", 2)
        rules.setdefault(how, set()).add(rule)
    return rules


async def ask_too_hot() -> None:
    agent = Agent(name="A", model_settings=HOT)
    await run_in_memory(agent, "Is it warm?", model=ScriptedModel("It is."))


async def test_what_a_scripted_model_is_asked_is_checked_as_a_body_of_both_apis() -> None:
    await ask_too_hot()
    assert broken() == {"as Chat Completions": {"number-range"}, "as Responses": {"number-range"}}


@pytest.mark.xfail(strict=True, raises=AssertionError, reason="it sends what a provider refuses")
async def test_a_test_fails_whose_requests_break_a_rule() -> None:
    await ask_too_hot()


@pytest.mark.breaks_rules("number-range")
async def test_a_test_may_break_a_rule_on_purpose() -> None:
    await ask_too_hot()


async def test_the_body_that_a_connection_sends_is_checked() -> None:
    async def answer(body: Any, settings: Any) -> object:
        return {"choices": []}

    target = Target(base_url="nobody", path="/chat/completions", model="m")
    connection = LitellmConnection(answer, lambda path, model: target)
    body = {"model": "m", "messages": [{"role": "user", "content": ""}]}
    await connection.post(target, body, ModelSettings())
    assert broken() == {"POST /chat/completions": {"content-empty"}}


async def test_what_a_model_has_made_tells_which_item_belongs_to_which_reasoning() -> None:
    thought: dict[str, Any] = {"type": "reasoning", "id": "rs_1", "summary": []}
    answer = {**say("It is warm.")[0], "id": "msg_1"}
    await run_in_memory(Agent(name="A"), "Is it?", model=ScriptedModel([thought, answer]))
    question = {"role": "user", "content": "Is it?"}
    WATCH.sent("/responses", {"model": "m", "input": [question, thought, answer, question]})
    WATCH.sent("/responses", {"model": "m", "input": [question, answer, question]})
    assert broken() == {"POST /responses": {"reasoning-kept"}}


def test_what_another_process_sends_to_the_server_of_the_demo_is_checked() -> None:
    body = {"model": "m", "input": [{"role": "user", "content": ""}]}
    with ResponsesServer(lambda body: [message("Hello.")]) as server:
        request = Request(f"{server.base_url}/responses", json.dumps(body).encode())
        request.add_header("content-type", "application/json")
        with urlopen(request) as response:
            assert response.status == 200
    assert broken() == {"POST /responses": {"content-empty"}}
