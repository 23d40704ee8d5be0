"""The example's environment variables: defaults, values, and what is wrong with a value."""

from datetime import timedelta
from pathlib import Path

import pytest
from support_desk import settings

VARIABLES = (
    *(settings.DATABASE, settings.REFUND_LIMIT, settings.LARGE_REFUND, settings.TOKENS),
    *(settings.TOOL_DELAY, "SUPPORT_DESK_BILLING"),
)


def check_defaults() -> None:
    assert settings.database_path() == Path("support_desk.db")
    assert settings.refund_limit_cents() == 100_00
    assert settings.large_refund_cents() == 1000_00
    assert settings.tokens() == 50_000
    assert settings.people("billing") == []
    assert settings.tool_delay() == timedelta()


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_with_nothing_set_the_defaults_hold() -> None:
    check_defaults()


def test_an_empty_variable_is_as_good_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, "")
    check_defaults()


def test_what_is_set_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUPPORT_DESK_DB", "/data/shop.db")
    monkeypatch.setenv("SUPPORT_DESK_REFUND_LIMIT", "99.50")
    monkeypatch.setenv("SUPPORT_DESK_LARGE_REFUND", "500")
    monkeypatch.setenv("SUPPORT_DESK_TOKENS", "1000")
    monkeypatch.setenv("SUPPORT_DESK_BILLING", "ann, bob,")
    monkeypatch.setenv("SUPPORT_DESK_TOOL_DELAY_SECONDS", "0.5")
    assert settings.database_path() == Path("/data/shop.db")
    assert settings.refund_limit_cents() == 99_50
    assert settings.large_refund_cents() == 500_00
    assert settings.tokens() == 1000
    assert settings.people("billing") == ["ann", "bob"]
    assert settings.tool_delay() == timedelta(seconds=0.5)


@pytest.mark.parametrize("text", ["much", "1.999", "-1", "inf"])
def test_a_refund_limit_that_is_no_amount_is_named(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("SUPPORT_DESK_REFUND_LIMIT", text)
    with pytest.raises(ValueError, match=r"SUPPORT_DESK_REFUND_LIMIT.*[Ww]rite"):
        settings.refund_limit_cents()


@pytest.mark.parametrize("text", ["soon", "-1", "inf", "nan"])
def test_a_delay_that_is_no_number_of_seconds_is_named(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("SUPPORT_DESK_TOOL_DELAY_SECONDS", text)
    with pytest.raises(ValueError, match=r"SUPPORT_DESK_TOOL_DELAY_SECONDS is .*write"):
        settings.tool_delay()


@pytest.mark.parametrize("text", ["many", "0", "-1", "1.5"])
def test_a_budget_that_is_no_number_of_tokens_is_named(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("SUPPORT_DESK_TOKENS", text)
    with pytest.raises(ValueError, match=r"SUPPORT_DESK_TOKENS is .*write"):
        settings.tokens()
