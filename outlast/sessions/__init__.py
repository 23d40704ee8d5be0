"""Sessions store conversations between runs: adapters for `outlast.ports.session`.

The names are listed in `__init__.pyi` and loaded on first use, because some of
their modules need packages of extras.
"""

from outlast import lazy

lazy.attach(__name__)
