"""Every act of a person has the same outcome and the same sentence, by whichever surface they come.

What is refused changes nothing, so all surfaces are asked about one run; what is taken has a run of
its own for each surface.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from html import unescape
from typing import Any, Final, get_args

import pytest
from typer.testing import CliRunner

from outlast.agents.approvals.policy import ApprovalPolicy, Audience
from outlast.agents.config.run_config import RunConfig
from outlast.agents.errors import AgentsException, RunClosed
from outlast.cli.app import app as command_line
from outlast.client.handle import RunHandle
from outlast.client.identity import os_user, person
from outlast.client.team_audit import read_team
from outlast.client.teams import Team, TeamView
from outlast.contract.identity import new_shared_key
from outlast.loop.actions import CaseDeed
from outlast.loop.approvals import ApprovalRequest, ApprovalTerms, VoteType
from outlast.loop.human_actions import HUMAN_ACTIONS
from outlast.serve.app import desk as desk_app
from outlast.serve.login import ThisMachine
from outlast.testing import ScriptedModel
from outlast.views.run import loop_state
from tests.workflow.desk import PATIENCE_SECONDS, Desk, waits_for
from tests.workflow.people import clerk, refunds
from tests.workflow.test_desk_api import opened

ME: Final = os_user()
"""Whoever runs the tests: the command line knows nobody else with a proof."""

ARGUMENTS: Final = {"order": "A-17", "euros": 6}


@dataclass(frozen=True)
class Seen:
    """What somebody acts on.

    Attributes:
        run: the run.
        request: its request as they saw it; None for acts on a conversation.
        http: their browser at the desk.
        command: runs a command of the command line; returns its exit code and output.
    """

    run: RunHandle
    request: ApprovalRequest
    http: Any
    command: Callable[..., Awaitable[tuple[int, str]]]


Python = Callable[[Seen], Awaitable[Any]]


@dataclass(frozen=True)
class Act:
    """One thing that a person can do, by each surface that offers it.

    Attributes:
        python: the call of `RunHandle`.
        api: the rest of the path, and the body.
        page: the rest of the path, and the fields of the form.
        line: the arguments of the command.
    """

    python: Python
    api: tuple[str, dict[str, Any]]
    page: tuple[str, dict[str, str]]
    line: tuple[str, ...]


def vote(kind: str, line: tuple[str, ...], python: Python, **fields: Any) -> Act:
    forms = {name: one if isinstance(one, str) else json.dumps(one) for name, one in fields.items()}
    if kind in {"edit", "respond"}:
        forms["step"] = "send"  # a first step shows what would be sent
    if kind == "respond":
        forms["text"] = forms.pop("response")
    return Act(python, ("decide", {"type": kind, **fields}), ("", {"deed": kind, **forms}), line)


def share(
    deed: str,
    line: tuple[str, ...],
    python: Python,
    body: dict[str, Any] | None = None,
    form: dict[str, str] | None = None,
) -> Act:
    fields = form or {"why": ""}  # browsers say that an empty form is a form
    return Act(python, (deed, body or {}), (deed, fields), ("case", deed, *line))


CASE_ACTS: Final[dict[str, Act]] = {
    "assign": share(
        "assign",
        ("--to", "bob", "--team", "billing"),
        lambda on: on.run.assign("bob", by=ME, team="billing"),
        {"to": "bob", "team": "billing"},
        {"assignee": "bob", "team": "billing"},
    ),
    "comment": share(
        "comment",
        ("Look, @cid.", "--comment-id", "desk-0123456789abcdef"),
        lambda on: on.run.comment("Look, @cid.", by=ME, comment_id="desk-0123456789abcdef"),
        {"text": "Look, @cid.", "comment_id": "desk-0123456789abcdef"},
        {"text": "Look, @cid.", "comment_id": "desk-0123456789abcdef"},
    ),
    "resolve": share("resolve", (), lambda on: on.run.resolve(by=ME)),
    "reopen": share("reopen", (), lambda on: on.run.reopen(by=ME)),
    "snooze": share(
        "snooze",
        ("1d",),
        lambda on: on.run.snooze(timedelta(days=1), by=ME),
        {"until": "1d"},
        {"until": "1d"},
    ),
    "tag": share(
        "tag",
        ("vip",),
        lambda on: on.run.tag("vip", by=ME),
        {"tags": ["vip"]},
        {"tag": "vip"},
    ),
    "link": share(
        "link",
        ("other-9",),
        lambda on: on.run.link("other-9", by=ME),
        {"conversations": ["other-9"]},
        {"conversation": "other-9"},
    ),
}
"""What colleagues do with a conversation, by the names of the deeds."""

ACTS: Final[dict[str, Act]] = {
    "approve": vote("approve", ("approve",), lambda on: on.run.approve(on.request, by=ME)),
    "reject": vote("reject", ("reject",), lambda on: on.run.reject(on.request, by=ME)),
    "edit": vote(
        "edit",
        ("inbox", "edit", "--arguments", json.dumps(ARGUMENTS)),
        lambda on: on.run.edit(on.request, ARGUMENTS, by=ME),
        arguments=ARGUMENTS,
    ),
    "respond": vote(
        "respond",
        ("inbox", "respond", "--response", '"No need."'),
        lambda on: on.run.respond(on.request, "No need.", by=ME),
        response="No need.",
    ),
    "ask back": vote(
        "ask_back",
        ("inbox", "ask", "--question", "Why?"),
        lambda on: on.run.ask_back(on.request, "Why?", by=ME),
        question="Why?",
    ),
    "withdraw": vote(
        "withdraw", ("inbox", "withdraw"), lambda on: on.run.withdraw_vote(on.request, by=ME)
    ),
    "claim": Act(
        lambda on: on.run.claim(on.request, by=ME),
        ("claim", {}),
        ("", {"deed": "claim"}),
        ("inbox", "claim"),
    ),
    "unclaim": Act(
        lambda on: on.run.unclaim(on.request, by=ME),
        ("unclaim", {}),
        ("", {"deed": "unclaim"}),
        ("inbox", "unclaim"),
    ),
    "hold": Act(lambda on: on.run.hold(by=ME), ("hold", {}), ("hold", {"mode": ""}), ("hold",)),
    "say": Act(
        lambda on: on.run.say("I am here.", by=ME),
        ("say", {"text": "I am here."}),
        ("say", {"text": "I am here."}),
        ("say", "I am here."),
    ),
    "release": Act(
        lambda on: on.run.release(by=ME), ("release", {}), ("release", {"note": ""}), ("release",)
    ),
    "set aside": Act(
        lambda on: on.run.set_aside(0, by=ME),
        ("set-aside", {"item": 0}),
        ("set-aside", {"item": "0"}),
        ("set-aside", "0"),
    ),
    **CASE_ACTS,
}
"""What people do. The names are those of votes and of actions, as the code lists them."""


OF_REQUESTS: Final = frozenset(list(ACTS)[:8])
DECISIONS: Final = ("approve", "reject", "edit", "respond", "ask back")


def test_the_table_has_every_act_of_the_code() -> None:
    named = {name.replace("ask back", "reject").replace("unclaim", "claim") for name in ACTS}
    # A decision is a vote, and what colleagues do with a case has names of its own. Times are counted
    # anew for all open requests at once on the command line: `outlast policy apply`.
    actions = {one.name.replace("_", " ") for one in HUMAN_ACTIONS} - {"decide", "case"}
    assert named == {*get_args(VoteType), *actions, *get_args(CaseDeed)} - {"recount"}


# --- The surfaces ------------------------------------------------------------------------------------

Answer = tuple[bool, str]
"""Whether the act was taken, and what the surface said."""


async def by_python(act: Act, on: Seen) -> Answer:
    try:
        return True, str(await act.python(on))
    except AgentsException as error:
        return False, str(error)


async def by_api(act: Act, on: Seen) -> Answer:
    path, body = act.api
    place = f"/api/conversations/{on.run.id}"
    if act.page[0] == "":
        place += f"/requests/{on.request.id}"
        body = {**body, **({"digest": on.request.digest} if path == "decide" else {})}
    answer = await on.http.post(f"{place}/{path}", json=body)
    return answer.is_success, answer.text if answer.is_success else answer.json()["error"][
        "message"
    ]


async def by_page(act: Act, on: Seen) -> Answer:
    path, fields = act.page
    place = f"/conversations/{on.run.id}"
    if not path:
        place += f"/requests/{on.request.id}"
        fields = {**fields, "digest": on.request.digest}
    answer = await on.http.post(f"{place}/{path}".rstrip("/"), data=fields)
    return answer.status_code in {200, 204, 303}, unescape(answer.text)


async def by_command_line(act: Act, on: Seen) -> Answer:
    verb = act.line[: 2 if act.line[0] in {"inbox", "case"} else 1]
    rest, place = act.line[len(verb) :], [on.run.id]
    if act.page[0] == "":
        place.append(on.request.id)
        rest = (*rest, *_consent(verb[-1], on.request))
    code, text = await on.command(*verb, *place, *rest)
    return code == 0, " ".join(text.split())


def _consent(verb: str, request: ApprovalRequest) -> tuple[str, ...]:
    takes = verb in {"approve", "reject", "edit", "respond"}
    return ("--yes", "--digest", request.digest) if takes else ()


SURFACES: Final[dict[str, Callable[[Act, Seen], Awaitable[Answer]]]] = {
    "python": by_python,
    "the API": by_api,
    "the page": by_page,
    "the command line": by_command_line,
}


# --- The runs ----------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch, desk: Desk) -> None:
    """Everybody proves who they are, and the command line finds the server."""
    monkeypatch.setenv("OUTLAST_IDENTITY_KEY", new_shared_key())
    monkeypatch.setenv("TEMPORAL_ADDRESS", desk.client.service_client.config.target_host)
    monkeypatch.setenv("TEMPORAL_NAMESPACE", desk.client.namespace)
    monkeypatch.setenv("COLUMNS", "1000")


ANYBODY: Final = Audience(subjects=[ME.subject, "bob"])
POLICY: Final = ApprovalPolicy(audience=ANYBODY)


@asynccontextmanager
async def asked(
    desk: Desk, policy: ApprovalPolicy = POLICY, takeover: ApprovalPolicy = POLICY, **options: Any
) -> AsyncGenerator[Seen]:
    """A run that waits for a decision, as this person sees it."""
    agent = clerk(policy)
    await desk.open(agent, model=ScriptedModel(refunds(5), "Refunded."))
    run = await desk.start(
        agent, keep_open=True, run_config=RunConfig(takeover=takeover), **options
    )
    await desk.until(run, waits_for(1))
    (request,) = await run.approvals()

    async def command(*arguments: str) -> tuple[int, str]:
        done = await asyncio.to_thread(CliRunner().invoke, command_line, arguments)
        return int(done.exit_code), done.output

    login = ThisMachine(replace(person(ME.subject), groups=ME.groups))
    application = desk_app(desk.client, agents=[agent], login=login, task_queue=desk.queue)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(asyncio.timeout(PATIENCE_SECONDS))
        http = await stack.enter_async_context(opened(application))
        yield Seen(run, request, http, command)
    with suppress(RunClosed):
        await run.cancel()


async def all_refuse(on: Seen, names: Iterable[str], sentence: str) -> None:
    """Check that each surface refuses acts with a sentence, and that none of them changes anything."""
    for name in names:
        await _all_refuse(on, name, sentence)


async def _all_refuse(on: Seen, name: str, sentence: str) -> None:
    before = loop_state(await on.run.state())
    for surface, ask in SURFACES.items():
        taken, said = await ask(ACTS[name], on)
        assert not taken, f"{name} by {surface}: {said}"
        assert sentence in said, f"{name} by {surface}: {said}"
    after = loop_state(await on.run.state())
    kept = ("approvals", "hold", "items", "phase", "calls", "case")
    assert [getattr(after, one) for one in kept] == [getattr(before, one) for one in kept], name


# --- What is refused ---------------------------------------------------------------------------------

ASKED: Final = "asked for this, so somebody else has to decide"


async def test_the_author_of_the_question(desk: Desk) -> None:
    policy = ApprovalPolicy(audience=replace(ANYBODY, exclude_requester=True))
    async with asked(desk, policy, author=ME.subject) as on:
        await all_refuse(on, DECISIONS, ASKED)


SAW: Final[dict[str, dict[str, Any]]] = {
    "the call of another tool": {"tool_digest": "0" * 64},
    "other arguments": {"arguments": '{"order": "A-17", "euros": 500}', "args_digest": "0" * 64},
    "another policy": {"terms": ApprovalTerms(quorum=2)},
}


async def test_somebody_who_saw_something_else(desk: Desk) -> None:
    names = [one for one in DECISIONS if one != "ask back"]
    async with asked(desk) as on:
        for seen in SAW.values():
            stale = replace(on, request=replace(on.request, **seen))
            await all_refuse(stale, names, "Look at it again and decide again.")


async def test_somebody_of_another_group(desk: Desk) -> None:
    others = ApprovalPolicy(audience="billing")
    names = [*DECISIONS, "claim", "hold", "set aside", *CASE_ACTS]
    async with asked(desk, others, others) as on:
        await all_refuse(on, names, "for the group billing")


async def test_somebody_while_a_colleague_has_the_conversation(desk: Desk) -> None:
    async with asked(desk) as on:
        await on.run.hold(by=person("bob"))
        await all_refuse(on, ["hold", "say", "release"], "bob has the conversation")


async def test_what_still_waits_for_an_answer_is_not_put_away(desk: Desk) -> None:
    async with asked(desk) as on:
        for name in ("resolve", "snooze"):
            await all_refuse(on, [name], f"you cannot {name} the conversation.")


async def test_somebody_who_has_not_taken_it(desk: Desk) -> None:
    async with asked(desk) as on:
        await all_refuse(on, ["say", "release"], "Nobody has the conversation. Hold it first.")


async def test_a_request_that_somebody_else_has_claimed(desk: Desk) -> None:
    async with asked(desk) as on:
        await on.run.claim(on.request, by=person("bob"))
        await all_refuse(on, [*DECISIONS, "claim"], "bob")


async def test_a_request_that_is_settled(desk: Desk) -> None:
    async with asked(desk) as on:
        await on.run.reject(on.request, by=person("bob"), message="No.")
        await desk.until_status(on.run, "idle")
        await all_refuse(on, [*DECISIONS, "claim"], "is already rejected by bob")


async def test_a_run_that_has_ended(desk: Desk) -> None:
    async with asked(desk) as on:
        await on.run.cancel()
        await desk.settled(on.run)
        names = sorted(set(ACTS) - {"withdraw", "unclaim"})
        await all_refuse(on, names, "has ended (cancelled). Start a new run")


# --- What is taken -----------------------------------------------------------------------------------

TAKEN: Final = {
    "approve": "Approved by {me}. The call runs.",
    "reject": "Rejected by {me}. The call does not run; the model reads why.",
    "edit": "Approved with changes by {me}. The call runs with the changed arguments.",
    "respond": "Answered by {me}. The call does not run; the model reads the answer as its output.",
}


@pytest.mark.parametrize("surface", [one for one in SURFACES if one != "python"])
@pytest.mark.parametrize("name", TAKEN)
async def test_a_decision_is_taken_and_said(desk: Desk, name: str, surface: str) -> None:
    async with asked(desk) as on:
        taken, said = await SURFACES[surface](ACTS[name], on)
        assert taken, said
        if surface == "the page":
            place = f"/conversations/{on.run.id}/requests/{on.request.id}?did=decided"
            said = unescape((await on.http.get(place)).text)
        assert TAKEN[name].format(me=ME.subject) in said
        await desk.until_status(on.run, "idle")


@pytest.mark.parametrize("surface", SURFACES)
async def test_what_colleagues_do_has_the_same_outcome_by_each_surface(
    desk: Desk, surface: str
) -> None:
    async with asked(desk) as on:
        await on.run.reject(on.request, by=person("bob"), message="No.")
        await desk.until_status(on.run, "idle")
        for name in ("assign", "comment", "tag", "link", "snooze", "reopen", "resolve"):
            for _ in range(2):  # a repeated act changes nothing
                taken, said = await SURFACES[surface](ACTS[name], on)
                assert taken, said
        case = (await on.run.state()).case
        comments = [(one.id, one.by, one.text) for one in case.comments]
        assert comments == [("desk-0123456789abcdef", ME.subject, "Look, @cid.")]
        assert (case.to, case.team, case.resolved_by) == ("bob", "billing", ME.subject)
        assert (case.tags, case.links) == (("@cid", "vip"), ("other-9",))
        assert case.snoozed_until_ms is None
        assert (await on.run.state()).status == "resolved"


# --- Teams -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TeamAct:
    """One thing that a person does with a team, by each surface.

    Attributes:
        python: the call of `Team`.
        api: the rest of the path, and the body.
        page: the fields of the form, which is sent to the same path.
        line: the verb and the options of the command.
    """

    python: Callable[[Team], Awaitable[TeamView]]
    api: tuple[str, dict[str, Any]]
    page: dict[str, str]
    line: tuple[str, ...]


TEAM_ACTS: Final[dict[str, TeamAct]] = {
    "go on duty": TeamAct(
        lambda team: team.on_duty(ME, capacity=2),
        ("duty", {"capacity": 2}),
        {"on_duty": "yes", "capacity": "2"},
        ("on", "--capacity", "2"),
    ),
    "leave duty": TeamAct(
        lambda team: team.off_duty(ME), ("duty", {"on_duty": False}), {"on_duty": "no"}, ("off",)
    ),
    "put somebody on duty": TeamAct(
        lambda team: team.on_duty("bob", by=ME),
        ("duty", {"person": "bob"}),
        {"on_duty": "yes", "person": "bob"},
        ("on", "bob"),
    ),
    "change a team": TeamAct(
        lambda team: team.assign_by(
            by=ME,
            rule="least_busy",
            capacity=3,
            return_after=timedelta(minutes=15),
            within="support-hours",
        ),
        (
            "rule",
            {
                "rule": "least_busy",
                "capacity": 3,
                "return_after": "15min",
                "within": "support-hours",
            },
        ),
        {
            "rule": "least_busy",
            "capacity": "3",
            "return_after": "15min",
            "within": "support-hours",
        },
        (
            *("rule", "least_busy", "--capacity", "3", "--return-after", "15min"),
            *("--within", "support-hours"),
        ),
    ),
    "count hours of no calendar": TeamAct(
        lambda team: team.on_duty(ME, until=timedelta(hours=1), within="nights"),
        ("duty", {"until": "1h", "within": "nights"}),
        {"on_duty": "yes", "until": "1h", "within": "nights"},
        ("on", "--until", "1h", "--within", "nights"),
    ),
    "return at once": TeamAct(
        lambda team: team.assign_by(by=ME, return_after=timedelta()),
        ("rule", {"return_after": "0s"}),
        {"rule": "round_robin", "return_after": "0s"},
        ("rule", "round_robin", "--return-after", "0s"),
    ),
}
"""What people do with teams; the last two are refused."""

TEAM_REFUSALS: Final = {
    "count hours of no calendar": "There is no calendar 'nights' here.",
    "return at once": "return_ms must be 1 or more, not 0",
}


async def team_by(surface: str, act: TeamAct, team: Team, on: Seen) -> Answer:
    """Do something with a team by one surface."""
    match surface:
        case "python":
            try:
                return True, str(await act.python(team))
            except AgentsException as error:
                return False, str(error)
        case "the API":
            rest, body = act.api
            answer = await on.http.post(f"/api/teams/{team.name}/{rest}", json=body)
            said = answer.text if answer.is_success else answer.json()["error"]["message"]
            return answer.is_success, said
        case "the page":
            address = f"/teams/{team.name}/{act.api[0]}"
            answer = await on.http.post(address, data=act.page)
            return answer.status_code == 303, unescape(answer.text)
        case _:
            code, text = await on.command("team", act.line[0], team.name, *act.line[1:])
            return code == 0, " ".join(text.split())


@pytest.mark.parametrize("name", TEAM_ACTS)
async def test_an_act_on_a_team_has_one_outcome_by_each_surface(desk: Desk, name: str) -> None:
    outcomes: dict[str, Any] = {}
    async with asked(desk) as on:
        for number, surface in enumerate(SURFACES):
            team = Team(desk.client, f"{on.run.id}-{number}", task_queue=desk.queue)
            await team.assign_by(by="lead")
            taken, said = await team_by(surface, TEAM_ACTS[name], team, on)
            assert taken is (name not in TEAM_REFUSALS), f"{surface}: {said}"
            assert TEAM_REFUSALS.get(name, "") in said, f"{surface}: {said}"
            handle = desk.client.get_workflow_handle(team._id)
            execution = (await handle.describe()).run_id
            audit = (await read_team(desk.client, team._id, execution)).found
            found = [(one.event, one.by, one.note) for one in audit]
            outcomes[surface] = {**(await team.view()).record(), "name": "", "audit": found}
            await handle.terminate()
    first = outcomes.pop("python")
    assert outcomes == dict.fromkeys(outcomes, first)
