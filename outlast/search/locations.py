"""Finds the index that an option or the environment names."""

from pathlib import Path
from typing import Final

from outlast.agents.errors import UserError, as_user_error
from outlast.agents.secrets import secret
from outlast.search.index import SearchIndex

INDEX_VARIABLE: Final = "OUTLAST_SEARCH_INDEX"

_POSTGRES: Final = ("postgresql://", "postgres://", "postgresql+psycopg://")


def open_index(place: str | Path) -> SearchIndex:
    """Return the index at a place, which need not exist yet.

    Args:
        place: a file for SQLite, or `postgresql://user:password@host/database`.

    Raises:
        UserError: there is no such kind of place, or its package is missing.
    """
    text = str(place)
    if isinstance(place, str) and text.startswith(_POSTGRES):
        with as_user_error(ModuleNotFoundError):
            from outlast.search.postgres import PostgresIndex
        return PostgresIndex(text)
    if not text or "\0" in text or (isinstance(place, str) and "://" in text):
        raise UserError(
            "An index of search is a file, such as /var/lib/outlast/search.db, or "
            "postgresql://user:password@host/database."
        )
    from outlast.search.sqlite import SQLiteIndex

    return SQLiteIndex(place)


def index_from_environment() -> SearchIndex | None:
    """Return the index that `OUTLAST_SEARCH_INDEX` names, or the file in its `_FILE`; or None.

    Raises:
        UserError: it names none.
    """
    place = secret(INDEX_VARIABLE)
    return open_index(place) if place else None
