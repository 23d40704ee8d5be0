"""The shop: orders, invoices, refunds, pickups and tickets in one SQLite file, each effect exactly once.

Owns: the rules of the shop and the transactions. Every side effect is given an idempotency key
and is written together with its ledger entry in one transaction: either both are there or
neither. A known key changes nothing and returns the recorded receipt, however often and from
however many processes it comes. Must not know: agents, models or runs.
"""

import json
import sqlite3
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

from support_desk import schema
from support_desk.errors import (
    AboveLimitError,
    AddressRefusedError,
    InvalidInputError,
    KeyReusedError,
    NotAShopError,
    PickupRefusedError,
    RefundRefusedError,
    UnknownInvoiceError,
    UnknownOrderError,
)
from support_desk.money import in_euros
from support_desk.records import (
    AddressChange,
    Booking,
    Effect,
    Invoice,
    LedgerEntry,
    Order,
    OrderLine,
    Refund,
    Ticket,
)

BUSY_TIMEOUT = timedelta(seconds=30)
"""How long an operation waits for another process's transaction before it gives up."""

_ORDER = """
    SELECT orders.id, customer_id, customers.name AS customer_name, status, address, ordered_on,
        coalesce(invoices.paid_cents, 0) AS paid_cents,
        (SELECT coalesce(sum(amount_cents), 0) FROM refunds WHERE invoice_id = invoices.id)
            AS refunded_cents
    FROM orders
    JOIN customers ON customers.id = customer_id
    LEFT JOIN invoices ON invoices.order_id = orders.id
    WHERE orders.id = ?
"""

_LINES = """
    SELECT article, quantity, unit_price_cents FROM order_lines WHERE order_id = ? ORDER BY line
"""

_INVOICE = """
    SELECT id, order_id, issued_on, total_cents, paid_cents,
        (SELECT coalesce(sum(amount_cents), 0) FROM refunds WHERE invoice_id = invoices.id)
            AS refunded_cents
    FROM invoices WHERE order_id = ?
"""


class Shop:
    """A shop's database. Holds no connection: may be used from any thread and process.

    Reading methods raise a `ShopError` for what does not exist. Methods that change something
    take a `key`, raise a `ShopError` where the shop refuses (and then nothing has happened, and
    the key is still free), and `KeyReusedError` where the key belongs to another effect.

    Order numbers are taken as people write them: ` a-17` is `A-17`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def open(cls, path: Path | str) -> "Shop":
        """Return the shop at this path; make it, with its first data, if nothing is there.

        Several processes may do so at once: one makes it, the others find it.

        Raises:
            NotAShopError: the file is something else.
            FileNotFoundError: the folder does not exist.
        """
        shop = cls(Path(path))
        if not shop.path.parent.is_dir():
            raise FileNotFoundError(
                f"The folder of the shop database {shop.path} does not exist: create it, or name "
                "another file in SUPPORT_DESK_DB."
            )
        try:
            with closing(shop._connect()) as db:
                _ensure_schema(db, shop.path)
                _ensure_wal(db)
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
                raise _not_a_shop(shop.path, "it is no SQLite database") from error
            raise
        return shop

    def look_up_order(self, order_id: str) -> Order:
        """Return an order as it stands.

        Raises:
            UnknownOrderError: no order has this number.
        """
        with self._transaction("BEGIN") as db:
            return _read_order(db, _normal(order_id))

    def look_up_invoice(self, order_id: str) -> Invoice:
        """Return the invoice of an order.

        Raises:
            UnknownOrderError: no order has this number.
            UnknownInvoiceError: the order has not been invoiced yet.
        """
        with self._transaction("BEGIN") as db:
            order = _read_order(db, _normal(order_id))
            row = db.execute(_INVOICE, (order.id,)).fetchone()
            if row is None:
                raise UnknownInvoiceError(order.id)
            return Invoice(**row)

    def change_address(self, order_id: str, new_address: str, *, key: str) -> AddressChange:
        """Deliver an order to another address.

        Raises:
            UnknownOrderError: no order has this number.
            AddressRefusedError: the parcel has left the house, or the address is empty.
            KeyReusedError: the key belongs to another effect.
        """
        order_id, new_address = _normal(order_id), new_address.strip()

        def perform(db: sqlite3.Connection) -> AddressChange:
            order = _read_order(db, order_id)
            if order.has_left:
                raise AddressRefusedError(
                    f"Order {order.id} is {order.status} already, so its delivery address cannot "
                    "be changed any more."
                )
            if not new_address:
                raise AddressRefusedError("The new address is empty.")
            db.execute("UPDATE orders SET address = ? WHERE id = ?", (new_address, order.id))
            return AddressChange(
                order_id=order.id, old_address=order.address, new_address=new_address
            )

        arguments = {"order_id": order_id, "new_address": new_address}
        return AddressChange(**self._once(key, "address_change", arguments, perform))

    def refund(
        self,
        order_id: str,
        amount_cents: int | None,
        reason: str,
        *,
        key: str,
        limit_cents: int | None = None,
    ) -> Refund:
        """Pay money back; an amount of None pays back all that can be.

        Args:
            order_id: the order.
            amount_cents: how much.
            reason: why.
            key: the idempotency key.
            limit_cents: what all refunds of the order may come to; None for no limit.

        Raises:
            UnknownOrderError: no order has this number.
            AboveLimitError: the refunds of the order would come to more than the limit.
            RefundRefusedError: it is more than was paid and not refunded yet, is not positive, or
                has no reason.
            KeyReusedError: the key belongs to another effect.
        """
        order_id, reason = _normal(order_id), reason.strip()

        def perform(db: sqlite3.Connection) -> Refund:
            order = _read_order(db, order_id)
            amount = check_refund(order, amount_cents)
            if not reason:
                raise RefundRefusedError("A refund needs a reason.")
            total_cents = order.refunded_cents + amount
            if limit_cents is not None and total_cents > limit_cents:
                raise AboveLimitError(
                    f"The refunds of order {order.id} would come to {in_euros(total_cents)}, which "
                    f"is above {in_euros(limit_cents)}."
                )
            cursor = db.execute(
                "INSERT INTO refunds (invoice_id, amount_cents, reason, ledger_key) "
                "SELECT id, ?, ?, ? FROM invoices WHERE order_id = ?",
                (amount, reason, key, order.id),
            )
            return Refund(
                id=f"R-{cursor.lastrowid}",
                order_id=order.id,
                amount_cents=amount,
                refunded_cents=order.refunded_cents + amount,
            )

        # The amount as it was asked for: what "all of it" comes to is different the second time.
        arguments = {"order_id": order_id, "amount_cents": amount_cents, "reason": reason}
        return Refund(**self._once(key, "refund", arguments, perform))

    def book_pickup(self, order_id: str, report_to: str, *, key: str) -> Booking:
        """Book a courier who collects an order from the customer.

        Args:
            order_id: the order.
            report_to: where the courier reports the pickup; they are given it with the booking.
            key: the idempotency key.

        Raises:
            UnknownOrderError: no order has this number.
            PickupRefusedError: the order is not delivered, or a courier is booked for it already.
            KeyReusedError: the key belongs to another effect.
        """
        order_id = _normal(order_id)

        def perform(db: sqlite3.Connection) -> Booking:
            order = _read_order(db, order_id)
            if order.status != "delivered":
                raise PickupRefusedError(
                    f"Order {order.id} is {order.status}: a courier collects only what was "
                    "delivered."
                )
            if db.execute("SELECT 1 FROM pickups WHERE order_id = ?", (order.id,)).fetchone():
                raise PickupRefusedError(f"A courier is booked for order {order.id} already.")
            cursor = db.execute(
                "INSERT INTO pickups (order_id, report_to, ledger_key) VALUES (?, ?, ?)",
                (order.id, report_to, key),
            )
            return Booking(
                id=f"P-{cursor.lastrowid}",
                order_id=order.id,
                address=order.address,
                report_to=report_to,
            )

        arguments = {"order_id": order_id, "report_to": report_to}
        return Booking(**self._once(key, "pickup", arguments, perform))

    def open_ticket(self, question: str, *, key: str, customer_id: str | None = None) -> Ticket:
        """Put a question into the queue of the people behind the desk.

        The key stands for the question alone: `customer_id` is who happens to ask it.

        Raises:
            InvalidInputError: the question is empty.
            KeyReusedError: the key belongs to another effect.
        """
        question = question.strip()

        def perform(db: sqlite3.Connection) -> Ticket:
            if not question:
                raise InvalidInputError("The question is empty.")
            cursor = db.execute(
                "INSERT INTO tickets (customer_id, question, ledger_key) VALUES (?, ?, ?)",
                (customer_id, question, key),
            )
            return Ticket(id=f"T-{cursor.lastrowid}", customer_id=customer_id, question=question)

        return Ticket(**self._once(key, "ticket", {"question": question}, perform))

    def tickets(self) -> list[Ticket]:
        """Return the queue of questions, oldest first."""
        with self._transaction("BEGIN") as db:
            rows = db.execute("SELECT id, customer_id, question FROM tickets ORDER BY id")
            return [
                Ticket(
                    id=f"T-{row['id']}", customer_id=row["customer_id"], question=row["question"]
                )
                for row in rows
            ]

    def ledger(self) -> list[LedgerEntry]:
        """Return every side effect the shop has had, in the order in which they happened."""
        with self._transaction("BEGIN") as db:
            rows = db.execute("SELECT * FROM ledger ORDER BY number").fetchall()
        return [
            LedgerEntry(
                number=row["number"],
                key=row["key"],
                effect=row["effect"],
                arguments=json.loads(row["arguments"]),
                result=json.loads(row["result"]),
                recorded_at=row["recorded_at"],
            )
            for row in rows
        ]

    def _once(
        self,
        key: str,
        effect: Effect,
        arguments: dict[str, Any],
        perform: "Callable[[sqlite3.Connection], AddressChange | Booking | Refund | Ticket]",
    ) -> dict[str, Any]:
        """Perform an effect and record it, or return what was recorded under its key."""
        if not key:
            raise ValueError(f"The {effect} needs an idempotency key, such as the tool call's.")
        asked = json.dumps(arguments, sort_keys=True, ensure_ascii=False)
        # The write lock comes first: between looking for the key and writing it, nobody else may.
        with self._transaction("BEGIN IMMEDIATE") as db:
            known = db.execute("SELECT * FROM ledger WHERE key = ?", (key,)).fetchone()
            if known is not None:
                if (known["effect"], known["arguments"]) != (effect, asked):
                    raise KeyReusedError(
                        f"The key {key!r} stands for the {known['effect']} {known['arguments']} "
                        f"and cannot be used for the {effect} {asked}: give each call its own key."
                    )
                recorded: dict[str, Any] = json.loads(known["result"])
                return recorded
            result = asdict(perform(db))
            db.execute(
                "INSERT INTO ledger (key, effect, arguments, result) VALUES (?, ?, ?, ?)",
                (key, effect, asked, json.dumps(result, ensure_ascii=False)),
            )
            return result

    @contextmanager
    def _transaction(self, begin: str) -> Generator[sqlite3.Connection]:
        """Open a connection for one transaction: commit at the end, roll back on any exception."""
        with closing(self._connect()) as db:
            db.execute("PRAGMA foreign_keys = ON")
            db.execute(begin)
            with db:
                yield db

    def _connect(self) -> sqlite3.Connection:
        # isolation_level=None: transactions begin where this module says so, not by themselves.
        db = sqlite3.connect(self.path, timeout=BUSY_TIMEOUT.total_seconds(), isolation_level=None)
        db.row_factory = sqlite3.Row
        return db


def check_refund(order: Order, amount_cents: int | None) -> int:
    """Return what a refund would pay, in cents; an amount of None asks for all that can be.

    Raises:
        RefundRefusedError: the order as it stands does not allow the refund.
    """
    amount = order.refundable_cents if amount_cents is None else amount_cents
    if order.paid_cents == 0:
        raise RefundRefusedError(f"Nothing has been paid for order {order.id} yet.")
    if order.refundable_cents == 0:
        raise RefundRefusedError(
            f"The {in_euros(order.paid_cents)} paid for order {order.id} have been refunded "
            "already."
        )
    if amount <= 0:
        raise RefundRefusedError(f"A refund has to be above zero, not {in_euros(amount)}.")
    if amount > order.refundable_cents:
        raise RefundRefusedError(
            f"{in_euros(amount)} cannot be refunded for order {order.id}: "
            f"{in_euros(order.paid_cents)} were paid, {in_euros(order.refunded_cents)} of it have "
            f"been refunded, so {in_euros(order.refundable_cents)} is the most."
        )
    return amount


def _read_order(db: sqlite3.Connection, order_id: str) -> Order:
    row = db.execute(_ORDER, (order_id,)).fetchone()
    if row is None:
        raise UnknownOrderError(order_id)
    lines = tuple(OrderLine(**line) for line in db.execute(_LINES, (order_id,)))
    return Order(**row, lines=lines)


def _normal(order_id: str) -> str:
    return order_id.strip().lstrip("#").upper()


def _ensure_schema(db: sqlite3.Connection, path: Path) -> None:
    if _identity(db) == (schema.APPLICATION_ID, schema.SCHEMA_VERSION):
        return
    # Perhaps another process is making it at this moment: look again with the write lock held.
    db.execute("BEGIN IMMEDIATE")
    with db:
        application, version = _identity(db)
        if application == schema.APPLICATION_ID:
            if version != schema.SCHEMA_VERSION:
                raise _not_a_shop(
                    path, f"its schema is version {version}, this is {schema.SCHEMA_VERSION}"
                )
            return
        if db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise _not_a_shop(path, "it holds another program's tables")
        schema.create(db)


def _identity(db: sqlite3.Connection) -> tuple[int, int]:
    application = db.execute("PRAGMA application_id").fetchone()[0]
    return application, db.execute("PRAGMA user_version").fetchone()[0]


def _ensure_wal(db: sqlite3.Connection) -> None:
    """Turn on write-ahead logging, once per file: readers and the writer then pass each other.

    The change needs the file for itself. Where two processes want that at once, SQLite gives up
    without waiting, whatever its time-out is; so this waits, and SQLite need not.
    """
    db.execute("PRAGMA busy_timeout = 0")
    deadline = time.monotonic() + BUSY_TIMEOUT.total_seconds()
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            # The low byte is the kind of error; the rest tells variants of it apart.
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _not_a_shop(path: Path, why: str) -> NotAShopError:
    return NotAShopError(
        f"{path} is no support desk database: {why}. Name another file in SUPPORT_DESK_DB."
    )
