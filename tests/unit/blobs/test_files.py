"""A directory as a blob store: whole blobs or none, checked when they are read."""

import asyncio
import threading
from pathlib import Path

import pytest

from outlast.blobs import FileBlobStore, files
from outlast.contract.blobs import key_of
from outlast.ports.blobs import BlobDamaged, BlobNotFound


def files_in(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


async def test_what_is_put_is_got(tmp_path: Path):
    store = FileBlobStore(tmp_path / "deep" / "blobs")
    key = await store.put(b"photo")
    assert key == key_of(b"photo")
    assert await store.get(key) == b"photo"
    assert await store.put(b"photo") == key


async def test_many_writers_of_one_blob_leave_one_file(tmp_path: Path):
    store = FileBlobStore(tmp_path)
    await asyncio.gather(*(store.put(b"x" * 100_000) for _ in range(20)))
    names = [path.name for path in files_in(tmp_path)]
    assert names == [key_of(b"x" * 100_000).removeprefix("sha256:")]


async def test_a_damaged_blob_is_never_returned(tmp_path: Path):
    store = FileBlobStore(tmp_path)
    key = await store.put(b"photo")
    (path,) = files_in(tmp_path)
    path.write_bytes(b"phot0")
    with pytest.raises(BlobDamaged, match="its bytes have changed"):
        await store.get(key)
    path.write_bytes(b"half")  # another size: it is written again
    assert await store.put(b"photo") == key
    assert await store.get(key) == b"photo"


async def test_storing_the_same_content_again_heals_a_damaged_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """Also one that has kept its size, as after a flipped bit."""
    store = FileBlobStore(tmp_path)
    key = await store.put(b"photo")
    (path,) = files_in(tmp_path)
    before = path.stat().st_mtime_ns
    await store.put(b"photo")
    assert path.stat().st_mtime_ns == before, "what is whole is not written again"
    path.write_bytes(b"phot0")
    assert await store.put(b"photo") == key
    assert await store.get(key) == b"photo"
    assert f"{path} was damaged and is stored again" in caplog.text


async def test_a_file_system_that_hangs_takes_no_thread_of_other_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    hangs = threading.Event()

    def hang(store: FileBlobStore, key: str) -> bytes:
        hangs.wait()
        return f"{store} {key}".encode()

    monkeypatch.setattr(FileBlobStore, "_get", hang)
    monkeypatch.setattr(files, "MOST_CALLS", 40)
    store = FileBlobStore(tmp_path)
    calls = [asyncio.create_task(store.get(f"{number}")) for number in range(40)]
    await asyncio.sleep(0)
    with pytest.raises(OSError, match="the file system hangs"):
        await store.put(b"photo")
    assert await asyncio.to_thread(lambda: "free") == "free"
    hangs.set()
    await asyncio.gather(*calls)
    assert await store.put(b"photo")


@pytest.mark.parametrize("key", ["sha256:" + "0" * 64, "sha256:../../etc/passwd", "x"])
async def test_what_is_not_there_is_not_found(tmp_path: Path, key: str):
    with pytest.raises(BlobNotFound):
        await FileBlobStore(tmp_path).get(key)
