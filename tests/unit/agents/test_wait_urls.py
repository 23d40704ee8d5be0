"""Signed URLs of waits: what counts, and what does not."""

from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.agents.context.wait_address import WaitAddress
from outlast.agents.context.wait_urls import (
    LEEWAY_SECONDS,
    WaitUrlKeys,
    WaitUrlRefused,
    keys_from_environment,
    takes_unsigned_notes,
    wait_url,
)
from outlast.agents.context.wrapper import ToolContext
from outlast.agents.errors import UserError

OLD, NEW = "old-" + "o" * 40, "new-" + "n" * 40
NOW = 1_800_000_000
TOKEN = WaitAddress("run-1", 0, 1, "call_1", "courier").token


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTLAST_DELIVERY_KEYS", OLD)
    monkeypatch.setenv("OUTLAST_DELIVERY_URL", "https://hooks.example.com/")


def check(url: str, *, now: float = NOW, keys: str = OLD, token: str | None = None) -> str:
    """Return why a URL is refused; empty if it counts."""
    parts = urlsplit(url)
    query = parse_qs(parts.query, keep_blank_values=True)
    checker = WaitUrlKeys(tuple(key.encode() for key in keys.split(",")))
    try:
        checker.check(
            token or parts.path.rpartition("/")[2],
            query.get("expires", []),
            query.get("signature", []),
            now,
        )
    except WaitUrlRefused as refused:
        return refused.reason
    return ""


def test_a_url_names_the_receiver_and_the_wait():
    url = wait_url(TOKEN, timedelta(hours=1), NOW)
    assert url.startswith(f"https://hooks.example.com/deliveries/{TOKEN}?expires={NOW + 3600}&")
    assert check(url) == ""


def test_a_tool_makes_one_for_its_own_call():
    context = ToolContext(
        None, tool_name="book", tool_call_id="call_1", tool_arguments="{}", run_id="run-1", turn=1
    )
    url = context.wait_url("courier", expires=timedelta(hours=1))
    assert f"/deliveries/{context.wait_token('courier')}?" in url
    assert context.wait_token("courier") == TOKEN


@pytest.mark.parametrize("minutes", [-10, 10])
def test_a_clock_that_is_ten_minutes_off_breaks_no_url(minutes: int):
    url = wait_url(TOKEN, timedelta(seconds=1), NOW)
    assert check(url, now=NOW + minutes * 60) == ""


def test_a_url_ends_after_its_leeway():
    url = wait_url(TOKEN, timedelta(hours=1), NOW)
    assert check(url, now=NOW + 3600 + LEEWAY_SECONDS) == ""
    assert check(url, now=NOW + 3600 + LEEWAY_SECONDS + 1) == "expired"


def test_a_later_expiry_is_forged():
    url = wait_url(TOKEN, timedelta(hours=1), NOW)
    assert check(url.replace(str(NOW + 3600), str(NOW + 7200))) == "forged"


def test_a_signature_does_not_count_for_another_wait():
    url = wait_url(TOKEN, timedelta(hours=1), NOW)
    for other in (
        WaitAddress("run-2", 0, 1, "call_1", "courier"),
        WaitAddress("run-1", 1, 1, "call_1", "courier"),
        WaitAddress("run-1", 0, 2, "call_1", "courier"),
        WaitAddress("run-1", 0, 1, "call_2", "courier"),
        WaitAddress("run-1", 0, 1, "call_1", "payment"),
    ):
        assert check(url, token=other.token) == "forged"


def test_a_key_is_replaced_without_losing_a_url(monkeypatch: pytest.MonkeyPatch):
    before = wait_url(TOKEN, timedelta(hours=1), NOW)
    monkeypatch.setenv("OUTLAST_DELIVERY_KEYS", f" {NEW} , {OLD},")
    after = wait_url(TOKEN, timedelta(hours=1), NOW)
    both = keys_from_environment()
    assert both is not None
    assert (both.keys, repr(both)) == ((NEW.encode(), OLD.encode()), "WaitUrlKeys(2 keys)")
    assert [check(url, keys=f"{NEW},{OLD}") for url in (before, after)] == ["", ""]
    assert [check(url, keys=NEW) for url in (before, after)] == ["forged", ""]


@pytest.mark.parametrize(
    "query",
    [
        "",
        "expires=1800003600",
        "signature=AAAA",
        "expires=&signature=",
        "expires=1800003600&signature=",
        "expires=1800003600&expires=1800003600&signature=AAAA",
        "expires=1800003600&signature=AAAA&signature=BBBB",
        "expires=01800003600&signature=AAAA",
        "expires=+1800003600&signature=AAAA",
        "expires=1e9&signature=AAAA",
        "expires=-1&signature=AAAA",
        "expires=9999999999999&signature=AAAA",
        "expires=%D9%A1%D9%A8&signature=AAAA",
        "expires=1800003600&signature=%F0%9F%98%80",
        "expires=1800003600&signature=%00",
    ],
)
def test_what_is_no_url_of_ours_is_refused(query: str):
    refused = check(f"https://hooks.example.com/deliveries/{TOKEN}?{query}")
    assert refused in {"malformed", "forged"}


@given(st.binary(max_size=60), st.text(max_size=60), st.text(max_size=60))
def test_anything_else_is_refused_without_an_error(token: bytes, expires: str, signature: str):
    keys = WaitUrlKeys((OLD.encode(),))
    with pytest.raises(WaitUrlRefused):
        keys.check(token.decode("latin-1"), [expires], [signature], NOW)


def test_a_changed_letter_is_refused():
    url = wait_url(TOKEN, timedelta(hours=1), NOW)
    start = url.index("signature=") + len("signature=")
    for place in range(start, len(url)):
        other = "A" if url[place] != "A" else "B"
        assert check(url[:place] + other + url[place + 1 :]) == "forged"


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("OUTLAST_DELIVERY_KEYS", "", "Set OUTLAST_DELIVERY_KEYS on the workers and the receiver"),
        ("OUTLAST_DELIVERY_KEYS", "x" * 31, "has 31 bytes, and needs at least 32"),
        ("OUTLAST_DELIVERY_KEYS", f"{OLD},short", "Key 2 of OUTLAST_DELIVERY_KEYS has 5 bytes"),
        ("OUTLAST_DELIVERY_KEYS", " , ", "at least one key"),
        ("OUTLAST_DELIVERY_URL", "", "OUTLAST_DELIVERY_URL must be an address such as https"),
        ("OUTLAST_DELIVERY_URL", "hooks.example.com", "not 'hooks.example.com'"),
        ("OUTLAST_DELIVERY_URL", "https://a:b@hooks.example.com", "must be an address"),
        ("OUTLAST_DELIVERY_URL", "https://hooks.example.com?a=b", "must be an address"),
        ("OUTLAST_DELIVERY_URL", "https://[", "must be an address"),
    ],
)
def test_a_variable_that_does_not_fit_is_named(
    variable: str, value: str, words: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(variable, value)
    with pytest.raises(UserError, match=words.replace("?", r"\?")) as raised:
        wait_url(TOKEN, timedelta(hours=1), NOW)
    assert OLD not in str(raised.value)


@pytest.mark.parametrize("expires", [timedelta(), timedelta(days=401), 3600])
def test_a_length_that_does_not_fit_is_refused(expires: timedelta):
    with pytest.raises((UserError, TypeError), match="expires must be"):
        wait_url(TOKEN, expires, NOW)


def test_notes_without_a_proof_are_taken_only_by_one_word(monkeypatch: pytest.MonkeyPatch):
    assert not takes_unsigned_notes()
    for text, taken in (("", False), (" accept ", True)):
        monkeypatch.setenv("OUTLAST_UNSIGNED_NOTES", text)
        assert takes_unsigned_notes() is taken
    monkeypatch.setenv("OUTLAST_UNSIGNED_NOTES", "yes")
    with pytest.raises(UserError, match="must be accept, or not set, not 'yes'"):
        takes_unsigned_notes()
