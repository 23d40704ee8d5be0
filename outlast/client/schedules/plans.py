"""What the firings of a schedule do, checked and written as Temporal's schedule."""

import hashlib
import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, TypeAlias, cast

from temporalio import client as temporal
from temporalio.client import Client, ScheduleOverlapPolicy

from outlast.agents.agent import Agent
from outlast.agents.errors import UserError
from outlast.agents.references import RunReferences
from outlast.client.results.local_definitions import RemoteAgent
from outlast.client.schedules.times import Times
from outlast.client.start.options import (
    StartOptions,
    authors_of,
    check_place,
    run_input,
    start_options,
)
from outlast.client.start.runner import priority_of, run_summary
from outlast.client.start.same_run import start_digest
from outlast.client.start.tenant import Tenant, as_tenant
from outlast.client.transport.content import with_content_stored
from outlast.client.transport.messages import check_choice, check_input
from outlast.contract import names, records
from outlast.edges.clock import now_ms
from outlast.edges.rendering import cut, engine_summary
from outlast.loop.items import SendMode
from outlast.loop.values import JsonObject
from outlast.ports.session import is_open, open_session
from outlast.temporal.payloads.attributes import first_attributes, listed_customer

Overlap: TypeAlias = Literal[
    "skip", "buffer_one", "buffer_all", "cancel_other", "terminate_other", "allow_all"
]
"""What a firing does while the run of the firing before it is open."""

LONGEST_ID: Final = 200
LONGEST_TEXT: Final = 200
LONGEST_NOTE: Final = 1_000
_WAITS: Final = frozenset({"skip", "buffer_one", "buffer_all"})


class ScheduleOptions(StartOptions, total=False):
    """The options of `Schedules.create`, besides those with which a run starts.

    Attributes:
        agent: the agent, or its name.
        to: the id of the conversation that gets the message.
        keep_open: each run stays open after its answer. A conversation that a message starts does
            in any case.
        stream: stream all model calls; of a message, those of its answer.
        mode: when a busy conversation takes the message, as for `RunHandle.send`.
        tenant: whose runs they are, as for `Runner.start`.
        overlap: what happens while the run of the firing before is open; default: `skip`.
        catch_up: how late a time still counts after the server was down; default: a year. The
            server's least is ten seconds.
        pause_on_failure: pause after a run that failed.
        paused: do not fire until `resume`.
        note: a note for people.
    """

    agent: "Agent[Any] | RemoteAgent | str | None"
    to: str | None
    keep_open: bool
    stream: bool
    mode: SendMode
    tenant: Tenant | str | None
    overlap: Overlap
    catch_up: timedelta | None
    pause_on_failure: bool
    paused: bool
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What each firing of a schedule does.

    Attributes:
        id: the schedule's id.
        run: the run that it starts, or the start of the conversation; None if it starts none.
        scheduled: the message that it sends; None if it starts a run.
        digest: tells whether another start means the same run.
        text: the beginning of the message.
        tenant: whose run it is.
        customer: what the run's customer is listed as; empty for none.
    """

    id: str
    run: records.RunInput | None
    scheduled: records.ScheduledRecord | None
    digest: str
    text: str
    tenant: Tenant | None
    customer: str = ""

    @property
    def agent(self) -> str:
        """The agent's name; empty without one."""
        return "" if self.run is None else self.run.agent

    @property
    def to(self) -> str:
        """The conversation that gets the message; empty without one."""
        return "" if self.scheduled is None else self.scheduled.run_id

    @property
    def workflow(self) -> str:
        """The type of the workflow that a firing starts."""
        return names.WORKFLOW if self.scheduled is None else names.WORKFLOW_SCHEDULED

    @property
    def workflow_id(self) -> str:
        """The beginning of the id, to which the server adds the scheduled time."""
        return self.id if self.scheduled is None else f"scheduled-{self.id}"

    @property
    def summary(self) -> str:
        """One line for the Temporal UI."""
        if self.scheduled is None and self.run is not None:
            return run_summary(self.run)
        return engine_summary("To ", self.to, ": ", self.text)

    def payload(self, *, visibility: bool) -> JsonObject:
        """Return the input of the workflow."""
        run = None if self.run is None else replace(self.run, visibility=visibility)
        if self.scheduled is None:
            return records.write(run)
        start = None if run is None else replace(run, input="")
        return records.write(replace(self.scheduled, start=start))

    def memo(self, times: Times, digest: str) -> JsonObject:
        """Return the schedule's own memo, for lists."""
        return {
            names.MEMO_SCHEDULE: {
                "agent": self.agent,
                "to": self.to,
                "text": self.text,
                "when": times.words(),
                "digest": digest,
            }
        }

    def action(
        self, task_queue: str, *, visibility: bool, owners: bool = True
    ) -> temporal.ScheduleActionStartWorkflow:
        """Return Temporal's action, with search attributes or without."""
        action = temporal.ScheduleActionStartWorkflow(
            self.workflow,
            self.payload(visibility=visibility),
            id=self.workflow_id,
            task_queue=task_queue,
            static_summary=self.summary,
            memo={names.MEMO_INPUT_DIGEST: self.digest} if self.scheduled is None else None,
            priority=priority_of(self.tenant),
        )
        if visibility and self.scheduled is None:
            tenant = self.tenant.name if self.tenant is not None else ""
            whose = (tenant, self.customer) if owners else ()
            action.typed_search_attributes = first_attributes(self.agent, *whose)
        return action


async def plan_of(
    client: Client, id: str, input: str | list[JsonObject], options: ScheduleOptions
) -> Plan:
    """Return what the firings do, with large content in the client's store."""
    content, agent, tenant = (
        check_input(input),
        options.get("agent"),
        as_tenant(options.get("tenant")),
    )
    run: records.RunInput | None = None
    digest = ""
    text = cut(content if isinstance(content, str) else f"{len(content)} items", LONGEST_TEXT)
    if agent is not None:
        run, digest = await _run(client, agent, content, tenant, options)
        content = run.input
    else:
        message = records.SendRecord(input=content, message_id=id)
        content = (await with_content_stored(client, message)).input
    to = options.get("to")
    scheduled = (
        None
        if to is None
        else records.ScheduledRecord(
            run_id=to,
            input=content,
            mode=options.get("mode", "steer"),
            stream=options.get("stream", False),
            author="".join(authors_of(options.get("author"))),
            digest=digest,
        )
    )
    customer = "" if run is None else listed_customer(client, run)
    return Plan(
        id=id,
        run=run,
        scheduled=scheduled,
        digest=digest,
        text=text,
        tenant=tenant,
        customer=customer,
    )


async def _run(
    client: Client,
    agent: "Agent[Any] | RemoteAgent | str",
    content: str | list[JsonObject],
    tenant: Tenant | None,
    options: ScheduleOptions,
) -> tuple[records.RunInput, str]:
    """Return the input of the runs, and what tells whether another start means the same."""
    session, is_message = options.get("session"), options.get("to") is not None
    is_new_session = not is_open(session)
    await open_session(session)
    references = RunReferences()
    run = run_input(
        agent,
        content,
        references=references,
        keep_open=options.get("keep_open", False) or is_message,
        stream=options.get("stream", False) and not is_message,
        **start_options(cast("Any", options)),
    )
    if own := references.own_names:
        raise UserError(
            f"The schedule's runs start without this program, and {own[0]} is an object that only "
            "this program has. Define it at the top of a module, or pass its name and give it to "
            "the workers: references={'my_name': my_object}."
        )
    digest = start_digest(run, tenant, is_new_session=is_new_session)
    return await with_content_stored(client, run), digest


def schedule_of(
    action: temporal.ScheduleActionStartWorkflow, times: Times, options: ScheduleOptions
) -> temporal.Schedule:
    """Return Temporal's schedule."""
    is_once = times.once() is not None
    return temporal.Schedule(
        action=action,
        spec=times.spec(),
        policy=temporal.SchedulePolicy(
            overlap=ScheduleOverlapPolicy[options.get("overlap", "skip").upper()],
            catchup_window=options.get("catch_up"),
            pause_on_failure=options.get("pause_on_failure", False),
        ),
        state=temporal.ScheduleState(
            note=options.get("note") or None,
            paused=options.get("paused", False),
            limited_actions=is_once,
            remaining_actions=1 if is_once else 0,
        ),
    )


def digest_of(plan: Plan, task_queue: str, times: Times, options: ScheduleOptions) -> str:
    """Return what tells whether another call creates the same schedule."""
    # Whoever creates it, it is the same schedule.
    run = None if plan.run is None else replace(plan.run, authors=())
    scheduled = None if plan.scheduled is None else replace(plan.scheduled, author="")
    payload = replace(plan, run=run, scheduled=scheduled).payload(visibility=False)
    what = [plan.workflow, payload, task_queue, repr(plan.tenant)]
    policy = [
        str(options.get(name)) for name in ("overlap", "catch_up", "pause_on_failure", "paused")
    ]
    written = json.dumps([what, repr(times.spec()), policy], sort_keys=True)
    return hashlib.sha256(written.encode()).hexdigest()[:32]


# --- Checks --------------------------------------------------------------------------------------


def check_schedule(id: str, times: object, options: ScheduleOptions) -> None:
    """Refuse a schedule that does not fit."""
    check_place(id, is_new=True)
    if not id or len(id) > LONGEST_ID:
        raise UserError(f"The id of a schedule has 1 to {LONGEST_ID} characters, not {id!r:.80}.")
    if not isinstance(times, Times):
        raise UserError(
            f"times must be Times(...), such as Times(cron='0 9 * * MON'), not {times!r:.80}."
        )
    at = times.once()
    if at is not None and at <= datetime.fromtimestamp(now_ms() / 1000, UTC):
        raise UserError(f"at={at.isoformat()} has passed already. Name a time that is to come.")
    for name, choices in (("mode", SendMode), ("overlap", Overlap)):
        if name in options:
            check_choice(f"create({name}=...)", cast("Any", options)[name], choices)
    catch_up = options.get("catch_up")
    if catch_up is not None and not isinstance(cast("object", catch_up), timedelta):
        raise UserError(f"catch_up= must be a timedelta, not {catch_up!r:.80}.")
    check_note(options.get("note", ""))
    _check_agent(options, repeats=at is None)


def _check_agent(options: ScheduleOptions, *, repeats: bool) -> None:
    to, agent = options.get("to"), options.get("agent")
    if to is None and agent is None:
        raise UserError(
            "A schedule starts an agent, or messages a conversation: name an agent (agent), a "
            "conversation (to), or both."
        )
    if to is None and "mode" in options:
        raise UserError("Only a message has a mode: name a conversation (to), too.")
    if to is not None:
        check_place(to, is_new=agent is not None)
        of_runs = StartOptions.__optional_keys__ - {"author"}  # a message has one, too
        if agent is None and (unused := of_runs & options.keys()):
            raise UserError(
                f"{', '.join(sorted(unused))} would start a conversation: name an agent, too."
            )
    elif repeats and options.get("keep_open") and options.get("overlap", "skip") in _WAITS:
        raise UserError(
            "The first run would stay open, so no second one would start. Set overlap to allow_all, "
            "or name a conversation (to) that gets all messages."
        )


def check_note(note: object) -> None:
    """Refuse a note that is too long."""
    if not isinstance(note, str) or len(note) > LONGEST_NOTE:
        raise UserError(f"note= must be a text of up to {LONGEST_NOTE} characters.")
