"""Sessions with dependencies of their own, under the name where users look for them.

Owns: the name `SQLAlchemySession` here. It is found by name when it is first used, because it
stands above this module, and because SQLAlchemy is only there with an extra.
"""

import pkgutil
from typing import Any

_IMPLEMENTATIONS = {"SQLAlchemySession": "outlast.sessions.sql_alchemy:SQLAlchemySession"}


def __getattr__(name: str) -> Any:
    """Return a session class.

    Raises:
        ModuleNotFoundError: what it depends on is not installed.
    """
    if name not in _IMPLEMENTATIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return pkgutil.resolve_name(_IMPLEMENTATIONS[name])


def __dir__() -> list[str]:
    """List the session classes, loaded or not."""
    return [*globals(), *_IMPLEMENTATIONS]
