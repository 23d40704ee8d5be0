"""The shop under many threads and processes at once: each effect exactly once."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support_desk import shop as shop_module
from support_desk.errors import RefundRefusedError
from support_desk.records import Refund
from support_desk.shop import Shop

EXAMPLES = Path(shop_module.__file__).parents[1]


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop.open(tmp_path / "shop.db")


def test_one_key_from_many_threads_is_one_effect(shop: Shop) -> None:
    def refund(_: int) -> Refund:
        return shop.refund("A-42", 100, "broken", key="one")

    with ThreadPoolExecutor(8) as pool:
        receipts = set(pool.map(refund, range(40)))
    assert len(receipts) == 1
    assert shop.look_up_order("A-42").refunded_cents == 100
    assert len(shop.ledger()) == 1


def test_many_keys_from_many_threads_never_pay_back_more_than_was_paid(shop: Shop) -> None:
    def refund(number: int) -> bool:
        try:
            shop.refund("A-17", 1000, "broken", key=f"k{number}")
        except RefundRefusedError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        paid = sum(pool.map(refund, range(16)))
    assert paid == 4
    assert shop.look_up_order("A-17").refunded_cents == 4000


def test_processes_with_the_same_keys_make_one_shop_and_one_effect_a_key(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    script = (
        "import sys; from support_desk.shop import Shop\n"
        "sys.stdin.readline()\n"
        "shop = Shop.open(sys.argv[1])\n"
        "for number in range(20):\n"
        "    print(shop.refund('A-42', 1 + number, 'broken', key=f'k{number}'))\n"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(path)],
            cwd=EXAMPLES,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    # All wait for their line, so that they open the shop, which is not there yet, together.
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    outputs = {process.communicate(timeout=60)[0] for process in processes}
    assert [process.returncode for process in processes] == [0, 0, 0, 0]
    assert len(outputs) == 1
    shop = Shop.open(path)
    assert sorted(entry.key for entry in shop.ledger()) == sorted(f"k{n}" for n in range(20))
    assert shop.look_up_order("A-42").refunded_cents == sum(range(1, 21))
