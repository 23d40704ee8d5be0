"""URLs and environment variables name stores; what names none is refused in words."""

from pathlib import Path

import pytest

from outlast.agents.errors import UserError
from outlast.blobs import FileBlobStore, ObjectBlobStore, large_content, store_from_url
from outlast.blobs.locations import store_from_environment


def test_a_file_url_is_a_directory(tmp_path: Path):
    store = store_from_url(f"file://{tmp_path}/some%20blobs")
    assert isinstance(store, FileBlobStore)
    assert store.directory == tmp_path / "some blobs"


@pytest.mark.parametrize("url", ["file://host/blobs", "file://", "blobs", "/blobs", "s3://", "x:y"])
def test_what_is_no_store_is_refused(url: str):
    with pytest.raises(UserError):
        store_from_url(url)


def test_buckets_are_reached_by_obstore():
    pytest.importorskip("obstore")
    assert isinstance(store_from_url("s3://bucket/prefix"), ObjectBlobStore)
    with pytest.raises(UserError, match="cannot be opened"):
        store_from_url("nothing://bucket")


def test_the_environment_names_a_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    assert store_from_environment() is None
    monkeypatch.setenv("OUTLAST_BLOB_STORE", f"file://{tmp_path}")
    monkeypatch.setenv("OUTLAST_BLOB_THRESHOLD", "10000")
    content = large_content()
    assert isinstance(content.store, FileBlobStore)
    assert content.threshold == 10_000
    assert large_content(mine := FileBlobStore(tmp_path / "mine")).store is mine


@pytest.mark.parametrize("threshold", ["many", "-1", "10"])
def test_a_threshold_that_makes_no_sense_is_refused(
    monkeypatch: pytest.MonkeyPatch, threshold: str
):
    monkeypatch.setenv("OUTLAST_BLOB_THRESHOLD", threshold)
    with pytest.raises(UserError, match="OUTLAST_BLOB_THRESHOLD"):
        large_content()


@pytest.mark.parametrize("store", ["s3://bucket", FileBlobStore, 5])
def test_what_is_no_store_object_is_refused(store: object):
    with pytest.raises(UserError, match="blob_store="):
        large_content(store)  # pyright: ignore[reportArgumentType]  on purpose
