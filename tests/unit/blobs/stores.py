"""Blob stores for tests."""

from outlast.contract.blobs import key_of
from outlast.ports.blobs import BlobNotFound


class MemoryStore:
    """A store in memory."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}

    async def put(self, data: bytes) -> str:
        """Store a blob."""
        self.held[key_of(data)] = data
        return key_of(data)

    async def get(self, key: str) -> bytes:
        """Return a blob."""
        if key not in self.held:
            raise BlobNotFound(f"There is no blob {key}.")
        return self.held[key]
