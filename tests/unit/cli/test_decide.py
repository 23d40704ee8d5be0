"""Decisions and claims from the command line."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from outlast.agents.agent import Agent
from outlast.agents.approvals.budget import Budget
from outlast.agents.approvals.policy import ApprovalPolicy, Audience
from outlast.agents.config.run_config import RunConfig
from outlast.agents.errors import UserError
from outlast.agents.tools.function_tool import function_tool
from outlast.cli import editor, terminal
from outlast.cli.argument_changes import with_changes
from outlast.client.handle import RunHandle
from outlast.client.identity import os_user, person
from outlast.client.people.actions import DecisionReceipt
from outlast.client.start.runner import Runner
from outlast.client.transport import connection
from outlast.loop.approvals import ApprovalRequest, ApprovalTerms
from outlast.loop.approvals import Audience as Terms
from outlast.testing import ScriptedModel, call
from outlast.testing import say as said
from outlast.views.run import loop_state
from outlast.views.words import KEPT
from tests.unit.cli.conftest import Invoke, Open

REFUND = [call("refund", "c1", order_id="A-42")]
PAY = [call("pay", "c1", iban="DE02", amount=389)]


def payer(**policy: Any) -> Agent[Any]:
    """Return an agent whose payments wait for people under a policy."""

    @function_tool(
        name_override="pay", effect="irreversible", needs_approval=ApprovalPolicy(**policy)
    )
    def pay(iban: str, amount: int) -> str:
        """Pay money."""
        return f"{amount} EUR to {iban}"

    return Agent[Any](name="Payer", instructions="Pay.", tools=[pay])


async def waiting_run(client: Client, queue: str, run_id: str, agent: str = "Helper") -> RunHandle:
    handle = await Runner.start(agent, "Refund", id=run_id, client=client, task_queue=queue)
    await handle.wait(lambda state: state.status == "waiting")
    return handle


async def test_the_only_request_needs_no_name(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel(REFUND, "Refunded."))
    handle = await waiting_run(client, queue, run_id)

    done = await cli("approve", run_id, "--by", "ann")

    assert done.exit_code == 0
    assert done.stdout == "Approved by ann. The call runs.\n"
    assert done.stderr.endswith(f"See the run: `outlast show {run_id}`.\n")
    assert 'arguments  │ {"order_id": "A-42"}' in done.stderr
    state = (await handle.result(), await handle.state())[1]
    (request,) = state.approvals
    assert request.status == "approved"
    assert request.decision is not None
    assert request.decision.by == "ann"
    assert request.decision.args_digest == request.args_digest


async def test_a_vote_is_withdrawn_a_claim_handed_over_and_the_agent_asked(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    handle, model = await paying_run(client, open_desk, run_id, quorum=2, unverified="allow")
    me = os_user().subject

    early = await cli("inbox", "withdraw", run_id)
    await cli("approve", run_id)
    done = await cli("inbox", "withdraw", run_id)
    again = await cli("approve", run_id)
    shown = await cli("inbox", "show", run_id)
    await cli("inbox", "claim", run_id)
    handed = await cli("inbox", "claim", run_id, "--to", "bob")
    silent = await cli("inbox", "ask", run_id)
    claimed = await cli("inbox", "ask", run_id, "--question", "Whose IBAN?")
    await handle.unclaim("a1", by="bob")
    asked = await cli("inbox", "ask", run_id, "--question", "Whose IBAN?")

    assert f"{me} has no vote to withdraw." in early.stderr
    assert done.stdout == "Withdrawn. 0 of 2 votes.\n"
    assert again.stdout == "1 of 2 votes; waits for another person.\n"
    assert f"{me} (proven) withdrew their votes at 20" in shown.stdout
    assert handed.stdout.startswith("bob works on a1 until 20")
    assert [one.exit_code for one in (early, silent, claimed, asked)] == [5, 2, 5, 0]
    assert asked.stdout == "Asked. The call does not run now; Payer reads the question.\n"
    await handle.result()
    assert "and asks: Whose IBAN? Answer the question" in model.requests[-1].input[-1]["output"]


@pytest.mark.smoke
async def test_one_argument_is_changed_by_its_name(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    handle, _ = await paying_run(client, open_desk, run_id, redact=["iban"], unverified="allow")

    wrong = [
        await cli("inbox", "edit", run_id, "--set", change)
        for change in ("amount", "sum=3", "amount=much")
    ]
    both = await cli("inbox", "edit", run_id, "--set", "amount=3", "--arguments", "{}")
    done = await cli("inbox", "edit", run_id, "--set", "amount=350")

    assert [one.exit_code for one in (*wrong, both)] == [2, 2, 5, 2]
    assert "must be NAME=VALUE" in wrong[0].stderr
    assert "pay has no argument 'sum', only iban, amount." in wrong[1].stderr
    assert "the edited arguments do not fit" in wrong[2].stderr
    assert '"iban": "[redacted]"' in done.stderr, "what is hidden stays"
    assert done.stdout.startswith("Approved with changes by ")
    result = await handle.result()
    (output,) = [one for one in result.new_items if one.type == "tool_call_output_item"]
    assert str(output.output).endswith("350 EUR to DE02")


def test_a_change_is_json_or_a_text_as_the_schema_says() -> None:
    schema = {"properties": {"text": {"type": "string"}, "n": {"type": "number"}, "list": {}}}
    request = asked_for('{"text": "a", "n": 1}', schema=schema)
    changes = ["text=350", "n=2.5", 'list=["b"]']
    assert with_changes(request, changes) == {"text": "350", "n": 2.5, "list": ["b"]}
    assert with_changes(request, ["text="]) == {"text": "", "n": 1}


def test_money_of_a_budget_is_given_in_dollars() -> None:
    spent = '{"of": "cost_micros", "per": "run", "limit": 5, "spent": 6, "extend_by": 5}'
    request = asked_for(spent, kind="budget")
    assert with_changes(request, ["extend_by=0.50usd"])["extend_by"] == 500_000
    assert with_changes(request, ["extend_by=$1.5"])["extend_by"] == 1_500_000
    assert with_changes(request, ["extend_by=7"])["extend_by"] == 7
    with pytest.raises(UserError, match="an amount such as"):
        with_changes(request, ["extend_by=lots"])


def asked_for(arguments: str, **fields: Any) -> ApprovalRequest:
    return ApprovalRequest(
        id="a1",
        call_id="c1",
        name="pay",
        agent="Payer",
        arguments=arguments,
        args_digest="d",
        requested_at_ms=1,
        **fields,
    )


async def test_a_person_is_asked_first(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    handle = await waiting_run(client, await open_desk(ScriptedModel(REFUND, "Done.")), run_id)

    for answer in ("n\n", "\n", "", "approve\n"):
        done = await cli("approve", run_id, input=answer)
        assert (done.exit_code, done.stdout) == (1, "")
        assert done.stderr.endswith("Approve it? [y/N] Nothing was decided.\n")
    edited = await cli("inbox", "edit", run_id, "--arguments", '{"order_id": "B"}', input="n\n")
    assert '  instead    │ {"order_id": "B"}\n' in edited.stderr

    assert (await handle.state()).approvals[0].votes == ()
    assert (await cli("approve", run_id, input="yes\n")).exit_code == 0


async def test_a_script_decides_only_for_the_arguments_that_somebody_has_seen(
    cli: Invoke,
    client: Client,
    open_desk: Open,
    run_id: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handle = await waiting_run(client, await open_desk(ScriptedModel(REFUND, "Done.")), run_id)
    monkeypatch.setattr(terminal, "is_attended", lambda: False)
    (request,) = await handle.approvals()
    seen = request.digest[:16]

    unseen = await cli("approve", run_id, "--yes")
    vague = await cli("approve", run_id, "--yes", "--digest", seen[:5])
    alone = await cli("approve", run_id, "a1", "--digest", seen)
    other = await cli("approve", run_id, "--yes", "--digest", "0" * 16)
    done = await cli("approve", run_id, "--yes", "--digest", seen)

    assert [one.exit_code for one in (unseen, vague, alone, other, done)] == [2, 2, 2, 5, 0]
    assert "so name what you have seen" in unseen.stderr
    assert "write at least 12 of the digest" in vague.stderr
    assert f"`outlast approve {run_id} a1 --digest {seen} --yes`" in alone.stderr
    assert "a1 is no longer what you have seen" in other.stderr


async def test_what_is_too_long_to_be_seen_is_not_asked_about(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    long = [call("refund", "c1", order_id="A" * 20_000)]
    handle = await waiting_run(client, await open_desk(ScriptedModel(long, "Done.")), run_id)

    done = await cli("approve", run_id)

    assert done.exit_code == 2
    assert f"Read all of them with `outlast inbox show {run_id} a1 --json`" in done.stderr
    assert (await handle.state()).approvals[0].votes == ()


@pytest.mark.smoke
async def test_a_rejection_tells_the_model_why(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    model = ScriptedModel(REFUND, "We repair it.")
    handle = await waiting_run(client, await open_desk(model), run_id)

    done = await cli("reject", run_id, "a1", "--message", "Offer a repair.", "--json")

    assert json.loads(done.stdout) == {
        "run_id": run_id,
        "approval": "a1",
        "status": "rejected",
        "votes": 1,
        "votes_needed": 1,
        "is_kept": False,
        "is_queued": False,
        "by": os_user().subject,
        "tool": "refund",
        "arguments": '{"order_id": "A-42"}',
    }
    await handle.result()
    assert model.requests[-1].input[-1]["output"] == "Offer a repair."


async def test_of_several_requests_one_has_to_be_named(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    two = [*REFUND, call("refund", "c2", order_id="A-17")]
    handle = await waiting_run(client, await open_desk(ScriptedModel(two, "Done.")), run_id)

    unnamed = await cli("approve", run_id)
    unknown = await cli("approve", run_id, "a9")
    named = await cli("approve", run_id, "a2")

    assert unnamed.exit_code == 2
    assert (
        f"waits for 2 approvals: a1, a2. Name one: `outlast approve {run_id} a1`" in unnamed.stderr
    )
    assert unknown.exit_code == 5
    assert "has no approval 'a9'. Pending: a1, a2." in unknown.stderr
    assert named.exit_code == 0
    assert [request.id for request in await handle.approvals()] == ["a1"]
    await handle.cancel()


async def test_a_run_that_waits_for_nothing_says_so(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel("Hi."))
    await Runner.run("Helper", "Hi", id=run_id, client=client, task_queue=queue)

    nothing = await cli("approve", run_id)
    nobody = await cli("approve", "never-was")

    assert nothing.exit_code == 5
    assert "waits for no approval: it is completed" in nothing.stderr
    assert nobody.exit_code == 4


# --- Other decisions ------------------------------------------------------------------------------


def saved(file: Path, text: str) -> Path:
    file.write_text(text)
    return file


async def paying_run(
    client: Client, open_desk: Open, run_id: str, *script: Any, **policy: Any
) -> tuple[RunHandle, ScriptedModel]:
    model = ScriptedModel(*(script or (PAY, "Paid.")))
    queue = await open_desk(model, payer(**policy))
    return await waiting_run(client, queue, run_id, "Payer"), model


@pytest.mark.smoke
async def test_a_person_edits_the_arguments_and_redacted_values_stay(
    cli: Invoke, client: Client, open_desk: Open, run_id: str, tmp_path: Path
) -> None:
    handle, model = await paying_run(client, open_desk, run_id, redact=["iban"], unverified="allow")
    file = saved(tmp_path / "arguments.json", '{"iban": "[redacted]", "amount": 350}')

    done = await cli("inbox", "edit", run_id, "--arguments", f"@{file}", "--by", "ann")

    assert done.exit_code == 0
    assert done.stdout == (
        "Approved with changes by ann. The call runs with the changed arguments.\n"
    )
    assert '"iban": "[redacted]"' in done.stderr
    assert "  effect     irreversible\n" in done.stderr
    await handle.result()
    assert "350 EUR to DE02" in model.requests[-1].input[-1]["output"]


async def test_arguments_that_are_not_json_are_found_before_anything_is_sent(
    cli: Invoke, nowhere: Path
) -> None:
    async def edit(arguments: str) -> str:
        done = await cli("inbox", "edit", "r1", "--arguments", arguments)
        assert done.exit_code == 2
        assert done.stdout == ""
        return done.stderr

    assert (await edit('{"a": 1,\n "b" 2}')).endswith(
        "--arguments is not JSON: line 2, column 6: Expecting ':' delimiter.\n"
    )
    assert 'the key "a" is repeated' in await edit('{"a": 1, "a": 2}')
    assert "NaN is not a number of JSON" in await edit('{"a": NaN}')
    assert "must be a JSON object with all arguments" in await edit("[1]")
    assert "@none.json' cannot be read: " in await edit("@none.json")
    done = await cli("inbox", "edit", "r1")
    assert done.exit_code == 2
    assert "Write the arguments: --set amount=350, or --arguments" in done.stderr
    piped = await cli("inbox", "edit", "r1", "--arguments", "@-", input="{1}")
    assert "'@-' is not JSON: line 1, column 2" in piped.stderr


async def test_a_person_answers_in_place_of_a_call(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    handle, model = await paying_run(client, open_desk, run_id)

    neither = await cli("inbox", "respond", run_id)
    both = await cli("inbox", "respond", run_id, "--text", "x", "--response", "1")
    done = await cli("inbox", "respond", run_id, "--text", "It is paid already.", "--json")

    assert (neither.exit_code, both.exit_code) == (2, 2)
    assert json.loads(done.stdout)["status"] == "responded"
    await handle.result()
    assert model.requests[-1].input[-1]["output"] == "It is paid already."


async def test_an_answer_may_be_json_of_a_schema(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    schema = {"type": "object", "properties": {"paid": {"type": "boolean"}}, "required": ["paid"]}
    handle, model = await paying_run(
        client, open_desk, run_id, allow=["respond"], response_schema=schema
    )

    other = await cli("inbox", "respond", run_id, "--text", "Yes.")
    wrong = await cli("approve", run_id)
    done = await cli("inbox", "respond", run_id, "--response", '{"paid": true}')

    assert other.exit_code == wrong.exit_code == 5
    assert "the response does not fit" in other.stderr
    assert "cannot be decided with 'approve', only with respond" in wrong.stderr
    me = os_user().subject
    assert done.stdout == (
        f"Answered by {me}. The call does not run; the model reads the answer as its output.\n"
    )
    await handle.result()
    assert json.loads(model.requests[-1].input[-1]["output"]) == {"paid": True}


@pytest.mark.smoke
async def test_a_vote_says_who_else_has_to_agree(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    group = os_user().groups[0]
    handle, _ = await paying_run(
        client, open_desk, run_id, audience=Audience(groups=[group]), quorum=2, unverified="allow"
    )

    voted = await cli("approve", run_id)
    again = await cli("approve", run_id)
    shown = await cli("inbox", "show", run_id)
    other = await cli("approve", run_id, "--by", "eve")

    me = os_user().subject
    assert voted.stdout == f"1 of 2 votes; waits for another person of {group}.\n"
    assert again.stdout == voted.stdout, "a repeated decision is the same decision"
    assert other.exit_code == 5
    assert "  votes      1 of 2, each by another person\n" in shown.stdout
    assert f"{me} (proven) approved at 20" in shown.stdout
    assert f"eve may not do this. It is for the group {group}." in other.stderr
    bob = person("bob", groups=[group])
    assert (await handle.approve("a1", by=bob)).status == "approved"
    await handle.result()


async def test_a_decision_may_hold_for_further_calls(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    handle, model = await paying_run(
        client, open_desk, run_id, PAY, [call("pay", "c2", iban="X", amount=1)], "Paid."
    )

    alone = await cli("approve", run_id, "--until", "run")
    done = await cli("inbox", "approve", run_id, "--remember", "tool", "--until", "run")

    assert alone.exit_code == 2
    me = os_user().subject
    assert done.stdout == (
        f"Approved by {me}. The call runs. It also holds for further calls of pay by Payer, "
        "for this question.\n"
    )
    assert (await handle.result()).final_output == "Paid."
    assert "1 EUR to X" in model.requests[-1].input[-1]["output"]


@pytest.mark.smoke
async def test_a_request_is_claimed_and_given_back(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    handle, _ = await paying_run(client, open_desk, run_id, unverified="allow")
    me = os_user().subject

    claimed = await cli("inbox", "claim", run_id, "--minutes", "10")
    shown = await cli("inbox", "show", run_id, "a1")
    other = await cli("inbox", "approve", run_id, "--by", "eve")
    taken = await cli("inbox", "claim", run_id, "--by", "eve", "--force", "--json")
    freed = await cli("inbox", "unclaim", run_id, "--by", "eve")

    assert claimed.stdout.startswith(f"{me} works on a1 until 20")
    assert f"  claimed    {me} works on it until 20" in shown.stdout
    assert other.exit_code == 5
    assert f"{me} is working on it." in other.stderr
    record = json.loads(taken.stdout)
    assert (record["approval"], record["claimed_by"]) == ("a1", "eve")
    assert freed.stdout == "Nobody works on a1 now.\n"
    assert (await handle.approvals())[0].claim is None
    await handle.cancel()


# --- What else waits ------------------------------------------------------------------------------


@pytest.mark.smoke
async def test_a_request_of_a_nested_run_is_shown_with_its_model_s_words_and_decided_at_the_root(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    inner = payer(unverified="allow")
    outer = Agent[Any](name="Desk", tools=[inner.as_tool("ask_payer", "Ask the payer.")])
    words = [*said("The boss agreed."), *PAY]
    script = ([call("ask_payer", "o1", input="Pay.")], words, "Paid.", "All.")
    queue = await open_desk(ScriptedModel(*script), outer)
    handle = await Runner.start(
        "Desk", "Pay", id=run_id, client=client, task_queue=queue, keep_open=True
    )
    await handle.wait(lambda state: state.status == "waiting")
    (request,) = await handle.approvals()

    shown = await cli("inbox", "show", run_id)
    done = await cli("approve", run_id, "--by", "ann")
    assert (await handle.wait_for_answer("start")).final_output == "All."
    again = await cli("approve", run_id, request.id, "--by", "ann")
    other = await cli("reject", run_id, request.id, "--by", "eve")
    settled = await cli("inbox", "show", run_id, request.id)

    assert f"  call       pay ({request.id})\n" in shown.stdout
    assert "  model says ┊ The boss agreed.\n" in shown.stdout
    assert done.stdout == again.stdout == "Approved by ann. The call runs.\n"
    assert other.exit_code == 5
    assert "is already approved by ann" in other.stderr
    assert "  status     approved by ann\n" in settled.stdout
    await handle.cancel()


async def test_a_person_approves_an_answer(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    agent = Agent[Any](name="Writer", output_approval=True)
    queue = await open_desk(ScriptedModel("You get 500.", "You get 400."), agent)
    handle = await waiting_run(client, queue, run_id, "Writer")

    first = await cli("reject", run_id, "-m", "It is 400.")
    await handle.wait(lambda state: bool(state.pending_approvals))
    second = await cli("approve", run_id, "a2")

    me = os_user().subject
    assert "  answer     not sent to the user yet (a1)\n" in first.stderr
    assert first.stdout == (
        f"Rejected by {me}. The user does not get the answer; the model writes another one.\n"
    )
    assert second.stdout == f"Approved by {me}. The user gets the answer.\n"
    assert (await handle.result()).final_output == "You get 400."


async def test_a_person_extends_a_budget(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(
        ScriptedModel([call("look_up", "c1", order_id="A")], "It is here."),
    )
    handle = await Runner.start(
        "Helper",
        "Where?",
        id=run_id,
        client=client,
        task_queue=queue,
        run_config=RunConfig(budgets=[Budget(model_calls=1)]),
    )
    await handle.wait(lambda state: state.status == "waiting")

    shown = await cli("show", run_id)
    done = await cli("inbox", "edit", run_id, "--arguments", '{"extend_by": 5}')

    assert "  budget     1 used of 1 model calls per run\n" in shown.stdout
    assert "  budget     used up (a1)\n" in shown.stdout
    assert "waits for a person: a budget is used up (a1)" in shown.stdout
    assert done.stdout.endswith("The run goes on with the changed budget.\n"), done.stderr
    assert (await handle.result()).final_output == "It is here."
    after = await cli("show", run_id)
    assert "  budget     2 used of 6 model calls per run, 5 of them added by people" in after.stdout


@pytest.mark.parametrize(
    ("subjects", "groups", "votes", "words"),
    [
        ((), (), 1, "1 of 3 votes; waits for 2 other people."),
        (
            (),
            ("billing", "leads"),
            2,
            "2 of 3 votes; waits for another person of billing or leads.",
        ),
        (("bob",), (), 2, "2 of 3 votes; waits for another person: bob."),
        (
            ("bob",),
            ("billing",),
            1,
            "1 of 3 votes; waits for 2 other people: bob or somebody of billing.",
        ),
    ],
)
def test_a_vote_names_those_who_may_agree(
    subjects: tuple[str, ...], groups: tuple[str, ...], votes: int, words: str
) -> None:
    request = ApprovalRequest(
        id="a1",
        call_id="c1",
        name="pay",
        agent="Payer",
        arguments="{}",
        args_digest="d",
        requested_at_ms=1,
        terms=ApprovalTerms(audience=Terms(subjects=subjects, groups=groups), quorum=3),
    )
    receipt = DecisionReceipt(
        run_id="r", request_id="a1", status="pending", votes=votes, votes_needed=3
    )
    assert receipt.words(request) == words


def test_a_decision_without_a_worker_is_said_to_be_kept() -> None:
    request = ApprovalRequest(
        id="a1",
        call_id="c1",
        name="pay",
        agent="Payer",
        arguments="{}",
        args_digest="d",
        requested_at_ms=1,
    )
    receipt = DecisionReceipt(
        run_id="r", request_id="a1", status="pending", votes=0, votes_needed=1, is_kept=True
    )
    assert receipt.words(request) == KEPT


# --- The editor -----------------------------------------------------------------------------------

EDITOR = """
import json, pathlib, sys
file = pathlib.Path(sys.argv[-1])
steps = pathlib.Path(sys.argv[1])
seen = file.read_text()
left = json.loads(steps.read_text())
steps.write_text(json.dumps([*left[1:], seen]))
if left[0] is not None:
    file.write_text(seen.replace(*left[0]))
"""


class Steps:
    """What an editor replaces each time it opens; None to leave the text. Keeps what it saw."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def plan(self, *changes: tuple[str, str] | None) -> None:
        self._file.write_text(json.dumps(changes))

    def left(self) -> list[Any]:
        return json.loads(self._file.read_text())


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Steps:
    """The editor of the person at the terminal."""
    script, file = tmp_path / "edit.py", tmp_path / "steps.json"
    script.write_text(EDITOR)
    monkeypatch.setenv("EDITOR", f"{sys.executable} {script} {file}")
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setattr(editor, "is_interactive", lambda: True)
    return Steps(file)


@pytest.mark.smoke
async def test_a_person_edits_in_an_editor_until_the_arguments_fit(
    cli: Invoke, client: Client, open_desk: Open, run_id: str, steps: Steps
) -> None:
    handle, model = await paying_run(client, open_desk, run_id)
    steps.plan(("389", '"all'), ('"all', '"all"'), ('"all"', "350"))

    done = await cli("inbox", "edit", run_id)

    assert done.exit_code == 0, done.stderr
    first, second, third = steps.left()
    assert first.splitlines() == [
        "# Change the arguments, save, and close the editor.",
        "# iban (string, required)",
        "# amount (integer, required)",
        "{",
        '  "iban": "DE02",',
        '  "amount": 389',
        "}",
    ]
    assert second.startswith(
        "# The text is not JSON: line 6, column 17: Invalid control character.\n"
    )
    assert "the edited arguments do not fit. amount must be of type integer." in third
    await handle.result()
    assert "350 EUR to DE02" in model.requests[-1].input[-1]["output"]


async def test_nothing_is_sent_where_nothing_was_changed(
    cli: Invoke, client: Client, open_desk: Open, run_id: str, steps: Steps
) -> None:
    handle, _ = await paying_run(client, open_desk, run_id)

    steps.plan(None)
    same = await cli("inbox", "edit", run_id)
    steps.plan(("389", "389 "))
    spaces = await cli("inbox", "edit", run_id)
    steps.plan(("389", "}"), None)
    given_up = await cli("inbox", "edit", run_id)

    assert same.exit_code == spaces.exit_code == given_up.exit_code == 2
    assert "The arguments are unchanged, so nothing was sent." in same.stderr
    assert "The arguments are unchanged, so nothing was sent." in spaces.stderr
    assert "The text is not JSON: line 6, column 13" in given_up.stderr
    assert [one.id for one in await handle.approvals()] == ["a1"]
    await handle.cancel()


async def test_an_editor_that_fails_or_is_none_sends_nothing(
    cli: Invoke,
    client: Client,
    open_desk: Open,
    run_id: str,
    steps: Steps,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handle, _ = await paying_run(client, open_desk, run_id)
    found: list[str] = []
    for name in ("false", "/none/such", "'unbalanced"):
        monkeypatch.setenv("VISUAL", name)
        done = await cli("inbox", "edit", run_id)
        assert done.exit_code == 2
        found.append(done.stderr)
    monkeypatch.delenv("VISUAL")
    monkeypatch.delenv("EDITOR")
    monkeypatch.setenv("PATH", os.devnull)
    found.append((await cli("inbox", "edit", run_id)).stderr)

    assert "The editor 'false' failed" in found[0]
    assert "The editor '/none/such' cannot be started" in found[1]
    assert "is no command: No closing quotation" in found[2]
    assert "There is no editor. Set EDITOR" in found[3]
    await handle.cancel()


async def test_no_editor_opens_for_a_person_who_may_not_decide(
    cli: Invoke,
    client: Client,
    open_desk: Open,
    run_id: str,
    steps: Steps,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handle, _ = await paying_run(
        client, open_desk, run_id, audience=Audience(groups=["nobody-is-in-it"])
    )
    steps.plan(None)

    done = await cli("inbox", "edit", run_id)

    assert done.exit_code == 5
    assert "may not do this. It is for the group nobody-is-in-it." in done.stderr
    assert "outlast dev TARGET --as NAME --groups nobody-is-in-it" in done.stderr
    assert steps.left() == [None]

    def elsewhere(_client: object) -> None:
        """The server is somebody else's."""

    monkeypatch.setattr(connection, "own_server_of", elsewhere)
    assert "outlast dev" not in (await cli("inbox", "edit", run_id)).stderr
    await handle.cancel()


# --- Cancelling -----------------------------------------------------------------------------------


async def test_a_conversation_is_completed_after_its_turn(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel("Hi."))
    handle = await Runner.start(
        "Helper", "Hi", id=run_id, client=client, task_queue=queue, keep_open=True
    )
    await handle.wait(lambda state: loop_state(state).phase == "idle")

    done = await cli("cancel", run_id, "--after-turn")

    assert done.stdout == f"Asked {run_id} to stop after its turn.\n"
    assert (await handle.result()).status == "completed"
    assert (await cli("cancel", run_id)).exit_code == 4
