"""Sessions with dependencies of their own, under the name where users look for them.

Owns: the name `SQLAlchemySession` here. It is found by name when it is first used, because it
stands above this module, and because SQLAlchemy is only there with an extra: without it the name
raises a `ModuleNotFoundError`.
"""

from outlast.extensions.late_names import late_names

__getattr__, __dir__ = late_names(
    __name__, {"SQLAlchemySession": "outlast.sessions.sql_alchemy:SQLAlchemySession"}
)
