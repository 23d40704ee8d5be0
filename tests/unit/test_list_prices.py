"""The kept list prices are those of the locked `genai-prices`, and spare workers that package.

`OUTLAST_SNAPSHOTS=write OUTLAST_AS_OF=2026-11-30 pytest tests/unit/test_list_prices.py`, with the
day, writes them anew after an update.
"""

import importlib.metadata
import json
import os
import subprocess
import sys
from datetime import date
from decimal import Decimal
from typing import Any

import genai_prices
import pytest
from genai_prices import data_snapshot
from genai_prices.types import ModelInfo, StartDateConstraint

from outlast import pricing
from outlast.loop.values import Usage
from outlast.pricing import LIST_PRICES, ListPrice

VERSION = importlib.metadata.version("genai-prices")
KEPT: dict[str, Any] = json.loads(LIST_PRICES.read_bytes())
is_locked = pytest.mark.skipif(
    KEPT["version"] != VERSION and "OUTLAST_SNAPSHOTS" not in os.environ,
    reason="another version of genai-prices is installed than the locked one",
)


def is_lasting(model: ModelInfo, on: date) -> bool:
    """Whether the price of a model on a day stays, as far as the package knows."""
    prices = model.prices
    return not isinstance(prices, list) or all(
        one.constraint is None
        or (isinstance(one.constraint, StartDateConstraint) and one.constraint.start_date <= on)
        for one in prices
    )


def rows_of(name: str) -> list[list[object]]:
    """Return the prices of a model by its input, the longest calls first."""
    return [
        [least, *(f"{one:f}" for one in (price.input, price.output, *cache_of(price)))]
        for least, price in pricing._price_by_input(name, None, 0)
    ]


def cache_of(price: pricing.Price) -> tuple[Decimal, Decimal]:
    """Return what tokens from the cache and to the cache cost."""
    assert price.cached_input is not None
    assert price.cache_write is not None
    return price.cached_input, price.cache_write


def table(on: date) -> dict[str, Any]:
    """Return the table as it has to be."""
    models: dict[str, Any] = {}
    for provider in data_snapshot.get_snapshot().providers:
        for model in provider.models:
            try:
                found = genai_prices.calc_price(genai_prices.Usage(), model.id)
            except LookupError:
                continue
            if found.model is model and is_lasting(model, on) and (rows := rows_of(model.id)):
                models[model.id.lower()] = [provider.id, *rows]
    return {"version": VERSION, "as_of": on.isoformat(), "models": dict(sorted(models.items()))}


@is_locked
def test_the_kept_prices_are_those_of_the_locked_package() -> None:
    is_written = os.environ.get("OUTLAST_SNAPSHOTS") == "write"
    made = table(
        date.fromisoformat(os.environ["OUTLAST_AS_OF"])
        if is_written
        else date.fromisoformat(KEPT["as_of"])
    )
    if is_written:
        lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in made["models"].items())
        head = json.dumps({key: made[key] for key in ("version", "as_of")})[:-1]
        LIST_PRICES.write_text(f'{head}, "models": {{\n{lines}\n}}}}\n', encoding="utf-8")
    assert json.loads(LIST_PRICES.read_bytes()) == made
    assert len(made["models"]) > 300


ASKED = """
import sys
from outlast.loop.values import Usage
from outlast.pricing import Pricing
price = Pricing().price(sys.argv[1])
print(price.cost(Usage(input_tokens=1000, output_tokens=10)), "genai_prices" in sys.modules)
"""


@is_locked
@pytest.mark.parametrize("model", ["gpt-5.6-luna", "openai/gpt-5.6-luna"])
def test_a_kept_price_spares_the_package(model: str) -> None:
    said = subprocess.run([sys.executable, "-c", ASKED, model], check=True, capture_output=True)
    cost, is_imported = said.stdout.decode().split()
    assert is_imported == "False"
    listed = genai_prices.calc_price(
        genai_prices.Usage(input_tokens=1000, output_tokens=10), "gpt-5.6-luna"
    )
    assert Decimal(cost) == listed.total_price


def test_another_version_of_the_package_or_one_that_a_program_has_is_asked_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def listed(model: str, *_: Any) -> pricing.PriceByInput:
        asked.append(model)
        return ((0, pricing.Price(input=Decimal(3), output=Decimal(4))),)

    monkeypatch.setattr(pricing, "_price_by_input", listed)
    price = ListPrice("gpt-5.6-luna", None)
    assert price.cost(Usage(input_tokens=1_000_000)) == 3  # it is imported here
    monkeypatch.delitem(sys.modules, "genai_prices")

    def newer(_: str) -> str:
        return "99"

    monkeypatch.setattr(importlib.metadata, "version", newer)
    pricing._kept_row.cache_clear()
    assert price.cost(Usage(input_tokens=1_000_000)) == 3
    pricing._kept_row.cache_clear()
    assert asked == ["gpt-5.6-luna"] * 2
