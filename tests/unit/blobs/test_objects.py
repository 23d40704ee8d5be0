"""A bucket as a blob store, on obstore's store in memory."""

from typing import Any

import pytest

from outlast.agents.errors import UserError
from outlast.blobs import ObjectBlobStore
from outlast.contract.blobs import key_of
from outlast.ports.blobs import BlobDamaged, BlobNotFound


@pytest.fixture
def memory() -> Any:
    return pytest.importorskip("obstore.store").MemoryStore()


async def test_what_is_put_is_got(memory: Any):
    store = ObjectBlobStore(memory)
    key = await store.put(b"photo")
    assert key == key_of(b"photo")
    assert await store.get(key) == b"photo"


async def test_what_is_missing_or_damaged_is_not_returned(memory: Any):
    store = ObjectBlobStore(memory)
    with pytest.raises(BlobNotFound):
        await store.get(key_of(b"x"))
    key = await store.put(b"photo")
    digest = key.removeprefix("sha256:")
    await memory.put_async(f"{digest[:2]}/{digest}", b"other")
    with pytest.raises(BlobDamaged):
        await store.get(key)


def test_what_is_no_store_is_refused():
    with pytest.raises(UserError, match=r"obstore\.store"):
        ObjectBlobStore("s3://bucket")
