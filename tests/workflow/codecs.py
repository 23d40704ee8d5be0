"""Codecs for tests: one that encrypts and takes nothing else, and ones that fail."""

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import replace

from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.converter import DataConverter, PayloadCodec

ENCODING = b"binary/encrypted"


class Sealed(PayloadCodec):
    """Encrypts everything, and decodes only what was encrypted under one of its keys.

    Args:
        key: what this codec encrypts with.
        others: further keys that it decodes.
    """

    def __init__(self, key: bytes, *others: bytes) -> None:
        self._key = key
        self._keys = (key, *others)

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [self._seal(one) for one in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [self._open(one) for one in payloads]

    def _seal(self, payload: Payload) -> Payload:
        nonce = secrets.token_bytes(16)
        body = nonce + _mixed(self._key, nonce, payload.SerializeToString())
        sealed = hmac.digest(self._key, body, "sha256") + body
        return Payload(metadata={"encoding": ENCODING}, data=sealed)

    def _open(self, payload: Payload) -> Payload:
        if payload.metadata.get("encoding") != ENCODING:
            raise ValueError("not encrypted")
        mark, body = payload.data[:32], payload.data[32:]
        for key in self._keys:
            if hmac.compare_digest(mark, hmac.digest(key, body, "sha256")):
                return Payload.FromString(_mixed(key, body[:16], body[16:]))
        raise RuntimeError("no key of mine")


class Unsteady(Sealed):
    """A codec whose key service is away now and then, and says so in different ways."""

    def __init__(self, key: bytes) -> None:
        super().__init__(key)
        self.failures: list[Exception] = []
        self.has_recovered = asyncio.Event()

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        if self.failures:
            try:
                raise self.failures.pop()
            except OSError as error:
                raise RuntimeError("no key") from error
        self.has_recovered.set()
        return await super().decode(payloads)


def _mixed(key: bytes, nonce: bytes, data: bytes) -> bytes:
    stream = hashlib.shake_256(key + nonce).digest(len(data))
    return (int.from_bytes(data, "big") ^ int.from_bytes(stream, "big")).to_bytes(len(data), "big")


def with_codec(client: Client, codec: PayloadCodec) -> Client:
    """Return a client of the same server with a codec."""
    converter = replace(DataConverter.default, payload_codec=codec)
    return Client(client.service_client, namespace=client.namespace, data_converter=converter)
