"""Stores for large content: adapters behind `outlast.ports.blobs`."""

from outlast.blobs.files import FileBlobStore
from outlast.blobs.locations import (
    large_content,
    store_from_environment,
    store_from_url,
    use_blob_store,
    use_local_store,
)
from outlast.blobs.objects import ObjectBlobStore

__all__ = [
    "FileBlobStore",
    "ObjectBlobStore",
    "large_content",
    "store_from_environment",
    "store_from_url",
    "use_blob_store",
    "use_local_store",
]
