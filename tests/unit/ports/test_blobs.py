"""Content goes through a store once, comes back the same, and outages are errors."""

import asyncio

import pytest

from outlast.agents.errors import UserError
from outlast.contract import blobs
from outlast.contract.blobs import key_of
from outlast.ports.blobs import BlobNotFound, LargeContent


class Memory:
    """A store in memory that counts."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}
        self.gets = 0
        self.at_once = 0
        self.most_at_once = 0

    async def put(self, data: bytes) -> str:
        self.held[key_of(data)] = data
        return key_of(data)

    async def get(self, key: str) -> bytes:
        self.gets += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        if key not in self.held:
            raise BlobNotFound(key)
        return self.held[key]


async def stored(content: LargeContent, text: str) -> object:
    found: blobs.Contents = {}
    made = blobs.split({"content": text}, content.threshold, found)
    await content.put_all(found)
    return made


async def test_content_is_read_once_while_it_fits_in_memory():
    store = Memory()
    content = LargeContent(store, threshold=10, cache_bytes=4_000)
    values = [await stored(content, f"{number}" * 500) for number in range(9)]
    first = await content.joined_all(values[:2])
    assert first == [{"content": "0" * 500}, {"content": "1" * 500}]
    again = await content.joined_all(values[:2])
    assert store.gets == 2
    assert again[0]["content"] is first[0]["content"], "the same text is shared"
    await content.joined_all(values)
    assert store.gets == 9
    await content.joined(values[0])
    assert store.gets == 10, "the oldest has made room"


async def test_a_value_without_content_is_the_same_object():
    content = LargeContent(None)
    value = {"content": [1]}
    assert await content.joined(value) is value
    assert (await content.joined_all([value]))[0] is value


async def test_few_blobs_are_read_at_a_time():
    store = Memory()
    content = LargeContent(store, threshold=10, cache_bytes=0)
    values = [await stored(content, f"{number:020}") for number in range(50)]
    await content.joined_all(values)
    assert store.most_at_once <= 8


async def test_no_store_and_another_store_are_told_apart():
    content = LargeContent(Memory(), threshold=10)
    value = await stored(content, "x" * 100)
    with pytest.raises(BlobNotFound, match="OUTLAST_BLOB_STORE"):
        await LargeContent(None).joined(value)
    with pytest.raises(BlobNotFound):
        await LargeContent(Memory()).joined(value)
    await LargeContent(None).put_all({"k": b"v"})


async def test_a_store_with_keys_of_its_own_is_refused():
    class Own(Memory):
        async def put(self, data: bytes) -> str:
            return "blob-1"

    with pytest.raises(UserError, match="SHA-256"):
        await stored(LargeContent(Own(), threshold=10), "x" * 100)
