"""Model Context Protocol servers that a worker starts or connects to.

The names are in `__init__.pyi` and loaded when first used: agents and clients without such servers
do not need the `mcp` package.
"""

from outlast.edges import lazy

lazy.attach(__name__)
