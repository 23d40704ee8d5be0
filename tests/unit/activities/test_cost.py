"""The cost of a model call, which the worker records."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from outlast.activities.errors import EffectError
from outlast.activities.model import choice
from outlast.activities.model.choice import check_price, priced
from outlast.agents.usage import Usage
from outlast.contract.names import SETTING_BUDGETS
from outlast.loop import values
from outlast.loop.values import InputTokensDetails, JsonObject
from outlast.ports.model import ModelResponse
from outlast.pricing import Pricing

USED = values.Usage(requests=1, input_tokens=1_000, output_tokens=100, total_tokens=1_100)


@pytest.fixture
def prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty file of prices, which the worker of this test reads."""
    path = tmp_path / "prices.toml"
    path.write_text("")
    monkeypatch.setenv("OUTLAST_PRICES", str(path))
    for name in ("_price", "_pricing"):
        getattr(choice, name).cache_clear()
        monkeypatch.setattr(choice, name, getattr(choice, name).__wrapped__)
    return path


def settings(of: str) -> JsonObject:
    return {SETTING_BUDGETS: [{"of": of, "limit": 1}]}


def test_a_call_has_its_list_price_in_millionths_of_a_dollar() -> None:
    price = Pricing().price("gpt-5-mini")
    assert price is not None
    found = priced(USED, None, "gpt-5-mini")
    assert found.cost_micros == round(price.cost(USED) * 1_000_000) > 0
    assert found.priced == 1


def test_a_company_sets_its_own_rate_once_for_costs_and_budgets(prices: Path) -> None:
    prices.write_text("[mine]\ninput = 2\noutput = 10\ncached_input = 0.5\ncache_write = 4\n")
    check_price(settings("cost_micros"), None, "mine")
    assert priced(USED, None, "mine").cost_micros == 2_000 + 1_000
    details = InputTokensDetails(cached_tokens=600, cache_write_tokens=200)
    cached = Usage(1, 1_000, details, 100, total_tokens=1_100)
    assert priced(cached, None, "mine").cost_micros == 400 + 300 + 800 + 1_000


def test_a_free_model_costs_nothing_and_is_known(prices: Path) -> None:
    prices.write_text("[local]\ninput = 0\noutput = 0\n")
    found = priced(USED, None, "local")
    assert (found.cost_micros, found.priced) == (0, 1)


@pytest.mark.parametrize("label", ["", "LitellmModel"])
def test_the_worker_knows_the_name_of_a_model_that_the_run_does_not(label: str) -> None:
    model = SimpleNamespace(name="gpt-5-mini")
    assert priced(USED, model, label) == priced(USED, None, "gpt-5-mini")


@pytest.mark.parametrize("label", ["unheard-of", "", "a\x1b[31mb\x00", "x/" * 5_000])
def test_a_model_without_a_price_has_no_cost(label: str) -> None:
    assert priced(USED, None, label) == USED


def test_a_broken_file_of_prices_fails_no_paid_reply(
    prices: Path, caplog: pytest.LogCaptureFixture
) -> None:
    prices.write_text("[mine")
    assert priced(USED, None, "gpt-5-mini") == USED
    assert "is not valid TOML" in caplog.text
    with pytest.raises(EffectError, match="is not valid TOML"):
        check_price(settings("cost_micros"), None, "gpt-5-mini")


@pytest.mark.parametrize(
    "wrong",
    [-5, 10**30, 1e30, float("nan"), float("inf"), "12", None, True, 1.5],
)
@pytest.mark.parametrize("name", ["input_tokens", "output_tokens"])
def test_a_count_that_is_no_number_of_tokens_counts_as_none_and_leaves_the_cost_unknown(
    name: str, wrong: Any
) -> None:
    reported: dict[str, Any] = {
        "requests": 1,
        "input_tokens": 1_000,
        "output_tokens": 100,
        "total_tokens": 1_100,
    }
    response = ModelResponse(output=[], usage=Usage(**{**reported, name: wrong}))
    assert getattr(response.usage, name) == 0
    found = priced(response.usage, None, "gpt-5-mini")
    assert (found.cost_micros, found.priced) == (0, 0)


def test_a_wrong_total_is_the_sum_of_the_counts() -> None:
    usage = values.Usage(requests=-1, input_tokens=30, output_tokens=4, total_tokens=10**30)
    read = ModelResponse(output=[], usage=usage).usage
    assert (read.requests, read.total_tokens) == (0, 34)
    whole: Any = Usage(1, 30.0, output_tokens=4, total_tokens=34)  # type: ignore[arg-type]
    assert ModelResponse(output=[], usage=whole).usage.input_tokens == 30


def test_more_cached_tokens_than_input_cost_no_less_than_nothing() -> None:
    details = InputTokensDetails(cached_tokens=10**9, cache_write_tokens=10**9)
    usage = Usage(1, 1_000, details, 100, total_tokens=1_100)
    found = priced(usage, None, "claude-sonnet-4-5")
    assert found.priced == 1
    assert 0 < found.cost_micros < priced(USED, None, "claude-sonnet-4-5").cost_micros


def test_a_model_cannot_report_a_cost_of_its_own() -> None:
    usage = values.Usage(requests=1, input_tokens=1, output_tokens=1, cost_micros=-7, priced=1)
    found = priced(usage, None, "unheard-of")
    assert (found.cost_micros, found.priced) == (0, 0)


def test_without_a_budget_in_money_no_price_is_needed() -> None:
    check_price(settings("tokens"), None, "unheard-of")
    check_price({}, None, "unheard-of")


def test_a_model_without_a_price_is_refused_before_it_is_called() -> None:
    with pytest.raises(EffectError, match="no price") as caught:
        check_price(settings("cost_micros"), None, "unheard-of")
    assert not caught.value.retryable
