"""Deletes runs on request, from the server, the archive and their sessions, and proves it."""

from outlast.client.deletion.deletion import Deletion
from outlast.client.whose import RunsOfPerson, find_person

__all__ = ["Deletion", "RunsOfPerson", "find_person"]
