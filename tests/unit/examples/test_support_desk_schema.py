"""The tables: what holds whoever writes to the file, and the data a shop opens with."""

import sqlite3
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pytest
from support_desk.shop import Shop


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop.open(tmp_path / "shop.db")


@pytest.fixture
def raw(shop: Shop) -> Generator[sqlite3.Connection]:
    """A connection that goes past the shop, as another program would."""
    with closing(sqlite3.connect(shop.path, isolation_level=None)) as db:
        db.execute("PRAGMA foreign_keys = ON")
        yield db


def test_every_invoice_of_the_first_data_is_over_its_order_s_total(
    shop: Shop, raw: sqlite3.Connection
) -> None:
    invoiced = [row[0] for row in raw.execute("SELECT order_id FROM invoices")]
    assert len(invoiced) >= 4
    for order_id in invoiced:
        total = shop.look_up_order(order_id).total_cents
        assert shop.look_up_invoice(order_id).total_cents == total


LEDGER = "INSERT INTO ledger (key, effect, arguments, result) VALUES"


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("UPDATE ledger SET result = '{}'", "append-only"),
        ("DELETE FROM ledger", "append-only"),
        (f"{LEDGER} ('k1', 'refund', '1', '1')", "UNIQUE .*ledger.key"),
        (f"{LEDGER} ('', 'refund', '1', '1')", "CHECK .*key <> ''"),
        (f"{LEDGER} ('n', 'theft', '1', '1')", "CHECK .*effect IN"),
        (f"{LEDGER} ('n', 'refund', '{{', '1')", "CHECK .*json_valid"),
        ("INSERT INTO refunds VALUES (NULL, 'INV-031', 1, 'why', 'no such key')", "FOREIGN KEY"),
        ("INSERT INTO refunds VALUES (NULL, 'no such', 1, 'why', 'free')", "FOREIGN KEY"),
        ("INSERT INTO refunds VALUES (NULL, 'INV-031', 1, 'why', 'k1')", "UNIQUE .*ledger_key"),
        ("INSERT INTO refunds VALUES (NULL, 'INV-031', 4891, 'why', 'free')", "what was paid"),
        ("INSERT INTO refunds VALUES (NULL, 'INV-031', 1.5, 'why', 'free')", "CHECK .*integer"),
        ("INSERT INTO refunds VALUES (NULL, 'INV-031', -1, 'why', 'free')", "CHECK .*> 0"),
        ("INSERT INTO refunds VALUES (NULL, 'INV-031', 1, ' ', 'free')", "CHECK .*reason"),
        ("INSERT INTO pickups VALUES (NULL, 'A-42', 'token', 'no such key')", "FOREIGN KEY"),
        ("INSERT INTO pickups VALUES (NULL, 'no such', 'token', 'free')", "FOREIGN KEY"),
        ("INSERT INTO pickups VALUES (NULL, 'A-42', '', 'free')", "CHECK .*report_to"),
        ("INSERT INTO pickups VALUES (NULL, 'A-17', 'token', 'free')", "UNIQUE .*order_id"),
        ("UPDATE orders SET status = 'lost'", "CHECK .*status"),
        ("UPDATE orders SET address = ' '", "CHECK .*address"),
        ("UPDATE orders SET customer_id = 'nobody'", "FOREIGN KEY"),
        ("UPDATE invoices SET paid_cents = total_cents + 1", "CHECK .*paid_cents BETWEEN"),
        ("DELETE FROM customers", "FOREIGN KEY"),
    ],
)
def test_a_statement_against_the_rules_is_refused(
    shop: Shop, raw: sqlite3.Connection, statement: str, why: str
) -> None:
    shop.refund("A-17", 100, "broken", key="k1")
    shop.book_pickup("A-17", "token", key="k0")
    raw.execute(f"{LEDGER} ('free', 'refund', '1', '1')")
    before = list(raw.iterdump())
    with pytest.raises(sqlite3.IntegrityError, match=f"(?s){why}"):
        raw.execute(statement)
    assert list(raw.iterdump()) == before


def test_a_refund_with_its_ledger_entry_is_accepted_up_to_what_was_paid(
    shop: Shop, raw: sqlite3.Connection
) -> None:
    shop.refund("A-17", 100, "broken", key="k1")
    raw.execute("BEGIN")
    raw.execute("INSERT INTO refunds VALUES (NULL, 'INV-031', 4890, 'why', 'k2')")
    raw.execute(f"{LEDGER} ('k2', 'refund', '1', '1')")
    raw.execute("COMMIT")
    assert shop.look_up_order("A-17").refundable_cents == 0
