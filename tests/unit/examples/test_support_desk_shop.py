"""The shop: its rules, its receipts, its ledger, and how its file is opened."""

import sqlite3
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pytest
from support_desk import schema
from support_desk import shop as shop_module
from support_desk.errors import (
    AddressRefusedError,
    InvalidInputError,
    KeyReusedError,
    NotAShopError,
    PickupRefusedError,
    RefundRefusedError,
    ShopError,
    UnknownInvoiceError,
    UnknownOrderError,
)
from support_desk.records import AddressChange, Booking, OrderLine, Refund, Ticket
from support_desk.shop import Shop, check_refund


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop.open(tmp_path / "shop.db")


@pytest.fixture
def raw(shop: Shop) -> Generator[sqlite3.Connection]:
    """A connection that goes past the shop, as another program would."""
    with closing(sqlite3.connect(shop.path, isolation_level=None)) as db:
        db.execute("PRAGMA foreign_keys = ON")
        yield db


class TestReading:
    def test_an_order_comes_with_its_lines_and_sums(self, shop: Shop) -> None:
        order = shop.look_up_order("A-17")
        assert (order.id, order.status, order.customer_name) == (
            "A-17",
            "delivered",
            "Mara Lindholm",
        )
        assert order.lines == (
            OrderLine(article="Tea pot, stoneware", quantity=1, unit_price_cents=3290),
            OrderLine(article="Tea cup, stoneware", quantity=2, unit_price_cents=850),
        )
        assert order.total_cents == order.paid_cents == order.refundable_cents == 4990

    @pytest.mark.parametrize("written", ["a-17", " A-17 ", "#A-17", " #a-17"])
    def test_an_order_number_is_taken_as_people_write_it(self, shop: Shop, written: str) -> None:
        assert shop.look_up_order(written).id == "A-17"

    def test_an_order_that_does_not_exist_is_named_in_the_error(self, shop: Shop) -> None:
        with pytest.raises(UnknownOrderError, match="There is no order A-99"):
            shop.look_up_order("a-99")

    def test_an_invoice_comes_with_what_is_due(self, shop: Shop) -> None:
        invoice = shop.look_up_invoice("B-4")
        assert (invoice.total_cents, invoice.paid_cents, invoice.due_cents) == (7900, 0, 7900)

    def test_an_order_without_an_invoice_says_so(self, shop: Shop) -> None:
        with pytest.raises(UnknownInvoiceError, match="Order A-20 has no invoice yet"):
            shop.look_up_invoice("A-20")

    def test_the_invoice_of_no_order_is_an_unknown_order(self, shop: Shop) -> None:
        with pytest.raises(UnknownOrderError):
            shop.look_up_invoice("A-99")


class TestChangeAddress:
    def test_it_changes_the_order_and_leaves_a_receipt(self, shop: Shop) -> None:
        before = shop.look_up_order("A-18").address
        change = shop.change_address("a-18", " Neue Gasse 5, 01067 Dresden ", key="k1")
        assert change == AddressChange(
            order_id="A-18", old_address=before, new_address="Neue Gasse 5, 01067 Dresden"
        )
        assert shop.look_up_order("A-18").address == "Neue Gasse 5, 01067 Dresden"

    @pytest.mark.parametrize(("order_id", "status"), [("B-4", "shipped"), ("A-17", "delivered")])
    def test_it_is_refused_once_the_parcel_has_left(
        self, shop: Shop, order_id: str, status: str
    ) -> None:
        before = shop.look_up_order(order_id)
        with pytest.raises(AddressRefusedError, match=f"{order_id} is {status} already"):
            shop.change_address(order_id, "Elsewhere 1", key="k1")
        assert shop.look_up_order(order_id) == before
        assert shop.ledger() == []

    def test_an_empty_address_is_refused(self, shop: Shop) -> None:
        with pytest.raises(AddressRefusedError, match="new address is empty"):
            shop.change_address("A-18", "  ", key="k1")

    def test_an_unknown_order_is_refused(self, shop: Shop) -> None:
        with pytest.raises(UnknownOrderError):
            shop.change_address("A-99", "Elsewhere 1", key="k1")

    def test_the_receipt_is_kept_when_the_order_is_shipped_in_between(
        self, shop: Shop, raw: sqlite3.Connection
    ) -> None:
        first = shop.change_address("A-18", "Elsewhere 1", key="k1")
        raw.execute("UPDATE orders SET status = 'shipped' WHERE id = 'A-18'")
        assert shop.change_address("A-18", "Elsewhere 1", key="k1") == first

    def test_repeating_an_old_change_does_not_undo_a_newer_one(self, shop: Shop) -> None:
        shop.change_address("A-18", "First 1", key="k1")
        shop.change_address("A-18", "Second 2", key="k2")
        shop.change_address("A-18", "First 1", key="k1")
        assert shop.look_up_order("A-18").address == "Second 2"


class TestBookPickup:
    def test_a_courier_is_booked_and_told_where_to_report(self, shop: Shop) -> None:
        booking = shop.book_pickup("a-42", "token-1", key="k1")
        assert booking == Booking(
            id="P-1",
            order_id="A-42",
            address="Mara Lindholm, Ringstrasse 8, 04109 Leipzig",
            report_to="token-1",
        )

    def test_the_same_call_books_once(self, shop: Shop) -> None:
        first = shop.book_pickup("A-42", "token-1", key="k1")
        assert shop.book_pickup("A-42", "token-1", key="k1") == first
        assert [(entry.key, entry.effect) for entry in shop.ledger()] == [("k1", "pickup")]

    def test_another_call_cannot_book_the_order_again(self, shop: Shop) -> None:
        shop.book_pickup("A-42", "token-1", key="k1")
        with pytest.raises(PickupRefusedError, match="booked for order A-42 already"):
            shop.book_pickup("A-42", "token-2", key="k2")
        assert [entry.key for entry in shop.ledger()] == ["k1"]

    @pytest.mark.parametrize(
        ("order_id", "status"), [("A-18", "packed"), ("A-20", "placed"), ("B-4", "shipped")]
    )
    def test_what_was_not_delivered_cannot_be_collected(
        self, shop: Shop, order_id: str, status: str
    ) -> None:
        with pytest.raises(PickupRefusedError, match=f"{order_id} is {status}: a courier collects"):
            shop.book_pickup(order_id, "token-1", key="k1")
        assert shop.ledger() == []

    def test_an_unknown_order_is_refused(self, shop: Shop) -> None:
        with pytest.raises(UnknownOrderError):
            shop.book_pickup("A-99", "token-1", key="k1")


class TestRefund:
    def test_it_is_paid_and_leaves_a_receipt(self, shop: Shop) -> None:
        refund = shop.refund("A-17", 1000, "a cup is chipped", key="k1")
        assert refund == Refund(id="R-1", order_id="A-17", amount_cents=1000, refunded_cents=1000)
        assert shop.look_up_order("A-17").refundable_cents == 3990
        assert shop.look_up_invoice("A-17").refunded_cents == 1000

    def test_without_an_amount_all_that_is_left_is_paid_back(self, shop: Shop) -> None:
        shop.refund("A-17", 1000, "a cup is chipped", key="k1")
        refund = shop.refund("A-17", None, "now the pot broke", key="k2")
        assert (refund.amount_cents, refund.refunded_cents) == (3990, 4990)

    def test_repeating_a_refund_of_everything_returns_the_first_receipt(self, shop: Shop) -> None:
        first = shop.refund("A-17", None, "broken", key="k1")
        assert first.amount_cents == 4990
        assert shop.refund("A-17", None, "broken", key="k1") == first
        assert shop.look_up_order("A-17").refunded_cents == 4990

    def test_more_than_was_paid_is_refused_with_what_is_possible(self, shop: Shop) -> None:
        shop.refund("A-17", 2000, "broken", key="k1")
        with pytest.raises(RefundRefusedError) as refused:
            shop.refund("A-17", 3000, "broken", key="k2")
        assert str(refused.value) == (
            "30.00 EUR cannot be refunded for order A-17: 49.90 EUR were paid, 20.00 EUR of it "
            "have been refunded, so 29.90 EUR is the most."
        )
        assert [entry.key for entry in shop.ledger()] == ["k1"]

    def test_an_order_that_was_refunded_in_full_says_so(self, shop: Shop) -> None:
        shop.refund("A-17", None, "broken", key="k1")
        with pytest.raises(RefundRefusedError, match=r"49\.90 EUR .* refunded already"):
            shop.refund("A-17", None, "broken again", key="k2")

    @pytest.mark.parametrize("order_id", ["B-4", "A-20"])
    def test_what_was_not_paid_cannot_be_refunded(self, shop: Shop, order_id: str) -> None:
        with pytest.raises(RefundRefusedError, match=f"Nothing has been paid for order {order_id}"):
            shop.refund(order_id, None, "changed my mind", key="k1")

    @pytest.mark.parametrize("amount_cents", [0, -1, -500])
    def test_an_amount_that_is_not_above_zero_is_refused(
        self, shop: Shop, amount_cents: int
    ) -> None:
        with pytest.raises(RefundRefusedError, match="above zero, not"):
            shop.refund("A-17", amount_cents, "broken", key="k1")

    def test_a_refund_needs_a_reason(self, shop: Shop) -> None:
        with pytest.raises(RefundRefusedError, match="needs a reason"):
            shop.refund("A-17", 100, " ", key="k1")

    def test_an_amount_beyond_what_the_database_can_hold_is_refused_like_any_other(
        self, shop: Shop
    ) -> None:
        with pytest.raises(RefundRefusedError, match="cannot be refunded"):
            shop.refund("A-17", 10**30, "broken", key="k1")

    def test_the_check_alone_says_what_would_be_paid_and_pays_nothing(self, shop: Shop) -> None:
        order = shop.look_up_order("A-42")
        assert check_refund(order, None) == 38900
        assert check_refund(order, 500) == 500
        with pytest.raises(RefundRefusedError):
            check_refund(order, 38901)
        assert shop.ledger() == []


class TestTickets:
    def test_a_question_is_queued(self, shop: Shop) -> None:
        ticket = shop.open_ticket(" Is the pan safe? ", key="k1", customer_id="cust-1001")
        assert ticket == Ticket(id="T-1", customer_id="cust-1001", question="Is the pan safe?")
        assert shop.tickets() == [ticket]

    def test_the_queue_is_in_the_order_of_asking(self, shop: Shop) -> None:
        shop.open_ticket("first", key="z")
        shop.open_ticket("second", key="a")
        assert [ticket.question for ticket in shop.tickets()] == ["first", "second"]

    def test_an_empty_question_is_refused(self, shop: Shop) -> None:
        with pytest.raises(InvalidInputError, match="question is empty"):
            shop.open_ticket("", key="k1")

    def test_a_repeated_question_by_a_customer_known_by_now_is_the_same_ticket(
        self, shop: Shop
    ) -> None:
        first = shop.open_ticket("Is the pan safe?", key="k1")
        again = shop.open_ticket("Is the pan safe?", key="k1", customer_id="cust-1001")
        assert again == first
        assert shop.tickets() == [first]


class TestLedger:
    def test_it_lists_each_effect_with_what_was_asked_and_what_came_of_it(self, shop: Shop) -> None:
        shop.change_address("A-18", "Elsewhere 1", key="k1")
        refund = shop.refund("a-17", None, "broken", key="k2")
        shop.open_ticket("Is the pan safe?", key="k3")
        address, money, ticket = shop.ledger()
        assert [entry.number for entry in (address, money, ticket)] == [1, 2, 3]
        assert [entry.effect for entry in (address, money, ticket)] == [
            "address_change",
            "refund",
            "ticket",
        ]
        assert money.key == "k2"
        assert money.arguments == {"order_id": "A-17", "amount_cents": None, "reason": "broken"}
        assert Refund(**money.result) == refund
        assert money.recorded_at.endswith("Z")
        assert address.recorded_at <= money.recorded_at <= ticket.recorded_at

    def test_a_known_key_changes_nothing_at_all(self, shop: Shop, raw: sqlite3.Connection) -> None:
        shop.refund("A-17", 1000, "broken", key="k1")
        before = list(raw.iterdump())
        shop.refund("A-17", 1000, "broken", key="k1")
        shop.refund(" #a-17", 1000, " broken ", key="k1")
        assert list(raw.iterdump()) == before

    def test_a_key_with_other_arguments_is_an_error_that_shows_both(self, shop: Shop) -> None:
        shop.refund("A-17", 1000, "broken", key="k1")
        with pytest.raises(KeyReusedError) as reused:
            shop.refund("A-17", 1001, "broken", key="k1")
        assert '"amount_cents": 1000' in str(reused.value)
        assert '"amount_cents": 1001' in str(reused.value)
        assert shop.look_up_order("A-17").refunded_cents == 1000

    def test_a_key_with_another_effect_is_an_error(self, shop: Shop) -> None:
        shop.open_ticket("Is the pan safe?", key="k1")
        with pytest.raises(KeyReusedError, match="stands for the ticket"):
            shop.refund("A-17", 1000, "broken", key="k1")

    def test_a_reused_key_is_no_refusal_of_the_shop(self) -> None:
        assert not issubclass(KeyReusedError, ShopError)

    def test_an_effect_needs_a_key(self, shop: Shop) -> None:
        with pytest.raises(ValueError, match="refund needs an idempotency key"):
            shop.refund("A-17", 1000, "broken", key="")

    def test_the_key_of_a_refused_effect_is_still_free(self, shop: Shop) -> None:
        with pytest.raises(RefundRefusedError):
            shop.refund("A-17", 999_999, "broken", key="k1")
        assert shop.refund("A-17", 1000, "broken", key="k1").amount_cents == 1000


class TestOpening:
    def test_a_second_opening_keeps_what_has_happened(self, tmp_path: Path) -> None:
        first = Shop.open(tmp_path / "shop.db")
        first.refund("A-17", 1000, "broken", key="k1")
        assert Shop.open(tmp_path / "shop.db").ledger() == first.ledger()

    def test_two_new_shops_hold_the_same(self, tmp_path: Path) -> None:
        dumps: list[list[str]] = []
        for name in ("one.db", "two.db"):
            with closing(sqlite3.connect(Shop.open(tmp_path / name).path)) as db:
                dumps.append(list(db.iterdump()))
        assert dumps[0] == dumps[1]

    def test_the_file_is_in_write_ahead_mode(self, raw: sqlite3.Connection) -> None:
        assert raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)

    def test_a_file_left_without_write_ahead_mode_is_given_it(
        self, shop: Shop, raw: sqlite3.Connection
    ) -> None:
        raw.execute("PRAGMA journal_mode = DELETE")
        Shop.open(shop.path)
        with closing(sqlite3.connect(shop.path)) as db:
            db.execute("SELECT * FROM orders")  # the mode is in the file, which nobody read yet
            assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)

    def test_write_ahead_mode_is_waited_for_only_so_long(
        self, shop: Shop, raw: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        raw.execute("PRAGMA journal_mode = DELETE")
        monkeypatch.setattr(shop_module, "BUSY_TIMEOUT", shop_module.BUSY_TIMEOUT / 1000)
        raw.execute("BEGIN")
        raw.execute("SELECT * FROM orders").fetchone()
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            Shop.open(shop.path)
        raw.execute("COMMIT")

    def test_write_ahead_mode_is_turned_on_once_the_file_is_free(
        self, shop: Shop, raw: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        raw.execute("PRAGMA journal_mode = DELETE")
        raw.execute("BEGIN")
        raw.execute("SELECT * FROM orders").fetchone()
        waits: list[float] = []

        def wait(seconds: float) -> None:
            waits.append(seconds)
            raw.execute("COMMIT")

        monkeypatch.setattr(shop_module.time, "sleep", wait)
        Shop.open(shop.path)
        assert len(waits) == 1
        raw.execute("SELECT * FROM orders").fetchone()
        assert raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)

    def test_an_empty_file_becomes_a_shop(self, tmp_path: Path) -> None:
        path = tmp_path / "shop.db"
        path.touch()
        assert Shop.open(path).look_up_order("A-17").id == "A-17"

    def test_a_folder_that_does_not_exist_is_named_with_what_to_do(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match=r"nowhere.*create it, or name.*DESK_DB"):
            Shop.open(tmp_path / "nowhere" / "shop.db")

    def test_a_file_that_is_no_database_is_left_alone(self, tmp_path: Path) -> None:
        path = tmp_path / "notes.txt"
        path.write_text("milk, bread, " * 100)
        with pytest.raises(NotAShopError, match=r"notes\.txt is no .*: it is no SQLite database"):
            Shop.open(path)
        assert path.read_text().startswith("milk, bread")

    def test_another_program_s_database_is_left_alone(self, tmp_path: Path) -> None:
        path = tmp_path / "other.db"
        with closing(sqlite3.connect(path)) as db:
            db.execute("CREATE TABLE songs (title TEXT)")
            before = list(db.iterdump())
            with pytest.raises(NotAShopError, match="another program's tables"):
                Shop.open(path)
            assert list(db.iterdump()) == before
            assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)

    def test_another_version_s_shop_is_refused(self, shop: Shop, raw: sqlite3.Connection) -> None:
        raw.execute(f"PRAGMA user_version = {schema.SCHEMA_VERSION + 1}")
        with pytest.raises(NotAShopError, match="its schema is version 3, this is 2"):
            Shop.open(shop.path)

    def test_a_path_that_cannot_be_opened_is_sqlite_s_own_error(self, tmp_path: Path) -> None:
        with pytest.raises(sqlite3.OperationalError, match="unable to open"):
            Shop.open(tmp_path)
