"""Signatures of webhooks: a table of headers, of what is signed, and of tolerances.

A scheme refuses what its secret has not signed, and what was signed too long ago. It takes the id
of a delivery only from what is signed: whoever has recorded a request can send it again with
another id in a header.
"""

import base64
import binascii
import hmac
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, cast

from starlette.datastructures import Headers

from outlast.agents.errors import UserError
from outlast.deliveries.bodies import digest_id
from outlast.deliveries.problems import Refused
from outlast.edges.bodies import DOORS

TOLERANCE_SECONDS: Final = 300.0
"""How far the time in a signature may be from that of this machine."""

SHORTEST_SECRET: Final = 16
"""The fewest characters of a secret: a shorter one can be guessed."""

_TIMESTAMP: Final = re.compile(r"[0-9]{1,12}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What is certain about a webhook whose signature fits.

    Attributes:
        delivery_id: tells it from others; a repetition has the same one.
        parsed: the event as an object of the provider's package; None without one.
    """

    delivery_id: str
    parsed: Any = None


class Scheme(Protocol):
    """Verifies the requests of one sender."""

    def verify(self, headers: Headers, body: bytes, now: float) -> Verified:
        """Return what is certain about a request.

        Args:
            headers: its headers.
            body: its body, as it was sent.
            now: the time, in seconds since the epoch.

        Raises:
            Refused: it is not the sender's, or too old.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HmacScheme:
    """An HMAC over the body, and perhaps a time and an id, in headers.

    Attributes:
        secrets: the secrets that count: several, while one is replaced.
        header: the header with the signature.
        prefix: what stands before a signature in the header, such as `sha256=`.
        separator: what stands between several signatures in the header; empty for one alone.
        encoding: of the signature.
        algorithm: the hash.
        signed: what is signed: `{body}` at the end, and `{timestamp}` and `{id}` before it.
        timestamp_header: the header with the time, in seconds since the epoch; empty if the header
            of the signature has it as `t=…`, or there is none.
        id_header: the header with the id of the delivery. It counts only where `signed` has `{id}`.
        id_field: a field of the body's JSON with the id of the event.
        tolerance: how far the time may be from that of this machine, in seconds.
    """

    secrets: Sequence[str | bytes]
    header: str
    prefix: str = ""
    separator: str = ""
    encoding: Literal["hex", "base64"] = "hex"
    algorithm: Literal["sha256", "sha512"] = "sha256"
    signed: str = "{body}"
    timestamp_header: str = ""
    id_header: str = ""
    id_field: str = ""
    tolerance: float = TOLERANCE_SECONDS

    def __post_init__(self) -> None:
        _check_secrets(self.secrets)
        if not self.header:
            raise UserError("header= must name the header with the signature.")
        names = re.findall(r"\{(\w*)\}", self.signed)
        is_known = names.count("body") == 1 and {*names} <= {"timestamp", "id", "body"}
        if not is_known or not self.signed.endswith("{body}"):
            raise UserError(
                "signed= must end with {body}, and may have {timestamp} and {id} before it, not "
                f"{self.signed!r:.80}."
            )
        if "id" in names and not self.id_header:
            raise UserError("signed= has {id}, so id_header= must say where it is.")
        if not self.tolerance > 0:
            raise UserError(f"tolerance= must be more than zero seconds, not {self.tolerance!r}.")

    def __repr__(self) -> str:
        return f"HmacScheme(header={self.header!r})"

    def verify(self, headers: Headers, body: bytes, now: float) -> Verified:
        """Return what is certain about a request.

        Raises:
            Refused: it is not the sender's, or too old.
        """
        written = _header(headers, self.header)
        parts = written.split(self.separator) if self.separator else [written]
        parts = [part.strip() for part in parts]
        start = self.signed.removesuffix("{body}")
        timestamp = self._timestamp(headers, parts) if "{timestamp}" in start else ""
        delivery_id = _header(headers, self.id_header) if "{id}" in start else ""
        # Headers are bytes, each of which Starlette shows as a character.
        signed = start.replace("{timestamp}", timestamp).replace("{id}", delivery_id)
        message = signed.encode("latin-1") + body
        found = [part[len(self.prefix) :] for part in parts if part.startswith(self.prefix)]
        if not self._fits(message, found):
            raise Refused(
                401, "forged", f"The signature in {self.header} does not fit the body and secret."
            )
        if timestamp:  # after the signature, so that only the sender learns about our clock
            _check_time(float(timestamp), now, self.tolerance)
        return Verified(delivery_id=delivery_id or self._id_in(body) or digest_id(message))

    def _timestamp(self, headers: Headers, parts: list[str]) -> str:
        if self.timestamp_header:
            written = _header(headers, self.timestamp_header)
        else:
            times = [part.removeprefix("t=") for part in parts if part.startswith("t=")]
            written = times[0] if len(times) == 1 else ""
        if not _TIMESTAMP.fullmatch(written):
            where = self.timestamp_header or self.header
            raise Refused(
                400, "no_time", f"{where} must have the time, in seconds since the epoch."
            )
        return written

    def _fits(self, message: bytes, found: list[str]) -> bool:
        fits = False
        for secret in self.secrets:
            key = secret.encode() if isinstance(secret, str) else secret
            digest = hmac.new(key, message, self.algorithm).digest()
            encoded = digest.hex() if self.encoding == "hex" else base64.b64encode(digest).decode()
            for one in found[:20]:
                fits |= hmac.compare_digest(encoded.encode(), one.encode())
        return fits

    def _id_in(self, body: bytes) -> str:
        if not self.id_field:
            return ""
        try:
            value: Any = DOORS["webhook"].parse(body)
        except (ValueError, RecursionError):
            return ""
        found = cast("dict[str, Any]", value).get(self.id_field) if isinstance(value, dict) else ""
        return found if isinstance(found, str) else ""


def _header(headers: Headers, name: str) -> str:
    value = headers.get(name, "")
    if not value:
        raise Refused(401, "not_signed", f"The header {name} is missing.")
    return value


def _check_time(at: float, now: float, tolerance: float) -> None:
    away = now - at
    if abs(away) <= tolerance:
        return
    when = f"{abs(away):.0f} s {'ago' if away > 0 else 'from now'}, by the clock of the receiver"
    raise Refused(
        401,
        "expired" if away > 0 else "not_yet",
        f"It was signed {when}; at most {tolerance:.0f} s count. Sign it anew, or set the clock.",
    )


def _check_secrets(secrets: Sequence[str | bytes]) -> None:
    if isinstance(secrets, str | bytes) or not secrets:
        raise UserError("secrets= must be a list with at least one secret of the sender.")
    for place, secret in enumerate(secrets, 1):
        if len(secret) < SHORTEST_SECRET:
            raise UserError(
                f"Secret {place} of {len(secrets)} has {len(secret)} characters, and needs at least "
                f"{SHORTEST_SECRET}: a shorter one can be guessed."
            )


# --- The table -----------------------------------------------------------------------------------


def github(secrets: Sequence[str]) -> HmacScheme:
    """Return the scheme of GitHub: `X-Hub-Signature-256` over the body.

    GitHub signs neither a time nor the delivery's id, so the id is a digest of the body: a request
    that was recorded and is sent again is the same delivery.
    """
    return HmacScheme(secrets=secrets, header="X-Hub-Signature-256", prefix="sha256=")


def stripe(secrets: Sequence[str], *, tolerance: float = TOLERANCE_SECONDS) -> HmacScheme:
    """Return the scheme of Stripe: `Stripe-Signature` over a time and the body; the id is `id`."""
    return HmacScheme(
        secrets=secrets,
        header="Stripe-Signature",
        prefix="v1=",
        separator=",",
        signed="{timestamp}.{body}",
        id_field="id",
        tolerance=tolerance,
    )


def slack(secrets: Sequence[str], *, tolerance: float = TOLERANCE_SECONDS) -> HmacScheme:
    """Return the scheme of Slack: `X-Slack-Signature` over a time and the body.

    The id is `event_id` of the Events API; other requests have a digest of time and body.
    """
    return HmacScheme(
        secrets=secrets,
        header="X-Slack-Signature",
        prefix="v0=",
        signed="v0:{timestamp}:{body}",
        timestamp_header="X-Slack-Request-Timestamp",
        id_field="event_id",
        tolerance=tolerance,
    )


def standard_webhooks(
    secrets: Sequence[str],
    *,
    headers: Literal["webhook", "svix"] = "webhook",
    tolerance: float = TOLERANCE_SECONDS,
) -> HmacScheme:
    """Return the scheme of Standard Webhooks, with symmetric keys.

    Args:
        secrets: each `whsec_` and base64.
        headers: the prefix of the headers: `svix` for senders that use Svix' own names.
        tolerance: how far the time may be from that of this machine, in seconds.
    """
    _check_secrets(secrets)
    return HmacScheme(
        secrets=[_decoded(secret) for secret in secrets],
        header=f"{headers}-signature",
        prefix="v1,",
        separator=" ",
        encoding="base64",
        signed="{id}.{timestamp}.{body}",
        timestamp_header=f"{headers}-timestamp",
        id_header=f"{headers}-id",
        tolerance=tolerance,
    )


def _decoded(secret: str) -> bytes:
    try:
        return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        raise UserError(
            "A secret of Standard Webhooks is `whsec_` and base64, as the sender shows it."
        ) from None


@dataclass(frozen=True, slots=True, repr=False)
class OpenAIScheme:
    """The webhooks of OpenAI, verified by the openai package.

    Attributes:
        secrets: the secrets that count: several, while one is replaced.
        unwrap: verifies a request and returns its event.
    """

    secrets: Sequence[str]
    unwrap: Callable[[bytes, Headers, str], Any]

    def __repr__(self) -> str:
        return f"OpenAIScheme({len(self.secrets)} secrets)"

    def verify(self, headers: Headers, body: bytes, now: float) -> Verified:
        """Return what is certain about a request.

        Raises:
            Refused: it is not OpenAI's, or too old: by more than five minutes.
        """
        for name in ("webhook-id", "webhook-timestamp", "webhook-signature"):
            # The package compares texts, and cannot compare others than ASCII.
            if not _header(headers, name).isascii():
                raise Refused(401, "forged", f"The header {name} is not OpenAI's.")
        problem = ""
        for secret in self.secrets:
            try:
                parsed = self.unwrap(body, headers, secret)
            # Its error of a signature, and bodies that are no JSON in UTF-8, or too deep.
            except (ValueError, RecursionError) as error:
                problem = problem if "timestamp" in problem else str(error)
            else:
                return Verified(delivery_id=headers["webhook-id"], parsed=parsed)
        message = f"The openai package refuses it: {problem:.200}"
        raise Refused(401, "expired" if "timestamp" in problem else "forged", message)


def openai(secrets: Sequence[str]) -> OpenAIScheme:
    """Return the scheme of OpenAI's webhooks; events have the package's objects in `parsed`."""
    from openai import OpenAI  # slow to import

    _check_secrets(secrets)
    for secret in secrets:
        if secret.startswith("whsec_"):
            _decoded(secret)
    # It sends nothing, so its key does not matter.
    webhooks = OpenAI(api_key="none").webhooks
    return OpenAIScheme(
        tuple(secrets),
        lambda body, headers, secret: webhooks.unwrap(body, dict(headers), secret=secret),
    )
