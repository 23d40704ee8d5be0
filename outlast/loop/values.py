"""The plain values that states, events and commands are made of."""

from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

Json: TypeAlias = Any
"""Any value that JSON can express. Treated as immutable: build a new one, never change one."""

JsonObject: TypeAlias = dict[str, Any]
"""A JSON object. Treated as immutable."""


BLOB: Final = "$outlast.blob"
"""The key of a reference to content in the blob store; its value is the key of the blob.

A reference stands in the place of a long text: `{"$outlast.blob": "sha256:…", "bytes": n}`. With
`part`, the blob is a JSON list of texts, and the reference means one of them.
"""

_BLOB_KEY_LENGTH = len("sha256:") + 64
_HEXADECIMAL = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True, kw_only=True)
class InputTokensDetails:
    """Details of input tokens: read from the provider's cache, and written to it."""

    cached_tokens: int = 0
    cache_write_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTokensDetails:
    """Details of output tokens."""

    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens and requests used, by one model call or by a whole run, and their cost.

    The worker that makes a model call prices it, so its cost stays the same when prices change.

    Attributes:
        cost_micros: the cost of the priced requests, in millionths of a US dollar.
        priced: how many of the requests have a known cost.
    """

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cache_write_tokens: int = 0
    cost_micros: int = 0
    priced: int = 0

    @property
    def input_tokens_details(self) -> InputTokensDetails:
        """Cached input tokens, in the shape that the Agents SDK uses."""
        return InputTokensDetails(
            cached_tokens=self.cached_tokens, cache_write_tokens=self.cache_write_tokens
        )

    @property
    def output_tokens_details(self) -> OutputTokensDetails:
        """Reasoning tokens, in the shape that the Agents SDK uses."""
        return OutputTokensDetails(reasoning_tokens=self.reasoning_tokens)

    def plus(self, other: "Usage") -> "Usage":
        """Return the sum of this usage and another."""
        return Usage(
            requests=self.requests + other.requests,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            total_tokens=self.total_tokens + other.total_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            cost_micros=self.cost_micros + other.cost_micros,
            priced=self.priced + other.priced,
        )

    def minus(self, other: "Usage") -> "Usage":
        """Return the difference to an earlier usage."""
        return Usage(
            requests=self.requests - other.requests,
            input_tokens=self.input_tokens - other.input_tokens,
            output_tokens=self.output_tokens - other.output_tokens,
            total_tokens=self.total_tokens - other.total_tokens,
            cached_tokens=self.cached_tokens - other.cached_tokens,
            reasoning_tokens=self.reasoning_tokens - other.reasoning_tokens,
            cache_write_tokens=self.cache_write_tokens - other.cache_write_tokens,
            cost_micros=self.cost_micros - other.cost_micros,
            priced=self.priced - other.priced,
        )


NO_USAGE = Usage()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUse:
    """What the calls of one agent to one model used, in a nested run for the question of a number."""

    agent: str = ""
    model: str = ""
    usage: Usage = NO_USAGE
    question: int = 0


DEFAULT_MAX_TURNS: Final = 10
"""The default limit of model calls for one answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The reason of a failure: a message for people and a code for programs.

    `code` is stable and is what programs match on (the codes are listed in
    `outlast.contract.failures`); `message` is for people and may change.
    """

    code: str
    message: str
    details: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerThread:
    """How the provider's server keeps the conversation.

    Attributes:
        conversation_id: the id of the conversation.
        previous_response_id: the id of the response that the newest items follow.
        chained: each response continues the previous one.
    """

    conversation_id: str | None = None
    previous_response_id: str | None = None
    chained: bool = False


def reference(key: str, size: int, part: int | None = None) -> JsonObject:
    """Return the reference to a text."""
    made: JsonObject = {BLOB: key, "bytes": size}
    return made if part is None else {**made, "part": part}


def is_reference(value: Json) -> bool:
    """Whether a value is a reference to a text in the blob store."""
    if not isinstance(value, dict) or BLOB not in value:
        return False
    fields = cast("JsonObject", value)
    key, part = fields[BLOB], fields.get("part", 0)
    return (
        fields.keys() <= {BLOB, "bytes", "part"}
        and isinstance(key, str)
        and len(key) == _BLOB_KEY_LENGTH
        and key.startswith("sha256:")
        and _HEXADECIMAL.issuperset(key[7:])
        and type(fields.get("bytes")) is int
        and type(part) is int
    )


def placeholder(value: JsonObject) -> str:
    """Return the text that people read in place of a stored text."""
    return f"[{value['bytes']:,} bytes, stored outside of the run]"
