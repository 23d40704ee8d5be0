"""Messages are stored, or escaped, before they are sent."""

import pytest

from outlast.client.content import with_content_stored
from outlast.contract import blobs
from outlast.contract.records import RunInput, SendRecord, messages_of
from outlast.loop.values import JsonObject, reference

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
