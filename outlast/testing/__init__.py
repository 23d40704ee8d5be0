"""For users' tests: agents run like functions, without a server.

Owns: `run_in_memory` and `ScriptedModel`. Shipped with the package. Must not know: Temporal.
"""

from outlast.testing.read_along import run_in_memory_streamed
from outlast.testing.run import run_in_memory
from outlast.testing.scripted_model import ScriptedModel, call, refuse, say

__all__ = ["ScriptedModel", "call", "refuse", "run_in_memory", "run_in_memory_streamed", "say"]
