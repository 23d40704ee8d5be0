"""Signatures of webhooks, against those of the senders' own libraries and documentation."""

import base64
import hashlib
import hmac
import time
from typing import Any, NamedTuple

import pytest
from openai import OpenAI
from slack_sdk.signature import SignatureVerifier
from starlette.datastructures import Headers

from outlast.agents.errors import UserError
from outlast.deliveries import HmacScheme, github, openai, slack, standard_webhooks, stripe
from outlast.deliveries.problems import Refused
from outlast.deliveries.schemes import Scheme

WHSEC = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SLACK_SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
SLACK_BODY = (
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&"
    b"channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&"
    b"command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2F"
    b"T1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&"
    b"trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
)


class Recorded(NamedTuple):
    """A request, signed by somebody else's code."""

    scheme: Scheme
    headers: dict[str, str]
    body: bytes
    at: float
    id: str | None


RECORDED = {
    # From GitHub's documentation of webhooks.
    "github": Recorded(
        github(["It's a Secret to Everybody"]),
        {
            "X-Hub-Signature-256": "sha256="
            "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
        },
        b"Hello, World!",
        0,
        None,
    ),
    # From Slack's documentation of signing secrets.
    "slack": Recorded(
        slack([SLACK_SECRET]),
        {
            "X-Slack-Request-Timestamp": "1531420618",
            "X-Slack-Signature": "v0="
            "a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
        },
        SLACK_BODY,
        1531420618,
        None,
    ),
    # Made by the package standardwebhooks 1.1.0.
    "standard": Recorded(
        standard_webhooks([WHSEC]),
        {
            "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
            "webhook-timestamp": "1614265330",
            "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        },
        b'{"test": 2432232314}',
        1614265330,
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
    ),
    # Made by the package stripe 16.1.0.
    "stripe": Recorded(
        stripe(["whsec_test_0123456789abcdef0123456789"]),
        {
            "Stripe-Signature": "t=1764180000,v1="
            "88981af10fbee060c550df9621a229cc043f789bf91708dcb4045b74ef404780,v0=abc"
        },
        b'{"id":"evt_1SabcDEF","object":"event","type":"payment_intent.succeeded"}',
        1764180000,
        "evt_1SabcDEF",
    ),
}
TIMED = [name for name in RECORDED if name != "github"]


def refusal(scheme: Scheme, headers: dict[str, str], body: bytes, now: float) -> str:
    """Return the code of the refusal; empty if the request is verified."""
    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
    try:
        scheme.verify(Headers(raw=raw), body, now)
    except Refused as refused:
        problem = refused
    else:
        return ""
    assert problem.status in {400, 401}
    return problem.code


@pytest.mark.parametrize("name", RECORDED)
def test_a_request_signed_by_the_senders_own_code_is_verified(name: str):
    scheme, headers, body, at, delivery_id = RECORDED[name]
    verified = scheme.verify(Headers(headers), body, at)
    again = scheme.verify(Headers(headers), body, at + 1)
    assert verified.delivery_id == again.delivery_id
    assert verified.delivery_id == (delivery_id or verified.delivery_id)
    assert verified.delivery_id


@pytest.mark.parametrize("name", TIMED)
@pytest.mark.parametrize(
    ("minutes", "expected"), [(-10, "not_yet"), (-4, ""), (4, ""), (10, "expired")]
)
def test_the_time_of_a_signature_may_be_five_minutes_off(name: str, minutes: int, expected: str):
    scheme, headers, body, at, _ = RECORDED[name]
    assert refusal(scheme, headers, body, at + minutes * 60) == expected


@pytest.mark.parametrize("name", RECORDED)
def test_a_body_with_another_byte_is_forged(name: str):
    scheme, headers, body, at, _ = RECORDED[name]
    for place in {0, len(body) // 2, len(body) - 1}:
        changed = body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :]
        assert refusal(scheme, headers, changed, at) == "forged"
    for changed in (body + b"\n", b"", body[:-1]):
        assert refusal(scheme, headers, changed, at) == "forged"


@pytest.mark.parametrize("name", RECORDED)
def test_a_missing_or_hostile_header_is_refused_in_words(name: str):
    scheme, headers, body, at, _ = RECORDED[name]
    for header in headers:
        without = {key: value for key, value in headers.items() if key != header}
        assert refusal(scheme, without, body, at) in {"not_signed", "no_time"}
        for hostile in (
            "",
            " ",
            "\xe9\xff",
            "v1,\xe9 v0=\xe9",
            "t=1,t=2,v1=\xe9",
            "sha256=\xff",
            "-1",
            "1e9",
            "9" * 5_000,
            "t=NaN,v1=a",
            "\u00b2",
            ",,,,",
            "v1," * 50_000,
        ):
            changed = refusal(scheme, {**headers, header: hostile}, body, at)
            assert changed in {"not_signed", "no_time", "forged"}


@pytest.mark.parametrize("name", RECORDED)
def test_another_secret_is_none_and_an_old_one_counts_while_both_are_there(name: str):
    _, headers, body, at, _ = RECORDED[name]
    own = {
        "github": "It's a Secret to Everybody",
        "slack": SLACK_SECRET,
        "standard": WHSEC,
        "stripe": "whsec_test_0123456789abcdef0123456789",
    }[name]
    other = "whsec_" + base64.b64encode(b"another secret of 32 bytes......").decode()
    make: Any = {"standard": standard_webhooks}.get(name) or globals()[name]
    assert refusal(make([other]), headers, body, at) == "forged"
    assert refusal(make([other, own]), headers, body, at) == ""
    assert refusal(make([own, other]), headers, body, at) == ""


def test_a_later_time_on_a_recorded_signature_is_forged():
    scheme, headers, body, at, _ = RECORDED["stripe"]
    later = headers["Stripe-Signature"].replace(str(at), str(at + 600))
    assert refusal(scheme, {"Stripe-Signature": later}, body, at + 600) == "forged"


def test_another_id_on_a_recorded_signature_is_forged_or_without_effect():
    scheme, headers, body, at, _ = RECORDED["standard"]
    assert refusal(scheme, {**headers, "webhook-id": "msg_2"}, body, at) == "forged"
    scheme, headers, body, at, _ = RECORDED["github"]
    ids = {
        scheme.verify(Headers({**headers, "X-GitHub-Delivery": one}), body, at).delivery_id
        for one in ("a", "b")
    }
    assert len(ids) == 1


def test_the_id_of_an_event_of_slack_is_in_its_body():
    body, at = b'{"event_id":"Ev1","type":"event_callback"}', 1_800_000_000
    signature = SignatureVerifier(SLACK_SECRET).generate_signature(timestamp=str(at), body=body)
    headers = {"X-Slack-Request-Timestamp": str(at), "X-Slack-Signature": str(signature)}
    assert slack([SLACK_SECRET]).verify(Headers(headers), body, at).delivery_id == "Ev1"


def test_svix_has_headers_of_its_own():
    _, headers, body, at, _ = RECORDED["standard"]
    renamed = {name.replace("webhook", "svix"): value for name, value in headers.items()}
    assert refusal(standard_webhooks([WHSEC], headers="svix"), renamed, body, at) == ""


# --- OpenAI --------------------------------------------------------------------------------------


def of_openai(
    body: bytes, at: float, secret: str = WHSEC, event_id: str = "wh_1"
) -> dict[str, str]:
    """Return the headers of a request as OpenAI documents them."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    message = f"{event_id}.{int(at)}.".encode() + body
    digest = hmac.new(key, message, hashlib.sha256).digest()
    return {
        "webhook-id": event_id,
        "webhook-timestamp": str(int(at)),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


EVENT = (
    b'{"id":"evt_1","object":"event","created_at":1,"type":"response.completed",'
    b'"data":{"id":"resp_1"}}'
)


def test_webhooks_of_openai_are_unwrapped_by_its_package():
    headers, now = of_openai(EVENT, time.time()), time.time()
    verified = openai([WHSEC]).verify(Headers(headers), EVENT, now)
    assert (verified.delivery_id, verified.parsed.data.id) == ("wh_1", "resp_1")
    assert type(verified.parsed).__name__ == "ResponseCompletedWebhookEvent"
    # The row of Standard Webhooks says the same about it.
    assert standard_webhooks([WHSEC]).verify(Headers(headers), EVENT, now).delivery_id == "wh_1"
    OpenAI(api_key="none").webhooks.verify_signature(EVENT, headers, secret=WHSEC)


@pytest.mark.parametrize(
    ("minutes", "expected"), [(-10, "expired"), (-4, ""), (4, ""), (10, "expired")]
)
def test_the_package_allows_five_minutes(minutes: int, expected: str):
    now = time.time()
    headers = of_openai(EVENT, now - minutes * 60)
    assert refusal(openai([WHSEC]), headers, EVENT, now) == expected


def test_what_is_not_openais_is_refused():
    now, other = time.time(), "whsec_" + base64.b64encode(b"x" * 32).decode()
    headers, scheme = of_openai(EVENT, now), openai([WHSEC])
    assert refusal(scheme, headers, EVENT + b" ", now) == "forged"
    assert refusal(scheme, headers, b"\xff\xfe", now) == "forged"
    assert refusal(scheme, headers, b"[" * 100_000, now) == "forged"
    assert refusal(openai([other]), headers, EVENT, now) == "forged"
    assert refusal(openai([other, WHSEC]), headers, EVENT, now) == ""
    for name in headers:
        assert refusal(scheme, {**headers, name: ""}, EVENT, now) == "not_signed"
        for hostile in ("\xe9", "\xff,", "x"):
            assert refusal(scheme, {**headers, name: hostile}, EVENT, now) in {"forged", "expired"}
    deep = b"[" * 100_000
    assert refusal(scheme, of_openai(deep, now), deep, now) == "forged"
    for odd in (b'{"id":"\\ud800"}', b"1", b"null", b"[]", b'{"type":7,"data":[]}'):
        assert refusal(scheme, of_openai(odd, now), odd, now) == ""


# --- Schemes of one's own -------------------------------------------------------------------------


def test_a_scheme_of_ones_own_is_a_row():
    secret = "a secret of the courier"
    scheme = HmacScheme(
        secrets=[secret], header="X-Signature", encoding="base64", algorithm="sha512"
    )
    digest = hmac.new(secret.encode(), b"{}", hashlib.sha512).digest()
    headers = {"X-Signature": base64.b64encode(digest).decode()}
    assert refusal(scheme, headers, b"{}", 0) == ""
    assert secret not in repr(scheme)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"secrets": []}, "at least one secret"),
        ({"secrets": "a secret of the courier"}, "must be a list"),
        ({"secrets": ["short"]}, "Secret 1 of 1 has 5 characters"),
        ({"header": ""}, "header= must name"),
        ({"signed": "{body}."}, "must end with"),
        ({"signed": "{timestamp}"}, "must end with"),
        ({"signed": "{body}{body}"}, "must end with"),
        ({"signed": "{time}.{body}"}, "must end with"),
        ({"signed": "{id}.{body}"}, "id_header="),
        ({"tolerance": 0}, "more than zero"),
    ],
)
def test_a_row_that_does_not_fit_is_refused(options: dict[str, Any], words: str):
    fitting: dict[str, Any] = {"secrets": ["a secret of the courier"], "header": "X-Signature"}
    with pytest.raises(UserError, match=words):
        HmacScheme(**{**fitting, **options})


def test_a_secret_that_is_no_base64_is_refused():
    for make in (standard_webhooks, openai):
        with pytest.raises(UserError, match="`whsec_` and base64"):
            make(["whsec_this is no base64!"])
