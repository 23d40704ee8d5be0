"""What a value has to be so that a run takes it, and what of it goes to the blob store."""

import json
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from outlast.agents.context.wait_address import WaitAddress
from outlast.agents.errors import ContentUnavailable, UserError
from outlast.blobs import FileBlobStore, large_content, use_blob_store
from outlast.client.deliveries import finish
from outlast.client.transport.delivered_value import ValueTooLarge
from outlast.client.transport.run_address import RunAddress
from outlast.contract import blobs
from outlast.contract.delivered_values import LARGEST_VALUE_BYTES
from outlast.contract.identity import NO_KEYS, IdentityKeys
from outlast.loop import outside

TOKEN = WaitAddress("run-1", 0, 1, "call_1", "courier").token


@pytest.fixture
async def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.delenv("OUTLAST_BLOB_STORE", raising=False)
    return await Client.connect("127.0.0.1:1", lazy=True)


@pytest.fixture
def values(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the values that a run takes."""
    taken: list[Any] = []

    async def update(_: RunAddress, name: str, payload: Any, update_id: str) -> Any:
        taken.append(payload.get("value"))
        return {"at_ms": 0}

    async def no_keys(_: Client) -> IdentityKeys:
        return NO_KEYS

    monkeypatch.setattr(RunAddress, "update", update)
    monkeypatch.setattr("outlast.client.identity.identity_keys", no_keys)
    return taken


def nested(levels: int) -> Any:
    return json.loads("[" * levels + "]" * levels)


async def test_a_value_of_the_largest_size_is_taken_and_a_larger_one_refused(
    client: Client, values: list[Any]
):
    largest = "x" * (LARGEST_VALUE_BYTES - 2)
    await finish(TOKEN, largest, client=client)
    assert values == [largest]
    with pytest.raises(ValueTooLarge, match=r"has 200,001 bytes .*OUTLAST_BLOB_STORE"):
        await finish(TOKEN, largest + "x", client=client)
    assert len(values) == 1


async def test_long_texts_go_to_the_store_as_few_as_needed(
    client: Client, values: list[Any], tmp_path: Path
):
    use_blob_store(client, FileBlobStore(tmp_path))
    for value, moved in (
        ({"a": "x" * 1_000_000, "b": "y" * 1_000}, 1),
        (["x" * 5_000 for _ in range(50)], 50),
        ("x" * 100_000, 1),
        ("short", 0),
    ):
        await finish(TOKEN, value, client=client)
        assert len(list(blobs.references(values[-1]))) == moved
        assert await large_content(client=client).joined(values[-1]) == value
    with pytest.raises(ValueTooLarge, match="without its long texts"):
        await finish(TOKEN, [1] * 200_000, client=client)


async def test_a_value_never_reads_as_content_of_somebody_else(
    client: Client, values: list[Any], tmp_path: Path
):
    theirs = {"$outlast.blob": blobs.key_of(b"theirs"), "bytes": 6}
    for value in (theirs, {"$outlast.json": theirs}, [{"a": theirs}]):
        for store in (None, FileBlobStore(tmp_path)):
            if store is not None:
                use_blob_store(client, store)
            await finish(TOKEN, value, client=client)
            assert not blobs.has_references(values[-1])
            assert await large_content(client=client).joined(values[-1]) == value


async def test_a_store_that_cannot_be_written_is_named(
    client: Client, values: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async def put(_: FileBlobStore, data: bytes) -> str:
        raise OSError("disk full")

    monkeypatch.setattr(FileBlobStore, "put", put)
    use_blob_store(client, FileBlobStore(tmp_path))
    with pytest.raises(ContentUnavailable, match="disk full"):
        await finish(TOKEN, "x" * 100_000, client=client)
    assert values == []


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (nested(101), "more than 100 levels"),
        ({"a": {"b": nested(99)}}, "more than 100 levels"),
        ({"a": [{"\ud800": 1}]}, "half a character"),
        (float("nan"), "must be JSON"),
        (b"bytes", "must be JSON"),
        (nested(900), "levels"),
    ],
)
async def test_what_no_run_can_keep_is_refused(
    client: Client, values: list[Any], value: Any, words: str
):
    with pytest.raises(UserError, match=words):
        await finish(TOKEN, value, client=client)
    assert values == []


async def test_a_hundred_levels_are_taken(client: Client, values: list[Any]):
    await finish(TOKEN, nested(100), client=client)
    assert values == [nested(100)]


def test_a_stored_text_is_a_text_for_the_schema():
    stored = {"$outlast.blob": blobs.key_of(b"text"), "bytes": 4}
    assert outside._with_words([{"a": stored, "b": 1}]) == [
        {"a": "[4 bytes, stored outside of the run]", "b": 1}
    ]
