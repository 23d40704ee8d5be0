"""The client: start runs, send to them, read them.

`Runner`, `RunHandle`, results and their errors. Uses the contract's names only and never imports
workflows or activities: a client may run where no agent is defined.
"""

from outlast.client.connection import connect
from outlast.client.handle import RunHandle, SentMessage
from outlast.client.local_definitions import RemoteAgent
from outlast.client.results import RunResult
from outlast.client.run_state import RunState
from outlast.client.runner import Runner
from outlast.client.start import RunOptions
from outlast.client.streaming import RunResultStreaming

__all__ = [
    "RemoteAgent",
    "RunHandle",
    "RunOptions",
    "RunResult",
    "RunResultStreaming",
    "RunState",
    "Runner",
    "SentMessage",
    "connect",
]
