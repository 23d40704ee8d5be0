"""The client: start runs, send to them, read them.

`Runner`, `RunHandle`, results and their errors. Uses the contract's names only and never imports
workflows or activities: a client may run where no agent is defined.
"""

from outlast.client.deliveries import DeliveryReceipt, PendingWait, finish
from outlast.client.handle import RunHandle, SentMessage
from outlast.client.read.streaming import RunResultStreaming
from outlast.client.results.local_definitions import RemoteAgent
from outlast.client.results.run_result import RunResult
from outlast.client.results.run_state import RunState
from outlast.client.runs import ListedRun, RunFilter, RunPage, list_runs
from outlast.client.start.options import RunOptions
from outlast.client.start.runner import Runner
from outlast.client.timeline import Step, Timeline
from outlast.client.transport.connection import connect

__all__ = [
    "DeliveryReceipt",
    "ListedRun",
    "PendingWait",
    "RemoteAgent",
    "RunFilter",
    "RunHandle",
    "RunOptions",
    "RunPage",
    "RunResult",
    "RunResultStreaming",
    "RunState",
    "Runner",
    "SentMessage",
    "Step",
    "Timeline",
    "connect",
    "finish",
    "list_runs",
]
