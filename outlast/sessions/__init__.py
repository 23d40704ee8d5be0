"""Where conversations are remembered between runs: adapters behind `outlast.ports.session`.

The names are in `__init__.pyi` and loaded when first used: only `SQLAlchemySession` needs SQLAlchemy.
"""

from outlast import lazy

lazy.attach(__name__)
