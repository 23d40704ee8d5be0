"""Which store a URL or the environment names."""

import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from weakref import WeakKeyDictionary

from temporalio.client import Client

from outlast.agents.errors import UserError
from outlast.blobs.files import FileBlobStore
from outlast.blobs.objects import ObjectBlobStore
from outlast.contract.blobs import SMALLEST_THRESHOLD, THRESHOLD_BYTES
from outlast.ports.blobs import BlobStore, LargeContent, check_blob_store
from outlast.ports.engine import check_client

VARIABLE = "OUTLAST_BLOB_STORE"
"""The environment variable with the URL of the store of this process."""


THRESHOLD_VARIABLE = "OUTLAST_BLOB_THRESHOLD"
"""The environment variable with the size in bytes above which content is stored outside."""


def store_from_url(url: str) -> BlobStore:
    """Return the store that a URL names.

    Args:
        url: `file:///var/lib/outlast/blobs`, or what `obstore.store.from_url` takes, such as
            `s3://bucket/prefix`, `gs://bucket/prefix` or `az://container/prefix`. Credentials
            and regions come from the provider's own environment variables.

    Raises:
        UserError: it names no store, or the package for it is missing.
    """
    parts = urlsplit(url)
    if parts.scheme == "file":
        if parts.netloc not in {"", "localhost"} or not parts.path:
            raise UserError(f"{url!r} names no directory: write file:///path/to/blobs.")
        return FileBlobStore(Path(unquote(parts.path)))
    if not parts.scheme or not parts.netloc:
        raise UserError(
            f"{url!r} is no URL of a blob store: file:///path, s3://bucket, gs://bucket."
        )
    try:
        from obstore.store import from_url
    except ImportError:
        raise UserError(
            f"The store {url!r} needs the package obstore: pip install 'outlast[blobs]'."
        ) from None
    try:
        return ObjectBlobStore(from_url(url))
    except Exception as error:
        raise UserError(f"The blob store {url!r} cannot be opened: {error}") from error


_of_clients: WeakKeyDictionary[Client, LargeContent] = WeakKeyDictionary()


def use_blob_store(client: Client, store: BlobStore) -> None:
    """Keep the large content of all runs that are reached with a client in a store.

    Args:
        client: a connected Temporal client.
        store: where to.

    Raises:
        UserError: the store is none.
    """
    check_client(client, what="use_blob_store(client)")
    known = _of_clients.get(client)
    if known is None or known.store is not store:
        _of_clients[client] = _content(store)


def use_local_store(client: Client, directory: Path) -> None:
    """Keep the large content of runs on this machine's own server in a directory beside it.

    The store that the environment names goes first. A client with a payload codec gets no
    directory by itself, because what is in it is not encrypted.

    Args:
        client: connected to the server.
        directory: where to.

    Raises:
        UserError: the environment variable names no store.
    """
    store = store_from_environment()
    converter = getattr(client, "data_converter", None)
    if store is None and getattr(converter, "payload_codec", None) is None:
        store = FileBlobStore(directory)
    if store is not None:
        use_blob_store(client, store)


def large_content(store: BlobStore | None = None, *, client: Any = None) -> LargeContent:
    """Return what moves large content of this process.

    Args:
        store: where to; default: the client's, or else the store that `OUTLAST_BLOB_STORE` names,
            if it names one.
        client: a connected Temporal client, for which a store may have been named.

    Raises:
        UserError: the store is none, or the environment variables make no sense.
    """
    if store is not None and isinstance(client, Client):
        use_blob_store(client, store)
    known = _of_clients.get(client) if isinstance(client, Client) else None
    if known is None:
        known = _content(store)
        if isinstance(client, Client):
            _of_clients[client] = known
    return known


def _content(store: BlobStore | None) -> LargeContent:
    check_blob_store(store)
    threshold = os.environ.get(THRESHOLD_VARIABLE, str(THRESHOLD_BYTES))
    if not threshold.isdecimal() or int(threshold) < SMALLEST_THRESHOLD:
        raise UserError(
            f"{THRESHOLD_VARIABLE}={threshold!r} must be a number of bytes, at least "
            f"{SMALLEST_THRESHOLD}."
        )
    return LargeContent(store or store_from_environment(), threshold=int(threshold))


def store_from_environment() -> BlobStore | None:
    """Return the store that `OUTLAST_BLOB_STORE` names; None where it names none.

    Raises:
        UserError: it names no store, or the package for it is missing.
    """
    url = os.environ.get(VARIABLE)
    return store_from_url(url) if url else None
