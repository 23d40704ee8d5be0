"""Limits what replays may spend on models."""

from dataclasses import dataclass, field
from decimal import Decimal

from outlast.agents.errors import UserError
from outlast.loop.calls import ModelReply
from outlast.pricing import Pricing


@dataclass
class ModelLimit:
    """How much replays that share it may spend on models.

    A call is counted when its reply is there, so the last one may cost more than what was left.

    Attributes:
        calls: the most requests to models; None for no limit.
        usd: the most US dollars; None for no limit.
        used_calls: the requests so far.
        used_usd: what they have cost, if `usd` limits it.

    Raises:
        UserError: a limit is not positive.
    """

    calls: int | None = None
    usd: Decimal | None = None
    used_calls: int = field(default=0, init=False)
    used_usd: Decimal = field(default=Decimal(0), init=False)
    _pricing: Pricing = field(default_factory=Pricing.load, init=False)
    _unpriced: str = field(default="", init=False)

    def __post_init__(self) -> None:
        for name, limit in (("calls", self.calls), ("usd", self.usd)):
            if limit is not None and limit <= 0:
                raise UserError(f"ModelLimit({name}={limit}) must be positive.")

    @property
    def reached(self) -> str:
        """Which limit is reached, in words; empty while none is."""
        if self.calls is not None and self.used_calls >= self.calls:
            return f"The limit of {self.calls:,} model calls is reached."
        if self._unpriced:
            return (
                f"The model {self._unpriced!r} has no price, so its cost cannot be limited. Name its "
                "price in the file of OUTLAST_PRICES, or limit the number of calls."
            )
        if self.usd is not None and self.used_usd >= self.usd:
            return f"The limit of ${self.usd} for models is reached."
        return ""

    def count(self, reply: ModelReply) -> None:
        """Count a model call. One without a price reaches a limit on the cost at once."""
        self.used_calls += max(reply.usage.requests, 1)
        if self.usd is None:
            return
        price = self._pricing.price(reply.model)
        if price is None:
            self._unpriced = reply.model or "the default model"
        else:
            self.used_usd += price.cost(reply.usage)
