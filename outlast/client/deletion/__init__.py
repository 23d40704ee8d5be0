"""Deletes runs on request, from the server, the archive and their sessions, and proves it."""

from outlast.client.deletion.deletion import Deletion

__all__ = ["Deletion"]
