"""URLs and environment variables name stores; what names none is refused in words."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.converter import DataConverter, PayloadCodec

from outlast.agents.errors import UserError
from outlast.blobs import (
    FileBlobStore,
    ObjectBlobStore,
    large_content,
    store_from_url,
    use_local_store,
)
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


class Codec(PayloadCodec):
    """Does nothing."""

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return list(payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return list(payloads)


async def test_a_client_that_encrypts_gets_no_plain_directory_by_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    converter = replace(DataConverter.default, payload_codec=Codec())
    encrypting = await Client.connect("localhost:1", lazy=True, data_converter=converter)
    plain = await Client.connect("localhost:1", lazy=True)
    for client in (encrypting, plain):
        use_local_store(client, tmp_path)
    assert large_content(client=encrypting).store is None
    assert isinstance(large_content(client=plain).store, FileBlobStore)
    monkeypatch.setenv("OUTLAST_BLOB_STORE", f"file://{tmp_path}/named")
    use_local_store(encrypting, tmp_path)
    named = large_content(client=encrypting).store
    assert isinstance(named, FileBlobStore)
    assert named.directory == tmp_path / "named"
