"""What a worker loads: `outlast worker support_desk.app --app-dir examples`.

Owns: the names that a worker looks for. Must not know: how a worker is started.
"""

from support_desk.agents import agents
from support_desk.context import Customer

context_type = Customer
"""The type of the run's context: what JSON given at the start of a run is checked against."""

__all__ = ["agents", "context_type"]
