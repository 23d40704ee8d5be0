"""What a worker is to do: the settings in its first argument, as JSON.

Needs the standard library only: it runs in the environments of all subjects.
"""

import json
import sys
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class Job:
    """The settings of a worker.

    Attributes:
        model_url: the base URL of the model.
        result_bytes: the length of a tool's result.
        variant: `plain`, `handoffs`, `approvals`, `streamed` or `replayed`.
        address: Temporal's, for a worker on Temporal.
        queue: its task queue.
        database: the URL of the database, for a worker on PostgreSQL.
        ledger: the file of the tool's effects; without one, the tool has none.
        transport: `worker`: the floor has the model client and event loop of outlast's worker;
            `activities`: outlast's tool does not say that it only reads.
    """

    model_url: str
    result_bytes: int = 1024
    variant: str = "plain"
    address: str = ""
    queue: str = ""
    database: str = ""
    ledger: str = ""
    transport: str = "default"


@cache
def the_job() -> Job:
    """Return the settings in the first argument."""
    return Job(**json.loads(sys.argv[1]))
