"""Decoding payloads: whatever they hold, they become a value or are unreadable, the same everywhere."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.api.failure.v1 import Failure
from temporalio.common import RawValue
from temporalio.converter import (
    DataConverter,
    DefaultFailureConverter,
    DefaultFailureConverterWithEncodedAttributes,
    PayloadCodec,
    WorkflowSerializationContext,
)
from temporalio.exceptions import ApplicationError

from outlast.contract import history, names
from outlast.contract.records import NOT_JSON, Unreadable, UnreadableRecordError
from outlast.temporal.payloads.readable import (
    UNDECODABLE,
    UndecodablePayload,
    decode_failure,
    decode_payloads,
    is_outage,
    json_of,
    readable,
    values_of,
)

DEFAULT = DataConverter.default
JSON = DEFAULT.payload_converter

PAYLOADS = st.builds(
    Payload,
    metadata=st.dictionaries(
        st.sampled_from(
            [
                "encoding",
                "messageType",
                "original-encoding",
                "__temporal_external_storage_reference",
            ]
        ),
        st.sampled_from(
            [
                b"json/plain",
                b"json/protobuf",
                b"binary/plain",
                b"binary/null",
                b"binary/protobuf",
                b"json/external-storage-reference",
                b"temporal.api.common.v1.Payload",
                b"true",
                UNDECODABLE,
            ]
        )
        | st.binary(max_size=20),
    ),
    data=st.binary(max_size=50)
    | st.sampled_from([b"{", b"null", b'"\\ud800"', b"NaN", b"[" * 500 + b"]" * 500, b"9" * 5000]),
)


class Codec(PayloadCodec):
    """Decodes payloads that begin with a mark, and fails for others."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error or ValueError("no mark")

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [Payload(data=b"!" + one.SerializeToString()) for one in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        if not all(one.data.startswith(b"!") for one in payloads):
            raise self._error
        return [Payload.FromString(one.data[1:]) for one in payloads]


def with_codec(error: Exception | None = None) -> DataConverter:
    return replace(DEFAULT, payload_codec=Codec(error))


@given(PAYLOADS)
def test_no_payload_makes_a_decoder_raise(payload: Payload) -> None:
    value = json_of(JSON, RawValue(payload))
    for name in (*names.SIGNALS, "other"):
        history.signalled(name, [value], 1)
    for name in ("decide", names.UPDATE_SEND):
        with contextlib.suppress(UnreadableRecordError):
            history.updated(name, [value], 1)
    history.opening(value)


@given(st.lists(PAYLOADS, max_size=3), st.booleans())
async def test_no_payloads_make_a_reader_raise(payloads: list[Payload], coded: bool) -> None:
    converter = readable(with_codec() if coded else DEFAULT)
    values = await values_of(converter, payloads)
    assert values is not None or len(payloads) > 1
    assert len(await decode_payloads(converter, payloads)) == len(payloads)


def test_what_the_sdk_has_converted_already_stays() -> None:
    assert json_of(JSON, {"a": 1}) == {"a": 1}


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        (Payload(metadata={"encoding": b"json/plain"}, data=b"{"), NOT_JSON),
        (Payload(metadata={"encoding": b"binary/plain"}, data=b"x"), "'binary/plain'"),
        (Payload(), "''"),
        (
            Payload(metadata={"encoding": UNDECODABLE, "original-encoding": b"binary/sealed"}),
            r"'binary/sealed'\) cannot be decoded: another key or codec\?",
        ),
    ],
)
def test_an_unreadable_payload_names_its_encoding(payload: Payload, problem: str) -> None:
    value = json_of(JSON, RawValue(payload))
    assert isinstance(value, Unreadable)
    with pytest.raises(UnreadableRecordError, match=problem):
        history.updated("send", [value], 1)


async def test_one_payload_that_a_codec_refuses_does_not_spoil_the_others() -> None:
    converter = readable(with_codec())
    good = (await converter.encode(["yes"]))[0]
    bad = Payload(metadata={"encoding": b"foreign"}, data=b"?")
    first, second = await decode_payloads(converter, [good, bad])
    assert JSON.from_payload(first) == "yes"
    assert second.metadata["encoding"] == UNDECODABLE
    assert second.metadata["original-encoding"] == b"foreign"
    assert not second.data


async def test_a_codec_that_returns_nothing_has_not_decoded() -> None:
    class Empty(Codec):
        async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
            return []

    converter = readable(replace(DEFAULT, payload_codec=Empty()))
    (one,) = await decode_payloads(converter, [Payload(data=b"x")])
    assert one.metadata["encoding"] == UNDECODABLE


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def foreign(module: str) -> Exception:
    return type("Lost", (Exception,), {"__module__": module})()


@pytest.mark.parametrize(
    ("error", "outage"),
    [
        (ConnectionRefusedError("x"), True),
        (TimeoutError("x"), True),
        (OSError("x"), True),
        (MemoryError(), True),
        (foreign("httpx"), True),
        (foreign("google.api_core.exceptions"), True),
        (caused(RuntimeError("no key"), TimeoutError()), True),
        (ValueError("x"), False),
        (KeyError("key-7"), False),
        (ApplicationError("x", non_retryable=True), False),
        (foreign("cryptography.fernet"), False),
        (caused(UndecodablePayload("foreign key"), foreign("botocore.exceptions")), False),
    ],
)
async def test_an_outage_is_raised_and_anything_else_is_marked(
    error: Exception, *, outage: bool
) -> None:
    assert is_outage(error) is outage
    converter = readable(with_codec(error))
    if outage:
        with pytest.raises(type(error)):
            await decode_payloads(converter, [Payload(data=b"x")])
    else:
        (one,) = await decode_payloads(converter, [Payload(data=b"x")])
        assert one.metadata["encoding"] == UNDECODABLE


def test_errors_that_caused_each_other_are_looked_at_once() -> None:
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    assert not is_outage(one)


# --- The converter -------------------------------------------------------------------------------


def test_a_readable_converter_is_made_once_and_stays_one_with_a_context() -> None:
    converter = readable(with_codec())
    assert readable(converter) is converter
    context = WorkflowSerializationContext(namespace="default", workflow_id="r")
    assert readable(converter.with_context(context)) is converter.with_context(context)


def test_a_converter_of_the_users_own_class_keeps_what_it_has() -> None:
    @dataclass(frozen=True)
    class Own(DataConverter):
        tenant: str = ""

    converter: Any = readable(Own(tenant="acme"))
    assert isinstance(converter, Own)
    assert converter.tenant == "acme"


@pytest.mark.parametrize("coded", [True, False])
async def test_failures_are_encoded_where_there_is_a_codec(*, coded: bool) -> None:
    converter = readable(with_codec() if coded else DEFAULT)
    failure = Failure()
    await converter.encode_failure(ApplicationError("the secret", "detail", type="t"), failure)
    assert (b"the secret" not in failure.SerializeToString().split(b"!")[0]) is coded
    assert failure.message == ("Encoded failure" if coded else "the secret")
    error = await decode_failure(converter, failure)
    assert isinstance(error, ApplicationError)
    assert (error.message, error.type, error.details) == ("the secret", "t", ("detail",))


def test_a_failure_converter_of_the_users_own_stays() -> None:
    class Own(DefaultFailureConverter):
        pass

    converter = readable(replace(with_codec(), failure_converter_class=Own))
    assert isinstance(converter.failure_converter, Own)
    assert not isinstance(converter.failure_converter, DefaultFailureConverterWithEncodedAttributes)


async def test_a_failure_whose_details_nobody_can_read_arrives_without_them() -> None:
    inner = Failure(message="inner")
    inner.canceled_failure_info.details.CopyFrom(Payloads(payloads=[Payload(data=b"?")]))
    failure = Failure(message="outer", cause=inner)
    failure.application_failure_info.type = "tool_failed"
    failure.application_failure_info.details.CopyFrom(Payloads(payloads=[Payload(data=b"?")]))
    error = await decode_failure(DEFAULT, failure)
    assert isinstance(error, ApplicationError)
    assert (error.message, error.type, error.details) == ("outer", "tool_failed", ())
    assert str(error.cause) == "inner"


async def test_a_time_out_with_unreadable_heartbeats_is_one() -> None:
    failure = Failure(message="late")
    details = Payloads(payloads=[Payload(metadata={"encoding": b"x"})])
    failure.timeout_failure_info.last_heartbeat_details.CopyFrom(details)
    assert "late" in str(await decode_failure(DEFAULT, failure))
