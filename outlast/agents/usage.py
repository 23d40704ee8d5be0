"""The public usage records: tokens and requests. The loop keeps only plain sums."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, fields
from functools import cache
from operator import attrgetter
from typing import Any, Final, TypeAlias, cast

from outlast.loop import values
from outlast.loop.values import InputTokensDetails, OutputTokensDetails


@dataclass(kw_only=True)
class RequestUsage:
    """The token counts of one model request."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_tokens_details: InputTokensDetails = field(default_factory=InputTokensDetails)
    output_tokens_details: OutputTokensDetails = field(default_factory=OutputTokensDetails)

    def __post_init__(self) -> None:
        _convert_details(self)


@dataclass
class Usage:
    """The requests and tokens of one model call, or the sums of several.

    Attributes:
        requests: the number of requests.
        input_tokens: the number of input tokens.
        input_tokens_details: the number of input tokens from the provider's cache, and of those
            written to it.
        output_tokens: the number of output tokens.
        output_tokens_details: the number of output tokens for reasoning.
        total_tokens: the number of input and output tokens.
        request_usage_entries: the usage of each request. A result has the requests of its run,
            without those of nested runs. In callables of a run, the list is empty.
    """

    requests: int = 0
    input_tokens: int = 0
    input_tokens_details: InputTokensDetails = field(default_factory=InputTokensDetails)
    output_tokens: int = 0
    output_tokens_details: OutputTokensDetails = field(default_factory=OutputTokensDetails)
    total_tokens: int = 0
    request_usage_entries: list[RequestUsage] = field(default_factory=list[RequestUsage])

    def __post_init__(self) -> None:
        _convert_details(self)

    @classmethod
    def of(cls, usage: "AnyUsage", requests: Iterable[values.Usage] = ()) -> "Usage":
        """Return the public record of a run's sums; a `Usage` is returned unchanged."""
        if isinstance(usage, cls):
            return usage
        return cls(
            requests=usage.requests,
            input_tokens=usage.input_tokens,
            input_tokens_details=usage.input_tokens_details,
            output_tokens=usage.output_tokens,
            output_tokens_details=usage.output_tokens_details,
            total_tokens=usage.total_tokens,
            request_usage_entries=[request_usage(one) for one in requests if one.total_tokens > 0],
        )

    @property
    def cached_tokens(self) -> int:
        """The number of input tokens from the provider's cache."""
        return self.input_tokens_details.cached_tokens

    @property
    def cache_write_tokens(self) -> int:
        """The number of input tokens that the provider wrote to its cache."""
        return self.input_tokens_details.cache_write_tokens

    @property
    def reasoning_tokens(self) -> int:
        """The number of output tokens for reasoning."""
        return self.output_tokens_details.reasoning_tokens

    def add(self, other: "AnyUsage") -> None:
        """Add another usage with its requests; one request without entries becomes an entry."""
        self.requests += other.requests
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens
        self.total_tokens += other.total_tokens
        self.input_tokens_details = InputTokensDetails(
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
        )
        self.output_tokens_details = OutputTokensDetails(
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens
        )
        entries = other.request_usage_entries if isinstance(other, Usage) else []
        if entries:
            self.request_usage_entries.extend(deepcopy(entries))
        elif other.requests == 1 and other.total_tokens > 0:
            self.request_usage_entries.append(request_usage(other))

    def __add__(self, other: "AnyUsage") -> "Usage":
        """Return the sum of two usages, with the requests of both; see `add`."""
        if not isinstance(cast("object", other), Usage | values.Usage):
            return NotImplemented
        total = deepcopy(self)
        total.add(other)
        return total

    def __radd__(self, other: int) -> "Usage":
        """Return a copy for `sum(usages)`, which begins with 0."""
        return deepcopy(self) if other == 0 else NotImplemented


AnyUsage: TypeAlias = Usage | values.Usage
"""The public usage record, or the plain sums of a run."""


_DETAILS: Final[dict[str, type[Any]]] = {
    "input_tokens_details": InputTokensDetails,
    "output_tokens_details": OutputTokensDetails,
}


def _convert_details(usage: Usage | RequestUsage) -> None:
    """Convert details that are dicts or lack numbers: providers send None, which counts as 0."""
    read, written = usage.input_tokens_details, usage.output_tokens_details
    if type(read) is InputTokensDetails and type(written) is OutputTokensDetails:
        reported = (read.cached_tokens, read.cache_write_tokens, written.reasoning_tokens)
        if None not in cast("tuple[object, ...]", reported):
            return
    for name, kind in _DETAILS.items():
        details: Any = getattr(usage, name)
        is_mapping = isinstance(details, Mapping)
        counts: dict[str, Any] = {
            field: details.get(field) if is_mapping else getattr(details, field, None)
            for field in _names_of(kind)
        }
        if is_mapping or None in counts.values():
            setattr(usage, name, kind(**{name: count or 0 for name, count in counts.items()}))


LARGEST_COUNT: Final = 1_000_000_000
"""More tokens than any model call has; servers and models that report more are mistaken."""


def plain_usage(usage: AnyUsage) -> values.Usage:
    """Return the plain sums of a usage, without a cost: only workers price calls."""
    if isinstance(usage, values.Usage) and not (usage.cost_micros or usage.priced):
        return usage
    return values.Usage(**_counts(usage))


def readable_usage(usage: AnyUsage) -> AnyUsage:
    """Return the usage that a model reports, with 0 for counts that can be no number of tokens.

    A model's server may report a negative count, 1e30 or a text, which budgets, sums and
    OpenTelemetry cannot take.
    """
    reported = _counts(usage)
    is_whole = {*map(type, reported.values())} == {int}
    if is_whole and min(reported.values()) >= 0 and max(reported.values()) <= LARGEST_COUNT:
        return usage
    counts = {name: _readable(count) for name, count in reported.items()}
    total = counts["total_tokens"] or counts["input_tokens"] + counts["output_tokens"]
    return values.Usage(**{**counts, "total_tokens": total})


def _readable(count: object) -> int:
    if isinstance(count, float) and count.is_integer():
        count = int(count)
    is_count = isinstance(count, int) and not isinstance(count, bool)
    return cast("int", count) if is_count and 0 <= cast("int", count) <= LARGEST_COUNT else 0


def request_usage(usage: AnyUsage) -> RequestUsage:
    """Return the tokens of a usage."""
    return RequestUsage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens,
        input_tokens_details=usage.input_tokens_details,
        output_tokens_details=usage.output_tokens_details,
    )


def _counts(usage: AnyUsage) -> dict[str, int]:
    """Return the counts of tokens and requests, by their names in the plain sums."""
    return dict(zip(_COUNTS, _counts_in(usage), strict=True))


_COUNTS: Final = (
    "requests",
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "cached_tokens",
    "reasoning_tokens",
    "cache_write_tokens",
)
_counts_in = attrgetter(*_COUNTS)


@cache
def _names_of(kind: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))
