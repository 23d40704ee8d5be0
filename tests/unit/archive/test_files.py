"""An archive and a blob store in a directory."""

import asyncio
import stat
from pathlib import Path

from outlast.archive.stores import FileArchiveStore
from outlast.blobs import FileBlobStore


def test_nobody_else_on_the_machine_reads_it(tmp_path: Path) -> None:
    store = FileArchiveStore(tmp_path / "deep" / "archive")
    asyncio.run(store.write("runs/a/entry.json", b"{}"))
    modes = {
        one.relative_to(tmp_path).as_posix(): stat.S_IMODE(one.stat().st_mode)
        for one in tmp_path.rglob("*")
    }
    assert modes == {
        "deep": 0o700,
        "deep/archive": 0o700,
        "deep/archive/runs": 0o700,
        "deep/archive/runs/a": 0o700,
        "deep/archive/runs/a/entry.json": 0o600,
    }


def test_nobody_else_on_the_machine_reads_large_content(tmp_path: Path) -> None:
    asyncio.run(FileBlobStore(tmp_path / "blobs").put(b"a photo"))
    modes = [stat.S_IMODE(one.stat().st_mode) for one in sorted(tmp_path.rglob("*"))]
    assert modes == [0o700, 0o700, 0o600]
