"""An archive and a blob store in a bucket, on a server of S3 over HTTP."""

import os
import secrets
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from outlast.agents.errors import ContentUnavailable
from outlast.archive import Archive, ObjectArchiveStore
from outlast.archive.status import check_writable
from outlast.archive.stores import archive_store
from outlast.blobs import ObjectBlobStore
from outlast.blobs.buckets import BucketError
from outlast.contract.blobs import key_of
from outlast.ports.archive import FileMissing
from outlast.ports.blobs import BlobNotFound
from tests.s3_servers import S3Server, s3_server

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
async def s3() -> AsyncIterator[S3Server]:
    pytest.importorskip("obstore")
    pytest.importorskip("moto")
    async with s3_server() as server:
        yield server


def archive_in(s3: S3Server, bucket: str = "archive", **options: Any) -> Archive:
    return Archive(ObjectArchiveStore(s3.store(bucket, **options)))


async def test_a_url_and_the_environment_name_a_bucket(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
):
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    archive = Archive("s3://archive/some/prefix")
    await archive.write("runs/aa/b.json", b"1")
    await archive.write("runs/aa/b.json", b"2")  # as a second worker does
    assert await archive.read("runs/aa/b.json") == b"2"
    assert await archive.names("runs/") == ["runs/aa/b.json"]
    assert await archive.names("runs/a/") == []
    store = archive_store("s3://archive")
    assert await store.names("some/") == ["some/prefix/runs/aa/b.json"]
    await archive.delete(["runs/aa/b.json", "runs/aa/missing.json"])
    assert await archive.read("runs/aa/b.json") is None
    with pytest.raises(FileMissing):
        await store.read("runs/aa/b.json")


async def test_a_list_of_more_objects_than_a_page_is_whole(s3: S3Server):
    archive = archive_in(s3, "many")
    found = await archive.names("runs/")
    assert len(found) == len(set(found)) == 1_100
    assert found == sorted(found)
    assert len(await archive.names("runs/07/")) == 11


async def test_a_file_of_several_parts_is_whole(s3: S3Server):
    archive, data = archive_in(s3, prefix="parts"), secrets.token_bytes(11_000_000)
    await archive.write("runs/aa/large.history", data)
    assert await archive.read("runs/aa/large.history") == data


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"bucket": "missing"}, r"There is no such bucket. Create it, or correct its name\."),
        ({"key_id": "AKIAEXAMPLE"}, r"The credentials are refused\..* InvalidAccessKeyId: "),
        ({"secret": "wrong"}, r"The credentials are refused\..* SignatureDoesNotMatch: "),
    ],
)
async def test_what_a_bucket_refuses_is_said_and_never_looks_empty(
    s3: S3Server, options: dict[str, str], said: str
):
    archive = archive_in(s3, **options)
    calls = [
        archive.read("runs/aa/b.json"),
        archive.names("runs/"),
        archive.write("runs/aa/b.json", b"x"),
        archive.delete(["runs/aa/b.json"]),
        archive.newest("default", "run-1"),
        check_writable(archive),
    ]
    for call in calls:
        with pytest.raises(ContentUnavailable, match=said) as caught:
            await call
        assert "\n" not in caught.value.message
        assert "Debug source" not in caught.value.message
    blobs = ObjectBlobStore(s3.store(**options))
    with pytest.raises(BucketError, match=said):
        await blobs.get(key_of(b"x"))
    with pytest.raises(BucketError, match=said):
        await blobs.put(b"x")
    with pytest.raises(BucketError, match=said):
        await blobs.delete(key_of(b"x"))


async def test_blobs_of_a_bucket(s3: S3Server):
    blobs = ObjectBlobStore(s3.store(prefix="blobs"))
    key = await blobs.put(b"photo")
    assert await blobs.get(key) == b"photo"
    await blobs.delete(key)
    await blobs.delete(key)
    with pytest.raises(BlobNotFound):
        await blobs.get(key)


async def test_a_server_that_does_not_answer_is_an_outage(s3: S3Server):
    few = {"max_retries": 1, "retry_timeout": timedelta(seconds=5)}
    archive = archive_in(s3, endpoint="http://127.0.0.1:9", retry_config=few)
    with pytest.raises(ContentUnavailable, match=r"cannot be read: BucketError: .*error sending"):
        await archive.read("runs/aa/b.json")
    assert "AWS_ACCESS_KEY_ID" not in os.environ, "no test leaves its key to the others"
