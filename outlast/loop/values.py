"""The plain values that states, events and commands are made of.

Owns: JSON aliases, token usage, the description of a failure, and where a provider keeps a
conversation. Knows nothing of runs.
"""

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

Json: TypeAlias = Any
"""Any value that JSON can express. Treated as immutable: build a new one, never change one."""

JsonObject: TypeAlias = dict[str, Any]
"""A JSON object. Treated as immutable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputTokensDetails:
    """What the input tokens of a usage hold."""

    cached_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTokensDetails:
    """What the output tokens of a usage hold."""

    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens and requests spent, of one model call or added up over a run."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def input_tokens_details(self) -> InputTokensDetails:
        """The cached ones, as many programs look them up."""
        return InputTokensDetails(cached_tokens=self.cached_tokens)

    @property
    def output_tokens_details(self) -> OutputTokensDetails:
        """Those spent on reasoning, as many programs look them up."""
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
        )


NO_USAGE = Usage()

DEFAULT_MAX_TURNS: Final = 10
"""How many model calls an answer takes at most, where nobody says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why something did not work, in words for a person and a code for a program.

    `code` is stable and is what programs match on (the codes are listed in
    `outlast.contract.failures`); `message` is for people and may change.
    """

    code: str
    message: str
    details: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerThread:
    """How the provider's server keeps the conversation, where it does.

    Attributes:
        conversation_id: the conversation there.
        previous_response_id: the response there that the newest items follow.
        chained: each response follows the one before.
    """

    conversation_id: str | None = None
    previous_response_id: str | None = None
    chained: bool = False
