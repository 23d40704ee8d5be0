"""The cost of runs, from a table of prices by model.

    pricing = Pricing.load()
    cost = pricing.cost_of(result)
    print(cost.usd, cost.unknown_models)

The table is `prices.toml` beside this module. Another file adds models and replaces prices: the one
that the environment variable `OUTLAST_PRICES` names, or `outlast-prices.toml` in the working directory.
"""

import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Protocol, cast

from outlast.agents.errors import UserError
from outlast.loop.state import LoopState, Response
from outlast.loop.values import Usage

__all__ = ("Cost", "Price", "Pricing")

PRICES_FILE: Final = Path("outlast-prices.toml")
ENVIRONMENT: Final = "OUTLAST_PRICES"

_TABLE: Final = Path(__file__).with_name("prices.toml")
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

    A name such as `gpt-5-mini-2025-08-07` or `openai/gpt-5-mini` has the price of `gpt-5-mini`,
    unless the table has the whole name.
    """

    prices: Mapping[str, Price] = field(default_factory=dict[str, Price])

    @classmethod
    def load(cls, path: str | os.PathLike[str] | None = None) -> "Pricing":
        """Return the built-in prices with those of a file.

        Args:
            path: a TOML file with a table for each model; default: the file that the environment
                variable `OUTLAST_PRICES` names, else `outlast-prices.toml` if it exists.

        Raises:
            UserError: the file cannot be read, or a price in it is invalid. The message names the
                file, the model and the line or field.
        """
        named = path if path is not None else os.environ.get(ENVIRONMENT) or None
        own = Path(named) if named is not None else PRICES_FILE
        prices = _read(_TABLE)
        if named is not None or own.exists():
            prices |= _read(own)
        return cls(prices)

    def price(self, model: str) -> Price | None:
        """Return the price of a model, or None."""
        name = model.rpartition("/")[2]
        for candidate in (model, name, _undated(name)):
            if candidate in self.prices:
                return self.prices[candidate]
        return None

    def cost_of(self, run: _HasSnapshot | LoopState) -> Cost:
        """Return the cost of a run's model calls.

        Nested runs count as unknown if they used other models than their parent: their tokens are
        part of the parent's usage, but not their models.

        Args:
            run: the result of a run, or the state that `handle.state()` returns.
        """
        state = run if isinstance(run, LoopState) else run.snapshot
        return self._cost(state.responses, state.usage)

    def _cost(self, responses: Iterable[Response], total: Usage) -> Cost:
        usd, unknown, counted = Decimal(0), set[str](), 0
        for response in responses:
            counted += response.usage.total_tokens
            price = self.price(response.model)
            if price is None:
                unknown.add(response.model)
            else:
                usd += price.cost(response.usage)
        if counted < total.total_tokens:
            unknown.add("nested runs")
        return Cost(usd, tuple(sorted(unknown)))


def _undated(model: str) -> str:
    """Return a model's name without its date, such as `-2025-08-07`."""
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
