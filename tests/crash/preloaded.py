"""What every worker of these tests needs, loaded once in the process that they are forked from.

A worker that loads and builds all of this for itself took 0.43 s of processor time instead of 0.17 s, and
the tests start two hundred of them.
"""

import gc
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import httpx2

from outlast.activities import effects
from outlast.contract import records
from outlast.contract.effects import EffectRequest
from outlast.loop.actions import CancelRecord
from outlast.loop.approvals import Decision
from outlast.loop.calls import HandoffResult, ModelReply, PreparedRun, ToolResult
from outlast.loop.effects import CallModel, PrepareRun, RunHandoff, RunTool
from outlast.loop.state import LoopState

# Where pytest finds them, of which this process knows nothing.
sys.path.append(str(Path(__file__).parents[2] / "examples"))

for module in iter_modules(effects.__path__, f"{effects.__name__}."):
    import_module(module.name)
for name in (
    "support_desk.app",
    "tests.crash.people",
    "tests.crash.phone_call",
    "tests.crash.team",
):
    import_module(name)

for kind in (
    *(EffectRequest[CallModel], PrepareRun, RunHandoff, RunTool),
    *(HandoffResult, ModelReply, PreparedRun, ToolResult),
    *(Decision, LoopState, records.RunInput, records.RunResultRecord),
    *(CancelRecord, records.SendRecord),
):
    records.adapter(kind)

httpx2.AsyncClient()  # loads the modules of its transport, and connects to nothing

# A collection in a worker would copy every page that it shares with this process.
gc.collect()
gc.freeze()
