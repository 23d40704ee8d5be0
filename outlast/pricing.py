"""The cost of runs, from the prices of their models.

    cost = Pricing.load().cost_of(result)
    print(cost.usd, cost.unknown_models)

List prices are those of the package `genai-prices`. A file of your own replaces them or adds models:
the one that the environment variable `OUTLAST_PRICES` names, or `outlast-prices.toml` in the working
directory.
"""

import os
import time
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, cast

from outlast.agents.errors import UserError
from outlast.loop.state import LoopState
from outlast.loop.values import Usage

__all__ = ("Cost", "Price", "Pricing")

PRICES_FILE: Final = Path("outlast-prices.toml")
ENVIRONMENT: Final = "OUTLAST_PRICES"

FLAT_FOR_SECONDS: Final = 600
"""How long a list price is remembered; the package may load newer ones."""

_FIELDS: Final = {"input", "cached_input", "output"}
_MILLION: Final = Decimal(1_000_000)


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a model, in US dollars per million tokens.

    Attributes:
        input: of input tokens.
        output: of output tokens, with those of reasoning.
        cached_input: of input tokens from the provider's cache; None: as other input.
    """

    input: Decimal
    output: Decimal
    cached_input: Decimal | None = None

    def cost(self, usage: Usage) -> Decimal:
        """Return the cost of a model call in US dollars."""
        cached_price = self.input if self.cached_input is None else self.cached_input
        cached = min(usage.cached_tokens, usage.input_tokens)
        fresh = usage.input_tokens - cached
        total = fresh * self.input + cached * cached_price + usage.output_tokens * self.output
        return total / _MILLION


@dataclass(frozen=True, slots=True)
class ListPrice:
    """The price of a model as its provider lists it today."""

    model: str
    provider: str | None

    def cost(self, usage: Usage) -> Decimal:
        """Return the cost of a model call in US dollars.

        Raises:
            LookupError: there is no such model.
        """
        flat = _flat_price(self.model, self.provider, int(time.time() // FLAT_FOR_SECONDS))
        return (
            _listed(self.model, self.provider, usage).total_price
            if flat is None
            else flat.cost(usage)
        )


def _listed(model: str, provider: str | None, usage: Usage) -> Any:
    # Takes 80 MB and a quarter of a second, so it is imported only where it is needed.
    import genai_prices

    tokens = genai_prices.Usage(
        input_tokens=usage.input_tokens,
        cache_read_tokens=min(usage.cached_tokens, usage.input_tokens),
        output_tokens=usage.output_tokens,
    )
    return genai_prices.calc_price(tokens, model, provider_id=provider)


@lru_cache(maxsize=256)
def _flat_price(model: str, provider: str | None, _period: int) -> Price | None:
    """Return a list price as an amount per token; None where it depends on the length or the hour.

    The package takes 0.2 ms for each call, and a call has a span, a budget and a line on the desk.
    """
    found = _listed(model, provider, Usage())
    amounts: list[object] = [*cast("dict[str, object]", vars(found.model_price)).values()]
    is_flat = all(one is None or isinstance(one, Decimal) for one in amounts)
    if not is_flat or isinstance(found.model.prices, list) or found.total_price:
        return None
    million = int(_MILLION)
    given = Usage(input_tokens=million)
    cached, written = replace(given, cached_tokens=million), Usage(output_tokens=million)
    rates = (_listed(model, provider, one).total_price for one in (given, written, cached))
    return Price(*rates)


ModelPrice: TypeAlias = Price | ListPrice


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a run.

    Attributes:
        usd: US dollars, for the model calls whose price is known.
        unknown_models: the models without a price, sorted; "" is the default model of a provider.
    """

    usd: Decimal = Decimal(0)
    unknown_models: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the cost as text, with the models that have no price."""
        if not self.unknown_models:
            return _dollars(self.usd)
        names = ", ".join(name or "the default model" for name in self.unknown_models)
        return f"{_dollars(self.usd)} + {names} (no price)" if self.usd else f"no price for {names}"


class _HasSnapshot(Protocol):
    @property
    def snapshot(self) -> LoopState: ...


@dataclass(frozen=True)
class Pricing:
    """Prices by model.

    A name such as `mine-2025-08-07` or `openai/mine` has the price of `mine`, unless the table has
    the whole name. Other models have their list price.
    """

    prices: Mapping[str, Price] = field(default_factory=dict[str, Price])

    @classmethod
    def load(cls, path: str | os.PathLike[str] | None = None) -> "Pricing":
        """Return the prices of a file, beside the list prices.

        Args:
            path: a TOML file with a table for each model; default: the file that the environment
                variable `OUTLAST_PRICES` names, else `outlast-prices.toml` if it exists.

        Raises:
            UserError: the file cannot be read, or a price in it is invalid. The message names the
                file, the model and the line or field.
        """
        named = path if path is not None else os.environ.get(ENVIRONMENT) or None
        if named is None and not PRICES_FILE.exists():
            return cls()
        return cls(_read(Path(PRICES_FILE if named is None else named)))

    def price(self, model: str) -> ModelPrice | None:
        """Return the price of a model, or None."""
        route, _, name = model.rpartition("/")
        for candidate in (model, name, _undated(name)):
            if candidate in self.prices:
                return self.prices[candidate]
        if not name:  # the default model of a provider
            return None
        for provider in dict.fromkeys([route.rpartition("/")[2] or None, None]):
            listed = ListPrice(name, provider)
            with suppress(LookupError):
                listed.cost(Usage())
                return listed
        return None

    def cost_of(self, run: _HasSnapshot | LoopState) -> Cost:
        """Return the cost of a run's model calls.

        Nested runs count as unknown if they used other models than their parent: their tokens are
        part of the parent's usage, but not their models.

        Args:
            run: the result of a run, or the state that `handle.state()` returns.
        """
        state = run if isinstance(run, LoopState) else run.snapshot
        usd, unknown, counted = Decimal(0), set[str](), 0
        summaries = (one for one in state.compaction.made if one.usage.total_tokens)
        for response in (*state.responses, *summaries):
            counted += response.usage.total_tokens
            price = self.price(response.model)
            if price is None:
                unknown.add(response.model)
            else:
                usd += price.cost(response.usage)
        if counted < state.usage.total_tokens:
            unknown.add("nested runs")
        return Cost(usd, tuple(sorted(unknown)))


def _undated(model: str) -> str:
    parts = model.split("-")
    is_dated = len(parts) > 3 and all(part.isdigit() for part in parts[-3:])
    return "-".join(parts[:-3]) if is_dated and len(parts[-3]) == len("2025") else model


def _dollars(usd: Decimal) -> str:
    return f"${usd:.2f}" if usd >= 1 else f"${usd:.4f}"


def _read(path: Path) -> dict[str, Price]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"The price table {path} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"The price table {path} is not valid TOML: {error}.") from None
    return {model: _price(path, model, row) for model, row in table.items()}


def _price(path: Path, model: str, row: Any) -> Price:
    place = f"The price table {path}, model {model!r}"
    if not isinstance(row, dict):
        raise UserError(f"{place}: write [{model!r}] and below it input = 1.25 and output = 10.")
    fields = cast("dict[str, Any]", row)
    if unknown := sorted(fields.keys() - _FIELDS):
        raise UserError(
            f"{place}: unknown field {unknown[0]!r}. The fields are input, cached_input and output."
        )
    if missing := sorted({"input", "output"} - fields.keys()):
        raise UserError(f"{place}: {missing[0]} is missing, in US dollars per million tokens.")
    for name, value in fields.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
            raise UserError(f"{place}: {name} = {value!r} is not a price in US dollars.")
    amounts = {name: Decimal(str(value)) for name, value in fields.items()}
    return Price(**amounts)
