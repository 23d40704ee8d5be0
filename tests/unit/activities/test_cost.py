"""The cost of a model call, where a budget counts money."""

import pytest

from outlast.activities.effects.call_model import cost_micros, price_for
from outlast.activities.errors import EffectError
from outlast.contract.names import SETTING_BUDGETS
from outlast.loop.values import JsonObject, Usage


def settings(of: str) -> JsonObject:
    return {SETTING_BUDGETS: [{"of": of, "limit": 1}]}


def test_a_budget_in_money_counts_the_call_in_millionths_of_a_dollar() -> None:
    price = price_for(settings("cost_micros"), "gpt-5-mini")
    assert price is not None
    usage = Usage(requests=1, input_tokens=1_000, output_tokens=100, total_tokens=1_100)
    assert cost_micros(price, usage) == round(price.cost(usage) * 1_000_000) > 0


def test_without_such_a_budget_no_price_is_needed() -> None:
    assert price_for(settings("tokens"), "unheard-of") is None
    assert price_for({}, "unheard-of") is None
    assert cost_micros(None, Usage()) == 0


def test_a_model_without_a_price_is_refused_before_it_is_called() -> None:
    with pytest.raises(EffectError, match="no price") as caught:
        price_for(settings("cost_micros"), "unheard-of")
    assert not caught.value.retryable
