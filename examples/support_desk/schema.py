"""The shop's tables and the data it opens with.

Owns: the SQL that makes a new database; the rules that hold whoever writes to it are stated here
as constraints and triggers. Must not know: what the desk does with it.
"""

import sqlite3

APPLICATION_ID = 0x53_44_45_53
"""Marks the file as ours; the bytes read `SDES`."""

SCHEMA_VERSION = 2

_TABLES = (
    """
    CREATE TABLE customers (
        id TEXT PRIMARY KEY NOT NULL,
        name TEXT NOT NULL CHECK (name <> '')
    )
    """,
    """
    CREATE TABLE orders (
        id TEXT PRIMARY KEY NOT NULL CHECK (id = upper(trim(id)) AND id <> ''),
        customer_id TEXT NOT NULL REFERENCES customers (id),
        status TEXT NOT NULL CHECK (status IN ('placed', 'packed', 'shipped', 'delivered')),
        address TEXT NOT NULL CHECK (trim(address) <> ''),
        ordered_on TEXT NOT NULL CHECK (date(ordered_on) = ordered_on)
    )
    """,
    """
    CREATE TABLE order_lines (
        order_id TEXT NOT NULL REFERENCES orders (id),
        line INTEGER NOT NULL CHECK (line > 0),
        article TEXT NOT NULL CHECK (article <> ''),
        quantity INTEGER NOT NULL CHECK (typeof(quantity) = 'integer' AND quantity > 0),
        unit_price_cents INTEGER NOT NULL
            CHECK (typeof(unit_price_cents) = 'integer' AND unit_price_cents >= 0),
        PRIMARY KEY (order_id, line)
    )
    """,
    """
    CREATE TABLE invoices (
        id TEXT PRIMARY KEY NOT NULL,
        order_id TEXT NOT NULL UNIQUE REFERENCES orders (id),
        issued_on TEXT NOT NULL CHECK (date(issued_on) = issued_on),
        total_cents INTEGER NOT NULL CHECK (typeof(total_cents) = 'integer' AND total_cents >= 0),
        paid_cents INTEGER NOT NULL
            CHECK (typeof(paid_cents) = 'integer' AND paid_cents BETWEEN 0 AND total_cents)
    )
    """,
    """
    CREATE TABLE ledger (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        key TEXT NOT NULL UNIQUE CHECK (key <> ''),
        effect TEXT NOT NULL
            CHECK (effect IN ('address_change', 'pickup', 'refund', 'ticket')),
        arguments TEXT NOT NULL CHECK (json_valid(arguments)),
        result TEXT NOT NULL CHECK (json_valid(result)),
        recorded_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
    )
    """,
    # An effect names its ledger entry, so that neither can exist without the other.
    """
    CREATE TABLE refunds (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        invoice_id TEXT NOT NULL REFERENCES invoices (id),
        amount_cents INTEGER NOT NULL
            CHECK (typeof(amount_cents) = 'integer' AND amount_cents > 0),
        reason TEXT NOT NULL CHECK (trim(reason) <> ''),
        ledger_key TEXT NOT NULL UNIQUE REFERENCES ledger (key) DEFERRABLE INITIALLY DEFERRED
    )
    """,
    """
    CREATE TABLE pickups (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        order_id TEXT NOT NULL UNIQUE REFERENCES orders (id),
        report_to TEXT NOT NULL CHECK (report_to <> ''),
        ledger_key TEXT NOT NULL UNIQUE REFERENCES ledger (key) DEFERRABLE INITIALLY DEFERRED
    )
    """,
    """
    CREATE TABLE tickets (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        customer_id TEXT REFERENCES customers (id),
        question TEXT NOT NULL CHECK (trim(question) <> ''),
        ledger_key TEXT NOT NULL UNIQUE REFERENCES ledger (key) DEFERRABLE INITIALLY DEFERRED
    )
    """,
    "CREATE INDEX refunds_of_invoice ON refunds (invoice_id)",
    """
    CREATE TRIGGER refund_within_payment BEFORE INSERT ON refunds
    WHEN NEW.amount_cents + (
        SELECT coalesce(sum(amount_cents), 0) FROM refunds WHERE invoice_id = NEW.invoice_id
    ) > (SELECT paid_cents FROM invoices WHERE id = NEW.invoice_id)
    BEGIN SELECT RAISE (ABORT, 'refunds may not exceed what was paid'); END
    """,
    """
    CREATE TRIGGER ledger_keeps BEFORE UPDATE ON ledger
    BEGIN SELECT RAISE (ABORT, 'the ledger is append-only'); END
    """,
    """
    CREATE TRIGGER ledger_holds BEFORE DELETE ON ledger
    BEGIN SELECT RAISE (ABORT, 'the ledger is append-only'); END
    """,
)

_CUSTOMERS = (
    ("cust-1001", "Mara Lindholm"),
    ("cust-1002", "Tom Prieto"),
)

_HOME = "Mara Lindholm, Ringstrasse 8, 04109 Leipzig"

_ORDERS = (
    ("A-17", "cust-1001", "delivered", _HOME, "2026-02-03"),
    ("A-18", "cust-1001", "packed", _HOME, "2026-02-17"),
    ("A-20", "cust-1001", "placed", _HOME, "2026-02-19"),
    ("A-42", "cust-1001", "delivered", _HOME, "2026-01-12"),
    ("B-4", "cust-1001", "shipped", _HOME, "2026-02-16"),
    ("C-3", "cust-1001", "delivered", _HOME, "2026-01-26"),
    ("D-7", "cust-1002", "packed", "Tom Prieto, Am Hafen 21, 24103 Kiel", "2026-02-18"),
)

_LINES = (
    ("A-17", 1, "Tea pot, stoneware", 1, 32_90),
    ("A-17", 2, "Tea cup, stoneware", 2, 8_50),
    ("A-18", 1, "Kitchen scale", 1, 24_00),
    ("A-18", 2, "Wooden spoon", 3, 4_50),
    ("A-20", 1, "Tea towel, linen", 2, 6_00),
    ("A-42", 1, "Espresso machine", 1, 389_00),
    ("B-4", 1, "Cast iron pan, 28 cm", 1, 79_00),
    ("C-3", 1, "Range cooker", 1, 1480_00),
    ("D-7", 1, "Knife set", 1, 132_00),
)

_INVOICES = (
    # A-20 is not packed yet and so has none; B-4 is bought on account and not paid yet.
    ("INV-031", "A-17", "2026-02-04", 49_90, 49_90),
    ("INV-045", "A-18", "2026-02-18", 37_50, 37_50),
    ("INV-012", "A-42", "2026-01-13", 389_00, 389_00),
    ("INV-044", "B-4", "2026-02-17", 79_00, 0),
    ("INV-018", "C-3", "2026-01-27", 1480_00, 1480_00),
    ("INV-046", "D-7", "2026-02-19", 132_00, 132_00),
)


def create(db: sqlite3.Connection) -> None:
    """Make the tables and the first data, within the caller's transaction."""
    for statement in _TABLES:
        db.execute(statement)
    db.executemany("INSERT INTO customers VALUES (?, ?)", _CUSTOMERS)
    db.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", _ORDERS)
    db.executemany("INSERT INTO order_lines VALUES (?, ?, ?, ?, ?)", _LINES)
    db.executemany("INSERT INTO invoices VALUES (?, ?, ?, ?, ?)", _INVOICES)
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
