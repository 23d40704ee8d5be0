"""`outlast policy`: checking a file of approval policies, and trying it on past runs."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from outlast.agents.agent import Agent
from outlast.agents.approvals.policy import ApprovalPolicy
from outlast.agents.calendars import Calendar
from outlast.agents.tools.function_tool import function_tool
from outlast.client.handle import RunHandle
from outlast.client.start.runner import Runner
from outlast.testing import ScriptedModel, call
from tests.unit.cli.conftest import Invoke, Open
from tests.workflow.test_long_runs import true_in_the_end

FILE = """\
[tool.refund]
when = "order_id == 'A-42'"
audience = { subjects = ["ann"], groups = ["billing"] }
quorum = 2

[tool.look_up]
needs_approval = false
"""

DESK = """\
from outlast import Agent, function_tool


@function_tool
def refund(order_id: str) -> str:
    return order_id


@function_tool
def look_up(order_id: str) -> str:
    return order_id


policy_desk = Agent(name="Desk", tools=[refund, look_up])
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    place = tmp_path / "approvals.toml"
    place.write_text(FILE, encoding="utf-8")
    return place


async def test_a_file_is_checked_without_a_server(cli: Invoke, file: Path) -> None:
    done = await cli("policy", "check", str(file))

    assert done.exit_code == 0
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[1:] == [
        [
            "[tool.refund]",
            "2",
            "of",
            "ann,",
            "the",
            "group",
            "billing",
            "order_id",
            "==",
            "'A-42'",
            "as",
            "in",
            "the",
            "code",
        ],
        ["[tool.look_up]", "nobody", "never"],
    ]
    assert done.stderr.startswith("ok: 2 policies in ")
    assert "Neither names nor what the tables loosen were compared" in done.stderr


async def test_with_a_target_its_names_are_compared(
    cli: Invoke, file: Path, tmp_path: Path
) -> None:
    (tmp_path / "policy_desk_module.py").write_text(DESK, encoding="utf-8")
    arguments = ("policy", "check", str(file), "policy_desk_module", "--app-dir", str(tmp_path))

    done = await cli(*arguments, "--json")
    assert done.exit_code == 0
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["agents"] == ["Desk"]
    assert [one["loosens"] for one in found["policies"]] == [[], []]
    assert "no [group.billing] and no policy" in found["warnings"][0]
    assert [(one["table"], one["needs_approval"]) for one in found["policies"]] == [
        ("[tool.refund]", True),
        ("[tool.look_up]", False),
    ]

    guarded = "@function_tool(needs_approval=ApprovalPolicy(quorum=2))\ndef refund"
    changed = DESK.replace("import Agent", "import Agent, ApprovalPolicy")
    changed = changed.replace("@function_tool\ndef refund", guarded)
    (tmp_path / "policy_guarded_module.py").write_text(changed, encoding="utf-8")
    arguments = (*arguments[:3], "policy_guarded_module", *arguments[4:])
    done = await cli(*arguments)
    assert done.exit_code == 2
    assert "when: " not in done.stderr
    assert "calls run without a person unless order_id == 'A-42'" in done.stderr
    assert "add loosens = true to [tool.refund]" in done.stderr
    loose = tmp_path / "loose.toml"
    loose.write_text(FILE.replace("quorum = 2", "quorum = 1\nloosens = true"), encoding="utf-8")
    done = await cli("policy", "check", str(loose), *arguments[3:])
    assert done.exit_code == 0
    assert "quorum: 1 instead of 2 have to approve" in " ".join(done.stdout.split())
    assert "warning: " in done.stderr
    tiers = (
        '\n[[tool.refund.tiers]]\nwhen = "order_id != \'A-1\'"\naudience = "leads"\nquorum = 3\n'
    )
    loose.write_text(f"{FILE}{tiers}", encoding="utf-8")
    done = await cli("policy", "check", str(loose), *arguments[3:])
    assert done.exit_code == 2
    loose.write_text(f"[tool.refund]\nloosens = true\nquorum = 2\n{tiers}", encoding="utf-8")
    done = await cli("policy", "check", str(loose), *arguments[3:])
    shown = " ".join(done.stdout.split())
    assert "tier 1 of [tool.refund] 3 of the group leads order_id != 'A-1'" in shown
    loose.write_text(f"{tiers.replace('3', '1')}[tool.refund]\nloosens = true", encoding="utf-8")
    done = await cli("policy", "check", str(loose), *arguments[3:], "--json")
    (entry,) = json.loads(done.stdout)["policies"]
    assert entry["loosens"] == ["tiers: where order_id != 'A-1': 1 instead of 2 have to approve"]
    assert entry["tiers"][0]["when"] == "order_id != 'A-1'"

    loose.write_text("""
[tool.refund]
audience = "billing"
expires_in = "8h"
on_expiry = "escalate"
escalate = [{ after = "4h", to = "leads" }, { after = "12h", to = "board" }]
loosens = true
[[tool.refund.tiers]]
when = "order_id == 'A-1'"
on_expiry = "fail"
escalate = []
""")
    for given in (arguments[3:], ()):
        done = await cli("policy", "check", str(loose), *given)
        assert done.exit_code == 0, done.stderr
        shown = " ".join(done.stdout.split())
        assert (
            "the group leads too after 4h, the group board too after 8h, rejected after 16h"
            in shown
        )
        assert "the question fails after 8h" in shown

    broken = tmp_path / "broken.toml"
    broken.write_text("[tool.refnd]\n[tool.refund]\nwhen = 'order > 5'\n", encoding="utf-8")
    done = await cli("policy", "check", str(broken), *arguments[3:])
    assert done.exit_code == 2
    assert "broken.toml:1:1: there is no tool 'refnd'. Did you mean 'refund'?" in done.stderr
    assert "broken.toml:3:1: agent 'Desk', tool 'refund': there is no argument" in done.stderr


async def test_a_mistake_is_an_exit_code(cli: Invoke, tmp_path: Path) -> None:
    place = tmp_path / "approvals.toml"
    done = await cli("policy", "check", str(place))
    assert done.exit_code == 2
    assert "cannot be read: No such file or directory" in done.stderr
    place.write_text("[tool.a]\nquorom = 2\n", encoding="utf-8")
    done = await cli("policy", "check", str(place))
    assert done.exit_code == 2
    assert "approvals.toml:2:1: unknown key 'quorom'. Did you mean 'quorum'?" in done.stderr
    place.write_text("", encoding="utf-8")
    done = await cli("policy", "try", str(place), "--since", "a week")
    assert done.exit_code == 2
    assert "'a week' is no time. Write a length" in done.stderr


@pytest.mark.smoke
async def test_a_file_is_tried_on_past_runs(
    cli: Invoke, client: Client, open_desk: Open, file: Path, run_id: str
) -> None:
    calls = [
        call("refund", "c1", order_id="A-42"),
        call("refund", "c2", order_id="A-17"),
        call("look_up", "c3", order_id="A-17"),
    ]
    queue = await open_desk(ScriptedModel(calls, "Done."))
    handle = await Runner.start("Helper", "Refund", id=run_id, client=client, task_queue=queue)
    await handle.wait(lambda state: state.status == "waiting")

    async with asyncio.timeout(20):  # visibility is a moment behind
        while True:
            done = await cli("policy", "try", str(file), "--since", "1h", "--json")
            assert done.exit_code == 0
            found: dict[str, Any] = json.loads(done.stdout)
            rows = {(one["agent"], one["name"]): one for one in found["tallies"]}
            if ("Helper", "look_up") in rows and rows["Helper", "refund"]["calls"] >= 2:
                break
    refunds = rows["Helper", "refund"]
    assert refunds["table"] == "[tool.refund]"
    assert 1 <= refunds["asked"] < refunds["calls"] == refunds["were_asked"]
    assert rows["Helper", "look_up"]["asked"] == 0
    assert found["runs"] >= 1

    done = await cli("policy", "try", str(file), "--limit", "1")
    assert done.exit_code == 0
    assert "1 runs, since 30d." in done.stderr
    assert "Limited to 1 runs" in done.stderr
    await handle.cancel()


# --- Calendars -------------------------------------------------------------------------------------

HOURS = """\
[calendar.support-hours]
zone = "Europe/Berlin"
hours = { mon-fri = "9:00-17:00" }

[tool.refund]
expires_in = "8h"
within = "support-hours"

[tool.look_up]
within = "support-hours"
"""


async def test_a_file_says_whose_hours_count(cli: Invoke, tmp_path: Path) -> None:
    place = tmp_path / "approvals.toml"
    place.write_text(HOURS, encoding="utf-8")
    done = await cli("policy", "check", str(place))
    assert done.exit_code == 0
    shown = " ".join(done.stdout.split())
    assert "rejected after 8h of support-hours" in shown
    assert "as in the code, within support-hours" in shown
    assert "calendars: support-hours (Europe/Berlin)" in done.stderr
    done = await cli("policy", "check", str(place), "--json")
    assert json.loads(done.stdout)["calendars"] == ["support-hours"]

    place.write_text(HOURS.replace("Europe/Berlin", "Europe/\\u001b[31mBonn"), encoding="utf-8")
    done = await cli("policy", "check", str(place))
    assert done.exit_code == 2
    assert ":2:1: zone: this process knows no time zone" in done.stderr
    assert "\x1b[31m" not in done.stderr


def clerk() -> Agent[Any]:
    """An agent whose refunds expire in hours of a calendar, and whose looks do not."""
    hours = Calendar("support-hours", zone="UTC", hours={"mon-sun": "0:00-24:00"})

    @function_tool(
        needs_approval=ApprovalPolicy(expires_in=8 * 3600, within=hours, unverified="allow")
    )
    def refund() -> str:
        """Refund."""
        return "paid"

    @function_tool(needs_approval=True)
    def look() -> str:
        """Look."""
        return "seen"

    return Agent[Any](name="Helper", tools=[refund, look])


async def test_open_requests_are_counted_anew(cli: Invoke, client: Client, open_desk: Open) -> None:
    agent = clerk()
    model = ScriptedModel([call("refund", "c1"), call("look", "c2")], "Done.")
    queue = await open_desk(model, agent)
    handle = await Runner.start(agent, "Refund it.", client=client, task_queue=queue)
    await handle.wait(lambda run: len(run.pending_approvals) == 2)

    done = await cli("policy", "apply", "--within", "nights", "--json")
    assert json.loads(done.stdout) == {"counted": [], "refused": [], "unread_runs": 0}

    async def is_counted() -> bool:  # visibility lags behind
        done = await cli("policy", "apply", "--json")
        assert done.exit_code == 0
        return {"run_id": handle.id, "requests": ["a1"]} in json.loads(done.stdout)["counted"]

    await true_in_the_end(is_counted)
    done = await cli("policy", "apply", "--within", "support-hours")
    assert "counted anew" in done.stderr
    done = await cli("policy", "apply", "--by", "mallory")
    assert "needs proof of who decides" in done.stderr
    state = await RunHandle(client, handle.id).state()
    assert state.approvals[0].terms.hours is not None
    shown = await cli("inbox", "show", handle.id, "a1")
    assert "its times count the hours of support-hours only" in " ".join(shown.stdout.split())
    await handle.cancel()
