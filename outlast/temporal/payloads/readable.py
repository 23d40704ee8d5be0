"""Replaces undecodable payloads by markers, so they never fail a workflow task.

The SDK applies the payload codec to everything that a workflow task delivers before the workflow
sees any of it. So one signal under a foreign key would fail every task of its run. `readable`
returns a data converter that replaces such a payload by a marker instead.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from typing import Any, Final, TypeAlias, cast

from temporalio.api.common.v1 import Payload, Payloads
from temporalio.api.failure.v1 import Failure
from temporalio.common import RawValue
from temporalio.converter import (
    DataConverter,
    DefaultFailureConverter,
    DefaultFailureConverterWithEncodedAttributes,
    FailureConverter,
    PayloadCodec,
    PayloadConverter,
)

from outlast.contract.records import NOT_JSON, Unreadable
from outlast.loop.values import Json
from outlast.temporal.payloads.key_order import OrderedPayloadConverter, in_key_order

logger: Final = logging.getLogger(__name__)

Decode: TypeAlias = Callable[[Sequence[Payload]], Awaitable[list[Payload]]]

UNDECODABLE: Final = b"binary/undecodable"
"""The encoding of a marker, which replaces a payload that the codec cannot decode."""

ORIGINAL_ENCODING: Final = "original-encoding"

SENT_BYTES: Final = "sent-bytes"
"""The metadata key on a large decoded payload that holds its size as sent."""

LARGE_BYTES: Final = 500_000  # below, the size as sent does not matter to a history

JSON_TYPES: Final = (dict, list, str, int, float, bool, type(None))

NETWORK_PACKAGES: Final = frozenset(
    {"aiohttp", "azure", "botocore", "grpc", "hvac", "httpcore", "httpx", "requests", "urllib3"}
)
"""Packages whose exceptions mean that a remote codec or key service did not answer."""


class UndecodablePayload(ValueError):
    """Raised by a codec for a payload that it will never be able to decode.

    Any other exception means the same, unless it is an outage (see `is_outage`). Raise this
    exception when a remote service reports that a payload is damaged or has a foreign key.
    """


def is_outage(error: BaseException) -> bool:
    """Whether a codec failed temporarily, so that the workflow task is to be retried.

    This applies if the error, or an error in its chain of causes, is an `OSError` (which includes
    `ConnectionError` and `TimeoutError`), a `MemoryError`, or an exception of a network package.
    """
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        if isinstance(one, UndecodablePayload):
            return False
        seen.add(id(one))
        module = type(one).__module__
        if isinstance(one, OSError | MemoryError) or (
            module.partition(".")[0] in NETWORK_PACKAGES
            or module.startswith(("google.api_core", "google.auth", "temporalio.service"))
        ):
            return True
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
    return False


def readable(converter: DataConverter) -> DataConverter:
    """Return an equivalent converter that replaces undecodable payloads by markers.

    Payloads that it writes have the keys of JSON in their own order.
    With a codec and the default failure converter, the messages and stack traces of failures are
    encoded as well, because they are as confidential as the data that they mention.
    """
    kind = type(converter)
    if issubclass(kind, _Marking):
        return converter
    converter = in_key_order(converter)
    failures = converter.failure_converter_class
    if converter.payload_codec is not None and failures is DefaultFailureConverter:
        failures = DefaultFailureConverterWithEncodedAttributes
    failures = _readable_failures(failures)
    copy = object.__new__(_marking(kind))
    vars(copy).update(
        vars(converter), failure_converter_class=failures, failure_converter=failures()
    )
    return copy


def json_of(converter: PayloadConverter, value: Any) -> Json | Unreadable:
    """Return the JSON in a raw value, or why it cannot be read. Never raises.

    A converter's exception may depend on the process, such as its stack depth or its packages.
    The returned reason does not, because the workflow and all readers must get the same one.
    """
    if not isinstance(value, RawValue):
        return value
    payload = value.payload
    try:
        decoded: Any = converter.from_payload(payload)
        if type(decoded) in JSON_TYPES:
            return decoded
    except Exception as error:  # noqa: BLE001  whatever a converter raises, it cannot read this
        logger.debug("A payload cannot be converted: %s", type(error).__name__)
    return Unreadable(problem=_problem(payload))


def raw_json(converter: PayloadConverter, written: bytes) -> Any:
    """Return JSON text as a value to send, which Temporal's own converter need not write again."""
    inner: object = getattr(converter, "_inner_payload_converter", converter)  # the SDK wraps it
    if type(inner) is not OrderedPayloadConverter:
        return json.loads(written)
    return RawValue(Payload(metadata={"encoding": b"json/plain"}, data=written))


async def values_of(
    converter: DataConverter, payloads: Sequence[Payload]
) -> tuple[Json | Unreadable, ...] | None:
    """Return the values in a list of arguments as the workflow's handlers get them.

    A single argument is passed raw and decoded by `json_of`. The SDK decodes several arguments, and
    drops the whole list if it fails: None.
    """
    decoded = await decode_payloads(converter, payloads)
    if len(decoded) == 1:
        return (json_of(converter.payload_converter, RawValue(decoded[0])),)
    try:
        return tuple(converter.payload_converter.from_payloads(decoded))
    except Exception:  # noqa: BLE001  the SDK drops it for any of them, too
        return None


async def decode_payloads(converter: DataConverter, payloads: Sequence[Payload]) -> list[Payload]:
    """Decode payloads; replace those that cannot be decoded by markers."""
    wrapped = Payloads(payloads=payloads)
    await readable(converter)._transform_inbound_payloads(wrapped)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    return list(wrapped.payloads)


async def decode_failure(converter: DataConverter, failure: Failure) -> BaseException:
    """Convert a failure record to an exception, decoding its encoded message."""
    copy = Failure()
    copy.CopyFrom(failure)
    return await readable(converter).decode_failure(copy)


def sent_bytes(value: Any) -> int:
    """Return the encoded size of a raw value as sent, with its other arguments."""
    if not isinstance(value, RawValue):
        return 0
    return int(value.payload.metadata.get(SENT_BYTES, b"0")) or value.payload.ByteSize()


def _with_sent_bytes(payload: Payload, size: int) -> Payload:
    copy = Payload.FromString(payload.SerializeToString())
    copy.metadata[SENT_BYTES] = str(size).encode()
    return copy


def _problem(payload: Payload) -> str:
    encoding = payload.metadata.get(ORIGINAL_ENCODING) or payload.metadata.get("encoding", b"")
    shown = encoding.decode(errors="backslashreplace")[:60]
    if shown == "json/plain":
        return NOT_JSON
    if payload.metadata.get("encoding") == UNDECODABLE:
        return f"The payload (encoding {shown!r}) cannot be decoded: another key or codec?"
    return f"{NOT_JSON} Its encoding is {shown!r}."


async def _decode_each(decode: Decode, payloads: Sequence[Payload]) -> list[Payload]:
    try:
        decoded = await decode(payloads)
        if decoded or not payloads:
            return decoded
        reason = "nothing came of it"
    except Exception as error:  # a codec is user code
        if is_outage(error):
            raise
        reason = type(error).__name__
    if len(payloads) == 1:
        return [_marker(payloads[0], reason)]
    each = [await _decode_each(decode, [payload]) for payload in payloads]
    return [payload for some in each for payload in some]


def _marker(payload: Payload, reason: str) -> Payload:
    if payload.metadata.get("encoding") == UNDECODABLE:
        return payload
    encoding = payload.metadata.get("encoding", b"")
    _warn_once(encoding[:60], reason)
    return Payload(metadata={"encoding": UNDECODABLE, ORIGINAL_ENCODING: encoding})


@cache
def _warn_once(encoding: bytes, reason: str) -> None:
    logger.warning(
        "A payload with the encoding %r cannot be decoded (%s) and counts as unreadable. Does this "
        "process have the codec and the keys of everybody who writes to its runs?",
        encoding,
        reason,
    )


class _Marking:
    payload_codec: PayloadCodec | None

    async def _decode_payload_sequence(self, payloads: Sequence[Payload]) -> list[Payload]:
        sent = sum(payload.ByteSize() for payload in payloads)
        if self.payload_codec is None and sent < LARGE_BYTES:
            return list(payloads)
        decoded = await _decode_each(self._whole("_decode_payload_sequence"), payloads)
        if sent < LARGE_BYTES and all(payload.ByteSize() < LARGE_BYTES for payload in decoded):
            return decoded
        return [_with_sent_bytes(payload, sent) for payload in decoded]

    async def _decode_reference_payload_sequence(
        self, payloads: Sequence[Payload]
    ) -> list[Payload]:
        return await _decode_each(self._whole("_decode_reference_payload_sequence"), payloads)

    async def _external_retrieve_payload_sequence(
        self, payloads: Sequence[Payload]
    ) -> list[Payload]:
        return await _decode_each(self._whole("_external_retrieve_payload_sequence"), payloads)

    async def _transform_inbound_payload(self, payload: Payload) -> Payload:
        return (await self._decoded([payload]))[0]

    async def _transform_inbound_payloads(self, payloads: Payloads) -> None:
        decoded = await self._decoded(payloads.payloads)
        copies = [Payload.FromString(one.SerializeToString()) for one in decoded]
        del payloads.payloads[:]
        payloads.payloads.extend(copies)

    async def _decoded(self, payloads: Sequence[Payload]) -> list[Payload]:
        decoded = await self._decode_reference_payload_sequence(payloads)
        decoded = await self._external_retrieve_payload_sequence(decoded)
        return await self._decode_payload_sequence(decoded)

    def _whole(self, name: str) -> Decode:
        return getattr(super(), name)


@cache
def _marking(kind: type[DataConverter]) -> type[DataConverter]:
    return type(f"Readable{kind.__name__}", (_Marking, kind), {})


@cache
def _readable_failures(kind: type[FailureConverter]) -> type[FailureConverter]:
    """Return a failure converter class that drops unreadable details."""

    def from_failure(
        self: FailureConverter, failure: Failure, payload_converter: PayloadConverter
    ) -> BaseException:
        try:
            return kind.from_failure(self, failure, payload_converter)
        except Exception:  # noqa: BLE001  a failure must arrive, whatever its details are
            copy = Failure()
            copy.CopyFrom(failure)
            _drop_unreadable(copy, payload_converter)
            return kind.from_failure(self, copy, payload_converter)

    return type(f"Readable{kind.__name__}", (kind,), {"from_failure": from_failure})


def _drop_unreadable(failure: Failure, converter: PayloadConverter) -> None:
    infos: list[tuple[Any, str, str]] = [
        (failure.application_failure_info, "application_failure_info", "details"),
        (failure.canceled_failure_info, "canceled_failure_info", "details"),
        (failure.timeout_failure_info, "timeout_failure_info", "last_heartbeat_details"),
    ]
    for info, name, field in infos:
        if failure.HasField(cast("Any", name)) and not _converts(getattr(info, field), converter):
            info.ClearField(field)
    if failure.HasField("cause"):
        _drop_unreadable(failure.cause, converter)


def _converts(payloads: Payloads, converter: PayloadConverter) -> bool:
    try:
        converter.from_payloads_wrapper(payloads)
    except Exception:  # noqa: BLE001  as above
        return False
    return True
