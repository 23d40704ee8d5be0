"""`outlast approve`, `reject` and their like: one request, one person."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, TypeVar

import typer

from outlast.agents.errors import DecisionRefused, UserError
from outlast.cli import terminal
from outlast.cli.caller import PersonCaller, on_server
from outlast.cli.consent import Consent
from outlast.edges.clock import now_ms
from outlast.edges.rendering import command, decision_command, json_fields, shown_time
from outlast.views.records import Json, JsonObject
from outlast.views.words import changed

if TYPE_CHECKING:
    from outlast.client.handle import RunHandle
    from outlast.client.people.actions import ClaimReceipt, DecisionReceipt
    from outlast.client.people.nested_requests import FoundRequest
    from outlast.views.records import ApprovalRequest, Decision, DecisionType
    from outlast.views.run import RunSnapshot

T = TypeVar("T")

ApprovalId: TypeAlias = Annotated[
    str | None,
    typer.Argument(
        metavar="APPROVAL", help="The request, such as a1; may be left out if only one waits."
    ),
]
Message: TypeAlias = Annotated[
    str | None, typer.Option("--message", "-m", help="The reason, for the model to read.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembering:
    """For which further calls a decision counts.

    Command line:
        remember: Decide further calls of this tool by this agent, too: all, or those with the same
            arguments.
        until: How long --remember holds: for this question, or the whole conversation (default).
    """

    remember: Literal["tool", "tool_with_args"] | None = None
    until: Literal["run", "conversation"] | None = None

    def fields(self) -> dict[str, Any]:
        """Return the fields of the decision."""
        if self.remember is None:
            return {}
        until = self.until or "conversation"
        return {"remember": True, "remember_scope": self.remember, "remember_until": until}

    def __post_init__(self) -> None:
        if self.remember is None and self.until is not None:
            raise UserError(
                "--until says how long --remember holds. Add --remember, or leave both."
            )


_QUESTIONS: Final[dict["DecisionType", str]] = {
    "approve": "Approve it?",
    "edit": "Approve it with these arguments instead?",
    "reject": "Reject it?",
    "respond": "Answer in its place?",
}


@on_server
async def approve(
    caller: PersonCaller,
    approval: ApprovalId = None,
    *,
    remembering: Remembering,
    consent: Consent,
) -> None:
    """Approve a call that waits for a person: it runs as it is.

    Shows the request and asks. A script names the arguments that somebody has seen instead, with
    --digest, and adds --yes.
    """
    chosen = await _choose(caller, approval, "approve", consent)
    await chosen.decide(consent, "approve", **remembering.fields())


@on_server
async def edit(
    caller: PersonCaller,
    approval: ApprovalId = None,
    arguments: str | None = None,
    changes: list[str] | None = None,
    message: Message = None,
    *,
    consent: Consent,
) -> None:
    """Approve a call with other arguments; the model reads that a person changed them.

    The editor is that of VISUAL or EDITOR. Leave redacted values as they are to keep them.

    Command line:
        arguments (JSON): All arguments, as JSON, or @FILE. Default: an editor opens.
        changes (--set NAME=VALUE): One argument; the others stay. Repeat it for more. Money of a
            budget: extend_by=0.50usd.
    """
    from outlast.cli import editor
    from outlast.cli.argument_changes import with_changes
    from outlast.cli.json_values import json_object, json_option

    wanted = None
    if arguments is not None and changes:
        raise UserError("Write either all arguments (--arguments) or single ones (--set).")
    if arguments is not None:
        wanted = json_object(json_option(arguments, "--arguments"), "--arguments")
    elif not changes and not editor.is_interactive():
        raise UserError(
            "Write the arguments: --set amount=350, or --arguments '{...}', @FILE, or @- for "
            "standard input."
        )
    chosen = await _choose(caller, approval, "inbox edit", consent)
    if changes:
        wanted = with_changes(chosen.found.shown, changes)
    if wanted is None:
        chosen.check()
        wanted = await editor.edit_arguments(chosen.found.shown, chosen.problem_of)
    await chosen.decide(consent, "edit", edited_arguments=wanted, message=message)


@on_server
async def reject(
    caller: PersonCaller,
    approval: ApprovalId = None,
    message: Message = None,
    *,
    remembering: Remembering,
    consent: Consent,
) -> None:
    """Reject a call that waits for a person; the model reads the message."""
    chosen = await _choose(caller, approval, "reject", consent)
    await chosen.decide(consent, "reject", message=message, **remembering.fields())


@on_server
async def respond(
    caller: PersonCaller,
    approval: ApprovalId = None,
    text: str | None = None,
    response: str | None = None,
    *,
    consent: Consent,
) -> None:
    """Answer in place of a call: it does not run, and the model reads your answer.

    Command line:
        text: Your answer.
        response (JSON): Your answer as JSON, or @FILE, instead of a text.
    """
    from outlast.cli.json_values import json_option

    if (text is None) == (response is None):
        raise UserError("Write your answer: --text '...', or --response with JSON or @FILE.")
    said: Json = text if response is None else json_option(response, "--response")
    chosen = await _choose(caller, approval, "inbox respond", consent)
    await chosen.decide(consent, "respond", response=said)


@on_server
async def claim(
    caller: PersonCaller,
    approval: ApprovalId = None,
    minutes: Annotated[int, typer.Option(min=1, max=24 * 60)] = 30,
    force: bool = False,
    to: str | None = None,
) -> None:
    """Keep a request to yourself for some minutes; nobody else decides it meanwhile.

    Command line:
        minutes: For how long.
        force: Take the request from whoever works on it.
        to: The person to whom you hand your claim over.
    """
    chosen = await _choose(caller, approval, "inbox claim")
    by = caller.person
    receipt = await chosen.send(
        lambda handle, request: handle.claim(request, by=by, minutes=minutes, force=force, to=to)
    )
    until = receipt.until
    shown = "" if until is None else f" until {shown_time(int(until.timestamp() * 1000))}"
    chosen.show_claim(receipt, f"{receipt.by} works on {chosen.request.id}{shown}.")


@on_server
async def unclaim(
    caller: PersonCaller,
    approval: ApprovalId = None,
    force: bool = False,
) -> None:
    """End a claim, so that everybody may decide the request again.

    Command line:
        force: End somebody else's claim.
    """
    chosen = await _choose(caller, approval, "inbox unclaim")
    receipt = await chosen.send(
        lambda handle, request: handle.unclaim(request, by=caller.person, force=force)
    )
    chosen.show_claim(receipt, f"Nobody works on {chosen.request.id} now.")


@on_server
async def withdraw(caller: PersonCaller, approval: ApprovalId = None) -> None:
    """Take your vote back, while a request still needs others; an edit of yours is void, too."""
    chosen = await _choose(caller, approval, "inbox withdraw")
    receipt = await chosen.send(
        lambda handle, request: handle.withdraw_vote(request, by=caller.person)
    )
    now = f"{receipt.votes} of {receipt.votes_needed} votes."
    caller.show(chosen.record(receipt), f"Withdrawn. {now}")


@on_server
async def ask(
    caller: PersonCaller,
    approval: ApprovalId = None,
    question: str = "",
) -> None:
    """Ask the agent something instead of deciding: it answers, or asks the user, and calls again.

    Command line:
        question (--question -q): What you want to know.
    """
    if not question.strip():
        raise UserError("Write what you want to know: --question '...'.")
    chosen = await _choose(caller, approval, "inbox ask")
    receipt = await chosen.send(
        lambda handle, request: handle.ask_back(request, question, by=caller.person)
    )
    done = f"Asked. The call does not run now; {chosen.request.agent} reads the question."
    caller.show(chosen.record(receipt), done)


# --- The request ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Chosen:
    caller: PersonCaller
    handle: "RunHandle"
    state: "RunSnapshot"
    found: "FoundRequest"

    @property
    def request(self) -> "ApprovalRequest":
        return self.found.request

    def check(self) -> None:
        """Check that the person may decide now, before they write a change."""
        from outlast.views.acts import request_problem

        refused = request_problem(self.state, self.request, self.caller.person, now_ms())
        if refused is not None:
            raise DecisionRefused(refused + self._other_person())

    def problem_of(self, arguments: JsonObject) -> str | None:
        """Return why the run would refuse other arguments, or None."""
        from outlast.views.acts import decision_problem

        decision = self._decision("edit", edited_arguments=arguments)
        return decision_problem(self.state, self.request, decision, now_ms())

    async def send(self, act: "Callable[[RunHandle, ApprovalRequest], Awaitable[T]]") -> T:
        """Send what the person does, and return the receipt."""
        try:
            return await self.caller.send(self.handle, lambda: act(self.handle, self.request))
        except DecisionRefused as error:
            raise DecisionRefused(error.message + self._other_person()) from error

    def _other_person(self) -> str:
        """Return a sentence on how to decide as somebody who may, on the developer's own server."""
        from outlast.client.transport.connection import own_server_of
        from outlast.views.acts import options_to_decide

        options = options_to_decide(self.request, self.caller.person, now_ms())
        if not options or own_server_of(self.handle.client) is None:
            return ""
        return (
            f" To try it out as one of them, decide at the desk of `outlast dev TARGET {options}`."
        )

    async def decide(self, consent: Consent, kind: "DecisionType", **fields: Any) -> None:
        """Send a decision if the person says yes, and show what became of it."""
        from outlast.cli import review

        request, run_id, edited = self.request, self.caller.run_id, fields.get("edited_arguments")
        if edited is not None and not consent.yes:
            text = json.dumps(edited, ensure_ascii=False)
            review.say_arguments(terminal.err(), text, run_id, "instead")
        script = decision_command(
            review.COMMANDS[kind][0], run_id, request.id, request.digest, options="--yes"
        )
        if len(request.arguments) > review.LONGEST_ARGUMENTS and not consent.yes:
            read = command("inbox show", run_id, request.id, options="--json")
            raise UserError(
                f"The arguments are too long to show. Read all of them with `{read}`, and then "
                f"`{script}`."
            )
        consent.require(_QUESTIONS[kind], script)
        decision = self._decision(kind, **fields)
        receipt = await self.send(lambda handle, _: handle.decide(decision, request=request))
        record = {**self.record(receipt), **({"edited_arguments": edited} if edited else {})}
        self.caller.show(record, receipt.words(request), _further(request, fields))

    def record(self, receipt: "DecisionReceipt") -> JsonObject:
        """Return a receipt for programs."""
        return {
            "approval": self.request.id,
            **json_fields(receipt, "status", "votes", "votes_needed", "is_kept", "is_queued"),
            "by": self.caller.person.subject,
            "tool": self.request.name,
            "arguments": self.found.shown.arguments,
        }

    def show_claim(self, receipt: "ClaimReceipt", sentence: str) -> None:
        """Show who works on the request now."""
        record = {"approval": self.request.id, "claimed_by": receipt.by}
        self.caller.show({**record, **json_fields(receipt, "until")}, sentence)

    def _decision(self, kind: "DecisionType", **fields: Any) -> "Decision":
        from outlast.client.people.actions import decision_of

        return decision_of(self.request, kind, by=self.caller.person, channel="cli", **fields)


async def _choose(
    caller: PersonCaller, approval: str | None, verb: str, consent: Consent | None = None
) -> _Chosen:
    from outlast.cli import review
    from outlast.client.people.words import read_words
    from outlast.temporal.proofs import proof_reader

    handle = await caller.handle()
    await handle.check()
    state = await handle.state()
    found, *others = await find_requests(handle, state, approval)
    request = found.request
    if others:
        ids = ", ".join([request.id, *(one.request.id for one in others)])
        raise UserError(
            f"The run {handle.id} waits for {len(others) + 1} approvals: {ids}. Name one: "
            f"`{command(verb, handle.id, request.id)}`. `outlast show` has the details."
        )
    if consent is not None and not consent.covers(request.digest):
        raise DecisionRefused(changed(request.id))
    if not caller.as_json or (consent is not None and not consent.yes):
        words = await read_words(handle.client, state, [request])
        run_id = request.run_id or caller.run_id
        proofs = found.proofs(await proof_reader(handle.client))
        review.show_approval(terminal.err(), found.shown, run_id, words[request.id], proofs)
    return _Chosen(caller, handle, state, found)


async def find_requests(
    handle: "RunHandle", state: "RunSnapshot", approval: str | None
) -> tuple["FoundRequest", ...]:
    """Return the pending requests of a run, or the one with an id, also if it is settled."""
    from outlast.client.people.nested_requests import FoundRequest, find_request, found_requests

    pending = await found_requests(state, handle.client)
    if approval is None:
        if not pending:
            raise DecisionRefused(
                f"The run {handle.id} waits for no approval: it is {state.status}."
            )
        return pending
    settled = (FoundRequest(one, state) for one in state.approvals)
    for found in (*pending, *settled):
        if found.request.id == approval:
            return (found,)
    if "." in approval:  # of a nested run, which has ended
        ended = await find_request(approval, state, handle.client)
        if ended is not None:
            return (ended,)
    ids = ", ".join(one.request.id for one in pending) or "none"
    raise DecisionRefused(f"The run {handle.id} has no approval {approval!r}. Pending: {ids}.")


# --- The decision ---------------------------------------------------------------------------------


def _further(request: "ApprovalRequest", fields: dict[str, Any]) -> str:
    if not fields.get("remember"):
        return ""
    same = " with these arguments" if fields["remember_scope"] == "tool_with_args" else ""
    long = "for this question" if fields["remember_until"] == "run" else "in this conversation"
    return f" It also holds for further calls of {request.name} by {request.agent}{same}, {long}."
