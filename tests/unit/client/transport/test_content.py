"""Messages are stored, or escaped, before they are sent."""

import pytest

from outlast.blobs.contents import LargeContent
from outlast.client.transport.content import ContentReader, with_content_stored
from outlast.contract import blobs
from outlast.contract.records import RunInput, SendRecord, messages_of
from outlast.loop.items import Item
from outlast.loop.values import JsonObject, reference
from tests.unit.blobs.stores import MemoryStore

REFERENCE = reference(blobs.key_of(b"x"), 1)


@pytest.fixture(autouse=True)
def no_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OUTLAST_BLOB_STORE", raising=False)


async def test_without_a_store_a_users_reference_is_an_ordinary_value():
    raw: JsonObject = {"role": "user", "content": [REFERENCE, {blobs.ESCAPED: {"a": 1}}]}
    started = await with_content_stored(None, RunInput(agent="A", input=[raw]))
    sent = await with_content_stored(None, SendRecord(input=[raw], message_id="m"))
    for record in (started, sent):
        items = messages_of(record.input)
        assert not any(map(blobs.has_references, items))
        assert [blobs.readable(one) for one in items] == [raw]


async def test_without_a_store_all_else_is_sent_as_it_is():
    record = SendRecord(input="Hello", message_id="m")
    assert await with_content_stored(None, record) is record
    record = SendRecord(input=[{"role": "user", "content": "x" * 100_000}], message_id="m")
    assert await with_content_stored(None, record) is record


async def test_what_a_store_has_lost_of_a_run_is_named() -> None:
    store = MemoryStore()
    content = LargeContent(store, threshold=10)
    found: blobs.Contents = {}
    texts = ("kept " * 9, "damaged " * 9, "missing " * 9)
    items = [
        Item("input", blobs.split_item({"role": "user", "content": one}, 10, found))
        for one in texts
    ]
    await content.put_all(found)
    _kept, damaged, missing = (blobs.key_of(blobs.encode(one)) for one in texts)
    reader = ContentReader(LargeContent(store))
    assert await reader.lost(items) == []
    store.held[damaged] = b"other bytes"
    del store.held[missing]
    reader = ContentReader(LargeContent(store))
    second, third = await reader.lost([Item("input", {"role": "user"}), *items])
    assert second.startswith(f"item 3 (input): {damaged}: ")
    assert third.startswith(f"item 4 (input): {missing}: ")
    assert await ContentReader(LargeContent(None)).lost(items) == []


async def test_a_store_that_cannot_be_read_is_named_once() -> None:
    found: blobs.Contents = {}
    item = Item("input", blobs.split_item({"role": "user", "content": "x" * 50}, 10, found))

    class Down(MemoryStore):
        async def get(self, key: str) -> bytes:
            raise ConnectionError("down")

    (only,) = await ContentReader(LargeContent(Down())).lost([item, item])
    assert only.endswith("cannot be read: ConnectionError: down")
