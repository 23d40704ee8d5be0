"""Realtime agents: voice conversations with durable calls, handoffs and approvals.

The names are in `__init__.pyi` and loaded when first used.
"""

from outlast.edges import lazy

lazy.attach(__name__)
