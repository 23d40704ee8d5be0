"""Content goes through a store once, comes back the same, and outages are errors."""

import asyncio
from contextlib import suppress

import pytest

from outlast.agents.errors import UserError
from outlast.blobs.contents import LargeContent
from outlast.contract import blobs
from outlast.contract.blobs import key_of
from outlast.loop.values import Json, reference
from outlast.ports.blobs import BlobDamaged, BlobNotFound, StoreTimeout


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


async def stored(content: LargeContent, text: str) -> Json:
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


class Hanging(Memory):
    """A store whose calls end when the test does, and that does not mind being cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.hangs = True
        self.end = asyncio.Event()

    async def _hang(self) -> None:
        while self.hangs and not self.end.is_set():
            with suppress(asyncio.CancelledError):
                await self.end.wait()

    async def put(self, data: bytes) -> str:
        await self._hang()
        return await super().put(data)

    async def get(self, key: str) -> bytes:
        await self._hang()
        return await super().get(key)


async def test_a_store_that_hangs_is_given_up():
    store = Hanging()
    content = LargeContent(store, threshold=10, patience=0.02)
    with pytest.raises(StoreTimeout, match="has not stored sha256:"):
        await stored(content, "x" * 100)
    with pytest.raises(StoreTimeout, match="within 0 s"):
        await LargeContent(store).put_all({"k": b"v"}, within=0.01)
    store.hangs = False
    value = await stored(content, "x" * 100)
    store.hangs = True
    with pytest.raises(StoreTimeout, match="has not read sha256:"):
        await content.joined(value)
    store.end.set()


async def test_large_blobs_have_more_time():
    class Slow(Memory):
        async def put(self, data: bytes) -> str:
            await asyncio.sleep(0.05)
            return await super().put(data)

    content = LargeContent(Slow(), threshold=10, patience=0.01)
    with pytest.raises(StoreTimeout):
        await stored(content, "x" * 100)
    await stored(content, "x" * 300_000)


async def test_damaged_content_is_never_taken_from_any_store():
    store = Memory()
    content = LargeContent(store, threshold=10)
    value = await stored(content, "x" * 100)
    (key,) = store.held
    store.held[key] = b"y" * 100
    with pytest.raises(BlobDamaged, match="its bytes have changed"):
        await content.joined(value)
    store.held[key] = b"x" * 100
    assert await content.joined(value) == {"content": "x" * 100}


async def test_words_take_the_place_of_what_is_gone_for_good(caplog: pytest.LogCaptureFixture):
    store = Memory()
    content = LargeContent(store, threshold=10, cache_bytes=0)
    damaged, missing, whole = [await stored(content, letter * 100) for letter in "abc"]
    first, second, _ = store.held
    store.held[first] = b"z"
    del store.held[second]
    with pytest.raises(BlobNotFound):
        await content.joined_all([missing], words_for="damaged")
    for _ in range(2):
        made = await content.joined_all([damaged, missing, whole], words_for="missing")
        assert [one["content"] for one in made] == [
            "[100 bytes of content were here and are lost: the stored copy is damaged.]",
            "[100 bytes of content were here and are lost: the store no longer has it.]",
            "c" * 100,
        ]
    assert caplog.text.count("content of a run is lost") == 2, "people are told once of each"
    gone = await content.joined_all([missing], words_for="damaged")
    assert gone[0]["content"].endswith("the store no longer has it.]"), "nobody waits again"
    await stored(content, "b" * 100)
    assert await content.joined_all([missing], words_for="damaged") == [{"content": "b" * 100}]


async def test_a_reference_to_what_is_no_text_does_not_end_a_conversation():
    store = Memory()
    no_text, no_list = await store.put(b"\xff\xfe"), await store.put(b"{}")
    one = await store.put(b'["a"]')
    values = [reference(no_text, 2), reference(no_list, 2, 0), reference(one, 5, 7)]
    content = LargeContent(store)
    made = await content.joined_all(values, words_for="damaged")
    assert all("are lost" in text for text in made)
    for value in values:
        with pytest.raises((BlobDamaged, ValueError)):
            await content.joined(value)


async def test_a_store_with_keys_of_its_own_is_refused():
    class Own(Memory):
        async def put(self, data: bytes) -> str:
            return "blob-1"

    with pytest.raises(UserError, match="SHA-256"):
        await stored(LargeContent(Own(), threshold=10), "x" * 100)
