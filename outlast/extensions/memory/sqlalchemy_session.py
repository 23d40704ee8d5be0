"""The session in a SQL database, under the name where users look for it.

Owns: the name `SQLAlchemySession` here. It is found by name when it is first used, because it
stands above this module.
"""

from outlast.extensions.late_names import late_names

__getattr__, __dir__ = late_names(
    __name__, {"SQLAlchemySession": "outlast.sessions.sql_alchemy:SQLAlchemySession"}
)
