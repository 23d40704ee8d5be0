"""A reply and its plan have to fit each other, or a call would go unanswered."""

from typing import Any

import pytest

from outlast.loop.calls import (
    ExecutionOptions,
    ModelReply,
    NestedPlan,
    PlannedCall,
    RequiredApproval,
)
from outlast.loop.values import JsonObject

CALL: JsonObject = {"type": "function_call", "name": "f", "call_id": "c", "arguments": "{}"}
TEXT: JsonObject = {"type": "message", "content": "hi"}


def plan(item: int, **fields: Any) -> PlannedCall:
    chosen: dict[str, Any] = {"kind": "tool", **fields}
    return PlannedCall(item=item, **chosen)


@pytest.mark.parametrize(
    ("items", "calls"),
    [
        ((), ()),
        ((TEXT,), ()),
        ((CALL,), (plan(0),)),
        ((TEXT, CALL, TEXT, CALL), (plan(1), plan(3))),
        ((CALL, CALL), (plan(0), plan(1))),
        ((CALL,), (plan(0, kind="unknown", problem="No such tool."),)),
        ((CALL,), (plan(0, kind="handoff", target="B"),)),
        ((CALL,), (plan(0, problem="Bad arguments."),)),
        (({"type": "shell_call"},), (plan(0),)),
        (({"type": "shell_call"}, {"type": "shell_call_output"}), ()),
    ],
)
def test_a_plan_that_fits_its_reply_is_taken(
    items: tuple[JsonObject, ...], calls: tuple[PlannedCall, ...]
) -> None:
    assert ModelReply(items=items, calls=calls).calls == calls


@pytest.mark.parametrize(
    ("items", "calls"),
    [
        ((CALL,), ()),
        ((CALL, CALL), (plan(0),)),
        ((CALL,), (plan(0), plan(0))),
        ((CALL, CALL), (plan(0), plan(0))),
        ((CALL,), (plan(1),)),
        ((CALL,), (plan(-1),)),
        ((TEXT,), (plan(0),)),
        ((), (plan(0),)),
        (({"type": "web_search_call"},), (plan(0),)),
    ],
)
def test_a_plan_that_does_not_fit_its_reply_is_refused(
    items: tuple[JsonObject, ...], calls: tuple[PlannedCall, ...]
) -> None:
    with pytest.raises(ValueError, match="exactly one entry for each call"):
        ModelReply(items=items, calls=calls)


def test_an_unknown_call_needs_words_for_the_model() -> None:
    with pytest.raises(ValueError, match="needs a problem"):
        ModelReply(items=(CALL,), calls=(plan(0, kind="unknown"),))


def test_a_call_of_nothing_needs_nobodys_approval() -> None:
    unknown = plan(0, kind="unknown", problem="No such tool.", approval=RequiredApproval())
    with pytest.raises(ValueError, match="cannot need approval"):
        ModelReply(items=(CALL,), calls=(unknown,))


def test_a_handoff_may_need_a_person() -> None:
    reply = ModelReply(items=(CALL,), calls=(plan(0, kind="handoff", approval=RequiredApproval()),))
    assert reply.calls[0].approval is not None


def test_an_effect_is_bounded_unless_its_plan_says_otherwise() -> None:
    policy = ExecutionOptions()
    assert 0 < policy.timeout_ms < 3_600_000
    assert policy.timeout_seconds == policy.timeout_ms / 1_000
    assert 1 <= policy.attempts < 100
    assert 0 < policy.initial_interval_ms <= policy.maximum_interval_ms
    assert policy.backoff >= 1


def test_an_agent_that_works_as_a_tool_may_need_a_person() -> None:
    reply = ModelReply(items=(CALL,), calls=(plan(0, kind="agent", approval=RequiredApproval()),))
    assert reply.calls[0].approval is not None


@pytest.mark.parametrize("parallel", [0, -1])
def test_a_bound_that_lets_no_call_run_is_refused(parallel: int) -> None:
    """The run would wait for ever."""
    with pytest.raises(ValueError, match="parallel must be at least 1"):
        ModelReply(items=(), parallel=parallel)


def test_a_nested_run_takes_over_what_its_plan_does_not_say() -> None:
    nested = NestedPlan()
    assert (nested.max_turns, nested.settings, nested.session, nested.thread) == (
        None,
        None,
        False,
        None,
    )
