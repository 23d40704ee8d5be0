"""Servers of the Model Context Protocol that a worker runs or reaches by itself.

The names are in `__init__.pyi` and loaded when first used: agents and clients without such servers
do not need the `mcp` package.
"""

from outlast import lazy

lazy.attach(__name__)
