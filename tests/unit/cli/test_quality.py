"""`outlast quality create`: a schedule, which `outlast schedule` shows and deletes."""

import json

from temporalio.client import Client

from tests.hostile_text import assert_visible
from tests.unit.cli.conftest import Invoke


async def test_a_check_is_created_once_and_is_a_schedule(
    cli: Invoke, client: Client, run_id: str
) -> None:
    check = f"check-{run_id}"
    given = ("quality", "create", check, "It is polite.\x1b[2K", "--agent", "Clerk")
    made = await cli(*given, "--below", "0.8", "--time-zone", "Europe/Berlin")
    assert made.exit_code == 0, made.stderr
    assert made.stdout == f"The quality check {check} runs at 0 5 * * * in Europe/Berlin.\n"
    again = await cli(*given, "--below", "0.8", "--time-zone", "Europe/Berlin", "--json")
    assert json.loads(again.stdout)["agent"] == "Clerk"
    other = await cli(*given)
    assert (other.exit_code, "There is another schedule" in other.stderr) == (2, True)
    shown = await cli("schedule", "show", check)
    assert_visible(shown.stdout, layout="\n")
    assert (await cli("schedule", "delete", check)).exit_code == 0
    for wrong in (("--sample", "0"), ("--below", "2")):
        assert (await cli(*given, *wrong)).exit_code == 2
    del client
