"""The forms of `require_approval`."""

from typing import Any

import pytest

from outlast.agents.approvals.policy import ApprovalPolicy
from outlast.agents.errors import UserError
from outlast.agents.mcp.approval import ApprovalByName, server_approval


@pytest.mark.parametrize(
    ("setting", "meaning"),
    [
        (None, False),
        ("always", True),
        ("never", False),
        (True, True),
        (False, False),
        (
            {"refund": "always", "find": "never", "tear": True},
            ApprovalByName({"refund": True, "find": False, "tear": True}),
        ),
        (
            {"always": {"tool_names": ["refund"]}, "never": {"tool_names": ["find"]}},
            ApprovalByName({"refund": True, "find": False}),
        ),
        ({"always": {"tool_names": ["refund"]}}, ApprovalByName({"refund": True})),
        ({"always": "never"}, ApprovalByName({"always": False})),
        (ApprovalPolicy(quorum=2), ApprovalPolicy(quorum=2)),
        (
            {"refund": ApprovalPolicy(quorum=2), "find": False},
            ApprovalByName({"refund": ApprovalPolicy(quorum=2), "find": False}, ApprovalPolicy(quorum=2)),
        ),
    ],
)  # fmt: skip
def test_what_a_setting_means(setting: Any, meaning: Any) -> None:
    assert server_approval(setting) == meaning


def test_a_tool_that_a_server_adds_asks_where_a_policy_asks_about_another() -> None:
    policy = ApprovalPolicy(quorum=2)
    guarded: Any = server_approval({"refund": policy, "find": "never"})
    assert [guarded.of(name) for name in ("refund", "find", "refund2")] == [policy, False, policy]
    as_in_the_sdk: Any = server_approval({"refund": "always"})
    assert not as_in_the_sdk.of("refund2")


def test_a_callable_is_asked_later() -> None:
    def rule(_context: Any, _agent: Any, _tool: Any) -> bool:
        return True

    assert server_approval(rule) is rule


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("sometimes", "require_approval is 'sometimes': it must be 'always', 'never'"),
        (1, "require_approval is 1"),
        ({"find": "perhaps"}, "require_approval for 'find' is 'perhaps'"),
        ({"always": {"tool_names": []}, "often": {}}, "not often"),
        ({"always": {"tool_names": "find"}}, r"require_approval\['always'\] must be"),
        ({"always": {"tool_names": [1]}}, r"require_approval\['always'\] must be"),
        ({"always": {"tool_names": ["a"]}, "never": ["b"]}, r"require_approval\['never'\] must be"),
        (
            {"always": {"tool_names": ["a"]}, "never": {"tool_names": ["a"]}},
            "has 'a' under both 'always' and 'never'",
        ),
        (lambda: True, r"require_approval is called with \(context, agent, tool\)"),
    ],
)
def test_a_setting_that_means_nothing_is_refused(setting: Any, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        server_approval(setting)
