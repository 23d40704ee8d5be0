"""Agents that outlast the process: an agent framework whose loop is a durable Temporal workflow.

The public names are listed in `__init__.pyi` and loaded when first used, so that importing the
package costs next to nothing.
"""

from outlast.edges import lazy, sdk

__version__ = "0.1.0"

lazy.attach(__name__)
sdk.install()
