"""Sessions store conversations between runs: adapters for `outlast.ports.session`.

The names are listed in `__init__.pyi` and loaded on first use, because only `SQLAlchemySession`
needs SQLAlchemy.
"""

from outlast import lazy

lazy.attach(__name__)
