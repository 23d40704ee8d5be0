"""A deploy there and back on a real cluster, under load, while everything that can be open is open.

Two desks and three workers on two versions of a deployment are processes of their own. Temporal's
server runs on PostgreSQL, as in production.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

import pytest

from benchmarks.desk_processes import Deployment, Desks
from benchmarks.postgres_cluster import lacking
from tests.cluster.case import POINTS, Case
from tests.cluster.load import Load, Opened, cluster, verdict

LACKS = lacking()
pytestmark = [
    pytest.mark.full,
    pytest.mark.nightly,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(LACKS), reason=LACKS),
]
EACH = 4 * len(POINTS)
"""Cases that are open during each deploy: four with an approval, four with a wait, and so on."""

LANES = 4


async def roll(deployment: Deployment, worker: str, build: str) -> None:
    """Make a version current, and replace a worker and both desks one after another."""
    await deployment.choose(build)
    await deployment.desks[0].stop()
    await deployment.desks[0].start()
    await deployment.workers[worker].stop()
    await deployment.start_worker(worker, build)
    await deployment.desks[1].stop()
    await deployment.desks[1].start()


async def versions(deployment: Deployment, cases: list[Case]) -> list[str]:
    """Return the versions that cases are at."""
    found: list[str] = []
    for case in cases:
        described = await deployment.client.get_workflow_handle(case.run_id).describe()
        info = described.raw_description.workflow_execution_info.versioning_info
        found.append(info.deployment_version.build_id)
    return found


async def test_a_deploy_there_and_back_loses_and_doubles_nothing(tmp_path: Path) -> None:
    random = Random(42)
    async with cluster(tmp_path) as (deployment, _), Desks(deployment.ports) as desks:
        load = Load(desks, random, LANES)
        there, back = (Opened.of(desks, name, EACH, random) for name in ("there", "back"))
        async with asyncio.TaskGroup() as group:
            run: list[Coroutine[Any, Any, None]] = [load.carry()]
            run += [case.carry() for case in there.cases]
            tasks = [group.create_task(one) for one in run]
            await there.until_open()
            before = await versions(deployment, there.cases)
            await roll(deployment, "a", "2")
            there.door.set()
            tasks += [group.create_task(case.carry()) for case in back.cases]
            await back.until_open()
            between = await versions(deployment, back.cases)
            await roll(deployment, "c", "1")
            back.door.set()
            load.is_over = True
        cases = [*there.cases, *back.cases, *load.cases]
        found = await verdict(deployment, desks, cases)
    print(asdict(found))
    assert set(before) == {"1"}
    assert set(between) == {"2"}, "what began between the deploys is at the new version"
    assert found.cases >= 2 * EACH + LANES
    assert found.decisions == found.cases
    assert found.repeated == 0, "workers that stop in order end what they are at"
    assert found.connections > found.cases, "streams went on at another desk"
    assert found.cut, "desks were away, and their people went on"
