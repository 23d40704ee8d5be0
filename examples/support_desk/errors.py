"""What the shop refuses, and what is wrong with its file or its callers.

    ShopError                    the shop says no; the sentence is written for a model to read
    ├── UnknownOrderError        no order has this number
    ├── UnknownInvoiceError      the order has no invoice yet
    ├── AddressRefusedError      the address is empty, or the order has left the house
    ├── PickupRefusedError       nothing was delivered yet, or a courier is booked already
    ├── RefundRefusedError       more than was paid, refunded before, or no reason given
    │   └── AboveLimitError      more than the caller may refund
    └── InvalidInputError        an amount that is no amount, a question that is empty
    KeyReusedError               one idempotency key for two different effects: a bug
    NotAShopError                the file is not a database of this program

Owns: the classes. Must not know: SQL, or what a tool does with a refusal.
"""


class ShopError(Exception):
    """The shop says no, and saying it again will not help: the message tells a model why."""


class UnknownOrderError(ShopError):
    """No order has this number, or none that this customer may see."""

    def __init__(self, order_id: str) -> None:
        super().__init__(f"There is no order {order_id}: please check the number.")
        self.order_id = order_id


class UnknownInvoiceError(ShopError):
    """The order exists and has not been invoiced yet."""

    def __init__(self, order_id: str) -> None:
        super().__init__(f"Order {order_id} has no invoice yet: it is written when it is packed.")
        self.order_id = order_id


class AddressRefusedError(ShopError):
    """The delivery address cannot be changed to this, or no longer."""


class PickupRefusedError(ShopError):
    """A courier cannot collect the order, or another one does."""


class RefundRefusedError(ShopError):
    """The refund is more than can be paid back, or lacks a reason."""


class AboveLimitError(RefundRefusedError):
    """The refunds of the order would come to more than the caller may refund."""


class InvalidInputError(ShopError):
    """The caller's words cannot be what was meant."""


class KeyReusedError(Exception):
    """An idempotency key came a second time with another effect or other arguments.

    No `ShopError`: a model can do nothing about it. Two different calls were given one key.
    """


class NotAShopError(Exception):
    """The file is no database, or another program's, or another version's."""
