"""What a worker loads: `outlast worker phone_desk.app --app-dir examples`.

Owns: the names that a worker looks for. Must not know: how a worker is started.
"""

from support_desk.context import Customer

from phone_desk.agents import reception

agents = [reception]
context_type = Customer

__all__ = ["agents", "context_type"]
