"""The port to a store of archived histories."""

from typing import Protocol, runtime_checkable

from outlast.agents.errors import ContentUnavailable


class ArchiveDamaged(ContentUnavailable):
    """A file of the archive was changed, is damaged, or is missing."""


class FileMissing(Exception):
    """The store has no file with this name."""


@runtime_checkable
class ArchiveStore(Protocol):
    """Stores files by name. A name is made of lower-case words, digits, dots, dashes and slashes.

    Any exception other than `FileMissing` counts as an outage: what was to be written is written
    later. The methods may be called from any event loop.
    """

    async def write(self, name: str, data: bytes) -> None:
        """Store a file durably, as a whole or not at all; replace one that has this name."""
        ...

    async def read(self, name: str) -> bytes:
        """Return the content of a file.

        Raises:
            FileMissing: there is no such file.
        """
        ...

    async def names(self, folder: str) -> list[str]:
        """Return the names of all files in a folder, such as `runs/`, and below it."""
        ...

    async def delete(self, name: str) -> None:
        """Remove a file, if it exists."""
        ...
