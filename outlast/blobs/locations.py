"""Finds the blob store that a URL or the environment configures."""

import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from weakref import WeakKeyDictionary, WeakSet

from temporalio.client import Client

from outlast.agents.errors import UserError
from outlast.blobs.contents import LargeContent
from outlast.blobs.files import FileBlobStore
from outlast.contract.blobs import SMALLEST_THRESHOLD, THRESHOLD_BYTES
from outlast.ports.blobs import BlobStore, check_blob_store
from outlast.ports.engine import check_client

VARIABLE = "OUTLAST_BLOB_STORE"
"""The environment variable with the URL of this process's store."""


THRESHOLD_VARIABLE = "OUTLAST_BLOB_THRESHOLD"
"""The environment variable with the size in bytes from which content is moved to the store."""


def store_from_url(url: str) -> BlobStore:
    """Return the store for a URL.

    Args:
        url: `file:///var/lib/outlast/blobs`, or any URL that `obstore.store.from_url` accepts,
            such as `s3://bucket/prefix`, `gs://bucket/prefix` or `az://container/prefix`.
            Credentials and regions come from the provider's own environment variables.

    Raises:
        UserError: the URL is invalid, or the package for the store is missing.
    """
    parts = urlsplit(url)
    if parts.scheme == "file":
        if parts.netloc not in {"", "localhost"} or not parts.path:
            raise UserError(f"{url!r} has no directory. Write file:///path/to/blobs.")
        return FileBlobStore(Path(unquote(parts.path)))
    if not parts.scheme or not parts.netloc:
        raise UserError(
            f"{url!r} is not the URL of a blob store: file:///path, s3://bucket, gs://bucket."
        )
    try:
        from obstore.store import from_url
    except ImportError:
        raise UserError(
            f"The store {url!r} needs the package obstore: pip install 'outlast[blobs]'."
        ) from None
    from outlast.blobs.objects import ObjectBlobStore

    try:
        return ObjectBlobStore(from_url(url))
    except Exception as error:  # the exceptions of obstore's providers have no common class
        raise UserError(f"The blob store {url!r} cannot be opened: {error}") from error


_of_clients: WeakKeyDictionary[Client, LargeContent] = WeakKeyDictionary()

_defaults: WeakSet[Client] = WeakSet()
"""The clients whose store nobody has named: it is that of the server that they found."""


def use_blob_store(client: Client, store: BlobStore) -> None:
    """Use a store for the large content of all runs that use a client.

    Raises:
        UserError: the value is not a blob store, or the client's runs keep their content in another.
    """
    check_client(client, what="use_blob_store(client)")
    current = _of_clients.get(client)
    is_default = client in _defaults
    _defaults.discard(client)
    if current is None or current.store is None or (is_default and current.store != store):
        _of_clients[client] = _content(store)
    elif current.store != store:
        raise UserError(
            f"The runs of this client keep large content in {current.store!r}, and would look for it "
            f"in {store!r}. Use one client for each store, or the same store for all calls."
        )


def use_local_store(client: Client, directory: Path, *, is_default: bool = False) -> None:
    """Use a local directory for large content of runs on the local server.

    A store configured in the environment takes precedence. With a payload codec, the directory is
    not used, because its files are not encrypted.

    Args:
        client: connected to the local server.
        directory: the directory.
        is_default: a store that the program names later takes its place.

    Raises:
        UserError: the environment variable configures an invalid store.
    """
    store = store_from_environment()
    converter = getattr(client, "data_converter", None)
    if store is None and getattr(converter, "payload_codec", None) is None:
        store = FileBlobStore(directory)
    if store is not None:
        use_blob_store(client, store)
        if is_default:
            _defaults.add(client)


def large_content(store: BlobStore | None = None, *, client: Any = None) -> LargeContent:
    """Return the object that moves large content out of records and back.

    Without a `store`, it uses the client's, or else the one of `OUTLAST_BLOB_STORE`, if any.

    Raises:
        UserError: the store or an environment variable is invalid.
    """
    if store is not None and isinstance(client, Client):
        use_blob_store(client, store)
    current = _of_clients.get(client) if isinstance(client, Client) else None
    if current is None:
        current = _content(store)
        if isinstance(client, Client):
            _of_clients[client] = current
    return current


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
    """Return the store that `OUTLAST_BLOB_STORE` configures, or None.

    Raises:
        UserError: the URL is invalid, or the package for the store is missing.
    """
    url = os.environ.get(VARIABLE)
    return store_from_url(url) if url else None
