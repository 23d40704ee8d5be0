"""The cost of runs.

    result = await Runner.run(agent, "Where is my order?")
    print(result.cost.usd, result.cost.problem)

The worker that makes a model call prices it, and the history keeps the cost. List prices are those of
the package `genai-prices`. A file of your own replaces them or adds models: the one that the
environment variable `OUTLAST_PRICES` names, or `outlast-prices.toml` in the working directory.
"""

import importlib.metadata
import json
import os
import sys
import time
import tomllib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, cast

from outlast.agents.errors import UserError
from outlast.edges.bodies import DOORS, BodyRefused
from outlast.edges.rendering import counted, named
from outlast.loop.spending import calls_of, merged
from outlast.loop.state import LoopState
from outlast.loop.values import JsonObject, ModelUse, Usage
from outlast.views.run import RunSnapshot, loop_state

__all__ = ("Cost", "CostPart", "Price", "Pricing")

PRICES_FILE: Final = Path("outlast-prices.toml")
ENVIRONMENT: Final = "OUTLAST_PRICES"

LISTED_FOR_SECONDS: Final = 60
"""How long a list price is remembered: it may depend on the day and the minute of the day."""

LIST_PRICES: Final = Path(__file__).with_name("list_prices.json")
"""Prices of models that depend on no time, as one version of `genai-prices` lists them."""

NESTED_RUNS: Final = "nested runs"
"""The agent of tokens of nested runs that the history does not tell apart."""

_FIELDS: Final = {"input", "cached_input", "cache_write", "output"}
_MILLION: Final = Decimal(1_000_000)


# --- Costs ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CostPart:
    """What the calls of one agent to one model used and cost.

    Attributes:
        agent: the agent, of the run itself or of a nested run.
        model: the model; empty for the default model of the worker.
        calls: the number of model calls.
        tokens: their input and output tokens.
        usd: US dollars; None if the cost of these calls is unknown.
        cached_tokens: the input tokens that came from the provider's cache.
        reasoning_tokens: the output tokens that the model reasoned with.
    """

    agent: str
    model: str
    calls: int
    tokens: int
    usd: Decimal | None
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def problem(self) -> str:
        """The reason why there is no cost; empty if there is one."""
        if self.usd is not None:
            return ""
        if self.agent == NESTED_RUNS:
            return f"price unknown for nested runs: {counted(self.tokens, 'token')}"
        model = f"model {named(self.model)}" if self.model else "the default model"
        if not self.tokens:
            return f"no tokens reported by {model}: {counted(self.calls, 'call')}"
        return f"price unknown for {model}: {counted(self.tokens, 'token')}"


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of model calls, of a run or of a part of one.

    Amounts are exact to a millionth of a dollar, so the parts add up to the sum.

    Attributes:
        parts: what each agent used of each model. Calls without a known cost have a part of their
            own.
    """

    parts: tuple[CostPart, ...] = ()

    @classmethod
    def of_uses(cls, uses: Iterable[ModelUse]) -> "Cost":
        """Return the cost of model calls as their workers have recorded it."""
        return cls(tuple(_part(one) for one in merged(uses)))

    @classmethod
    def of_state(cls, run: RunSnapshot) -> "Cost":
        """Return the cost of a run, with its nested runs that have ended."""
        return cls.of_uses(_all_uses(loop_state(run)))

    @property
    def usd(self) -> Decimal:
        """US dollars, for the calls whose cost is known."""
        return sum((one.usd or Decimal(0) for one in self.parts), Decimal(0))

    @property
    def total(self) -> Decimal | None:
        """US dollars; None if the cost of a call is unknown, for the reason that `problem` says."""
        return self.usd if self.is_whole else None

    @property
    def is_whole(self) -> bool:
        """Whether the cost of every call is known."""
        return all(one.usd is not None for one in self.parts)

    @property
    def problem(self) -> str:
        """The calls without a known cost, in words; empty if there are none."""
        unknown = (one for one in self.parts if one.usd is None)
        together = dict[tuple[str, bool, bool], CostPart]()
        for one in unknown:
            key = (one.model, one.tokens > 0, one.agent == NESTED_RUNS)
            before = together.get(key)
            together[key] = one if before is None else _added(before, one)
        return "; ".join(one.problem for one in together.values())

    @property
    def unknown_models(self) -> tuple[str, ...]:
        """The models of calls without a known cost, sorted; "" is the worker's default model."""
        unknown = (one for one in self.parts if one.usd is None)
        names = {NESTED_RUNS if one.agent == NESTED_RUNS else one.model for one in unknown}
        return tuple(sorted(names))

    @property
    def calls(self) -> int:
        """The number of model calls."""
        return sum(one.calls for one in self.parts)

    @property
    def tokens(self) -> int:
        """The number of input and output tokens."""
        return sum(one.tokens for one in self.parts)

    @property
    def cached_tokens(self) -> int:
        """The number of input tokens that came from a provider's cache."""
        return sum(one.cached_tokens for one in self.parts)

    @property
    def reasoning_tokens(self) -> int:
        """The number of output tokens that models reasoned with."""
        return sum(one.reasoning_tokens for one in self.parts)

    @property
    def by_agent(self) -> "dict[str, Cost]":
        """The cost of each agent, by its name."""
        return self.grouped(lambda one: one.agent)

    @property
    def by_model(self) -> "dict[str, Cost]":
        """The cost of each model, by its name; "" is the worker's default model."""
        return self.grouped(lambda one: one.model)

    def grouped(self, key: Callable[[CostPart], str]) -> "dict[str, Cost]":
        """Return the cost of each group of parts, the most expensive first.

        Args:
            key: returns the group of a part.
        """
        groups = dict[str, list[CostPart]]()
        for one in self.parts:
            groups.setdefault(key(one), []).append(one)
        found = {name: Cost(tuple(parts)) for name, parts in groups.items()}
        return dict(sorted(found.items(), key=lambda one: (-one[1].usd, -one[1].tokens, one[0])))

    def plus(self, other: "Cost") -> "Cost":
        """Return the sum of this cost and another."""
        return Cost((*self.parts, *other.parts))

    def __str__(self) -> str:
        """Return the cost as text, with the models that have no price."""
        has_amount = not self.parts or any(one.usd is not None for one in self.parts)
        amount = [dollars(self.usd)] if has_amount else []
        return "; ".join([*amount, *filter(None, [self.problem])])

    def record(self) -> JsonObject:
        """Return the cost for programs."""
        return {
            "usd": f"{self.usd:f}",
            "calls": self.calls,
            "tokens": self.tokens,
            "cached_tokens": self.cached_tokens,
            "reasoning_tokens": self.reasoning_tokens,
            "unknown_models": list(self.unknown_models),
        }


def usd_of(usage: Usage) -> Decimal | None:
    """Return the cost of model calls in US dollars; None if that of a call is unknown."""
    is_whole = usage.priced >= max(usage.requests, 1)
    return Decimal(usage.cost_micros) / _MILLION if is_whole else None


def dollars(usd: Decimal) -> str:
    """Return an amount for people: exact, so that the amounts that they read add up."""
    shown = f"{usd:,.6f}"
    return f"${shown[:-4]}{shown[-4:].rstrip('0')}"


def _part(one: ModelUse) -> CostPart:
    usage = one.usage
    return CostPart(
        agent=one.agent,
        model=one.model,
        calls=usage.requests,
        tokens=usage.total_tokens,
        usd=Decimal(usage.cost_micros) / _MILLION if usage.priced else None,
        cached_tokens=usage.cached_tokens,
        reasoning_tokens=usage.reasoning_tokens,
    )


def _added(one: CostPart, other: CostPart) -> CostPart:
    calls, tokens = one.calls + other.calls, one.tokens + other.tokens
    return CostPart(agent=one.agent, model=one.model, calls=calls, tokens=tokens, usd=None)


def _all_uses(state: LoopState) -> list[ModelUse]:
    """Return what each call used; nested runs of an early version did not tell theirs apart."""
    uses = [*calls_of(state), *state.nested_uses]
    rest = state.usage.total_tokens - sum(one.usage.total_tokens for one in uses)
    return (
        uses if rest <= 0 else [*uses, ModelUse(agent=NESTED_RUNS, usage=Usage(total_tokens=rest))]
    )


# --- Prices --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a model, in US dollars per million tokens.

    Attributes:
        input: of input tokens.
        output: of output tokens, with those of reasoning.
        cached_input: of input tokens from the provider's cache; None: as other input.
        cache_write: of input tokens that the provider writes to its cache; None: as other input.
    """

    input: Decimal
    output: Decimal
    cached_input: Decimal | None = None
    cache_write: Decimal | None = None

    def cost(self, usage: Usage) -> Decimal:
        """Return the cost of a model call in US dollars."""
        cached, written = _cache_tokens(usage)
        cached_price = self.input if self.cached_input is None else self.cached_input
        write_price = self.input if self.cache_write is None else self.cache_write
        total = (
            (usage.input_tokens - cached - written) * self.input
            + cached * cached_price
            + written * write_price
            + usage.output_tokens * self.output
        )
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
        minute = int(time.time() // LISTED_FOR_SECONDS)
        prices = _kept_price(self.model, self.provider) or _price_by_input(
            self.model, self.provider, minute
        )
        for least, price in prices:
            if usage.input_tokens >= least:
                return price.cost(usage)
        return _listed(self.model, self.provider, usage).total_price


def _kept_price(model: str, provider: str | None) -> "PriceByInput":
    """Return the price of a model that depends on no time, without the package; empty if not known.

    The package takes 8 MiB and a tenth of a second. Where a program has it, it may have updated it.
    """
    if "genai_prices" in sys.modules:
        return ()
    own_provider, price = _kept_row(model.lower())
    return price if provider in {None, own_provider} else ()


@lru_cache(maxsize=256)
def _kept_row(model: str) -> "tuple[str, PriceByInput]":
    """Return the provider and the kept price of a model, if it is that of the installed package."""
    table: JsonObject = json.loads(LIST_PRICES.read_bytes())
    is_installed = table["version"] == importlib.metadata.version("genai-prices")
    row: list[Any] = table["models"].get(model, [""]) if is_installed else [""]
    prices = ((least, Price(*map(Decimal, amounts))) for least, *amounts in row[1:])
    return row[0], tuple(prices)


def _listed(model: str, provider: str | None, usage: Usage) -> Any:
    # Takes a tenth of a second, so it is imported only where it is needed.
    import genai_prices

    cached, written = _cache_tokens(usage)
    tokens = genai_prices.Usage(
        input_tokens=usage.input_tokens,
        cache_read_tokens=cached,
        cache_write_tokens=written,
        output_tokens=usage.output_tokens,
    )
    return genai_prices.calc_price(tokens, model, provider_id=provider)


@lru_cache(maxsize=256)
def _price_by_input(model: str, provider: str | None, _minute: int) -> "PriceByInput":
    """Return the prices of calls with so many input tokens or more, the longest calls first.

    Empty where a call costs more than its tokens. The package takes 0.2 ms for each call, and a
    call has a span, a budget and a line on the desk.
    """
    found = _listed(model, provider, Usage())
    if found.total_price:
        return ()
    amounts = cast("dict[str, Any]", vars(found.model_price)).values()
    # A tier is for calls with more input than its start, and then for all of their tokens.
    starts = {tier.start + 1 for amount in amounts for tier in getattr(amount, "tiers", ())}
    return tuple(
        (least, _price_of(model, provider, least)) for least in sorted(starts | {0}, reverse=True)
    )


def _price_of(model: str, provider: str | None, least: int) -> Price:
    """Return the price of calls with this many input tokens, from what the package asks for them."""
    tokens = max(least, 1)

    def asked(**counts: int) -> Decimal:
        usage = Usage(input_tokens=tokens, **counts)
        return _listed(model, provider, usage).total_price * _MILLION / tokens

    plain = asked()
    return Price(
        input=plain,
        output=asked(output_tokens=tokens) - plain,
        cached_input=asked(cached_tokens=tokens),
        cache_write=asked(cache_write_tokens=tokens),
    )


ModelPrice: TypeAlias = Price | ListPrice

PriceByInput: TypeAlias = tuple[tuple[int, Price], ...]
"""The prices of calls with so many input tokens or more, the longest calls first."""


def _cache_tokens(usage: Usage) -> tuple[int, int]:
    """Return the tokens read from and written to the cache: together no more than the input."""
    cached = min(usage.cached_tokens, usage.input_tokens)
    return cached, min(usage.cache_write_tokens, usage.input_tokens - cached)


class _HasSnapshot(Protocol):
    @property
    def snapshot(self) -> RunSnapshot: ...


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
        chosen = path if path is not None else os.environ.get(ENVIRONMENT) or None
        if chosen is None and not PRICES_FILE.exists():
            return cls()
        return cls(_read(Path(PRICES_FILE if chosen is None else chosen)))

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

    def cost_of(self, run: _HasSnapshot | RunSnapshot) -> Cost:
        """Return what a run's model calls would cost by these prices, whatever they have cost.

        Args:
            run: the result of a run, or the state that `handle.state()` returns.
        """
        snapshot = run if isinstance(run, RunSnapshot) else run.snapshot
        return Cost.of_uses(map(self._priced, _all_uses(loop_state(snapshot))))

    def _priced(self, use: ModelUse) -> ModelUse:
        price = None if use.agent == NESTED_RUNS else self.price(use.model)
        usage = replace(use.usage, cost_micros=0, priced=0)
        if price is not None and usage.total_tokens:
            calls = max(usage.requests, 1)
            usage = replace(usage, cost_micros=micros(price, usage), requests=calls, priced=calls)
        return replace(use, usage=usage)


def micros(price: ModelPrice, usage: Usage) -> int:
    """Return the cost of model calls in millionths of a US dollar.

    Raises:
        ArithmeticError: the price is too high for a number.
        LookupError: the provider lists the model no more.
        ValueError: the counts of tokens make no sense.
    """
    return round(price.cost(usage) * _MILLION)


def _undated(model: str) -> str:
    parts = model.split("-")
    is_dated = len(parts) > 3 and all(part.isdigit() for part in parts[-3:])
    return "-".join(parts[:-3]) if is_dated and len(parts[-3]) == len("2025") else model


def _read(path: Path) -> dict[str, Price]:
    try:
        table = tomllib.loads(DOORS["prices"].read_file(path))
    except OSError as error:
        raise UserError(f"The price table {path} cannot be read: {error.strerror}.") from None
    except BodyRefused as error:
        raise UserError(f"The price table {path} cannot be read: {error}") from None
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
            f"{place}: unknown field {unknown[0]!r}. The fields are "
            "input, cached_input, cache_write and output."
        )
    if missing := sorted({"input", "output"} - fields.keys()):
        raise UserError(f"{place}: {missing[0]} is missing, in US dollars per million tokens.")
    for name, value in fields.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
            raise UserError(f"{place}: {name} = {value!r} is not a price in US dollars.")
    amounts = {name: Decimal(str(value)) for name, value in fields.items()}
    return Price(**amounts)
