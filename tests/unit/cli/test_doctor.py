import json
from pathlib import Path

from outlast.dev import EmbeddedServer
from tests.unit.cli.conftest import Invoke


async def test_a_machine_that_has_what_it_needs_is_fine(
    cli: Invoke, server: EmbeddedServer
) -> None:
    done = await cli("doctor")

    assert done.exit_code == 0
    assert f"ok       server             answers at {server.address}" in done.stdout
    assert "optional model " in done.stdout
    assert "missing" not in done.stdout


async def test_what_is_missing_is_told_and_exits_with_1(cli: Invoke, nowhere: Path) -> None:
    done = await cli("doctor", "--address", "127.0.0.1:1", "--json")

    findings = {one["what"]: one for one in json.loads(done.stdout)}
    assert done.exit_code == 1
    assert findings["server"]["level"] == "missing"
    assert findings["Python"]["level"] == "ok"
