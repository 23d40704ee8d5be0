"""`outlast hold`, `say` and `release`: a person takes a conversation over and gives it back."""

from typing import TYPE_CHECKING

from outlast.agents.errors import UserError
from outlast.cli.caller import PersonCaller, on_server

if TYPE_CHECKING:
    from outlast.client.people.actions import TakeoverReceipt


@on_server
async def hold(
    caller: PersonCaller,
    after_turn: bool = False,
    force: bool = False,
    to: str | None = None,
) -> None:
    """Take a conversation over: the agent does nothing until you release it.

    An answer that it is writing is withdrawn.

    Command line:
        after_turn: Let an answer under way arrive first.
        force: Take the conversation from whoever else has it.
        to: The person to whom you hand your conversation over.
    """
    if to is not None and (force or after_turn):
        raise UserError("--to hands over what you hold: leave out --force and --after-turn.")
    if to is not None:
        receipt = await caller.act(lambda handle: handle.hand_over(by=caller.person, to=to))
        _show(caller, receipt, f"{receipt.by} has the conversation now.")
        return
    mode = "after_turn" if after_turn else "immediate"
    receipt = await caller.act(lambda run: run.hold(by=caller.person, mode=mode, force=force))
    now = "finishes a turn under way, and then waits" if after_turn else "waits; tools finish"
    done = f"{receipt.by} has the conversation. The agent {receipt.agent} {now}."
    if receipt.approved:
        done += f" That approved {', '.join(receipt.approved)}."
    _show(caller, receipt, done)


@on_server
async def say(caller: PersonCaller, text: str) -> None:
    """Answer the user of a conversation that you hold.

    Command line:
        text (TEXT): What you say to the user.
    """
    receipt = await caller.act(lambda handle: handle.say(text, by=caller.person))
    done = f"Said. {receipt.by} has the conversation."
    if receipt.is_judged:
        done = "Guardrails judge it first: `outlast show` lists it as ignored if they block it."
    _show(caller, receipt, done)


@on_server
async def release(
    caller: PersonCaller,
    note: str = "",
    to: str = "",
) -> None:
    """Give a conversation back to an agent, which answers what nobody has answered.

    Command line:
        note: What the model reads about it.
        to: The agent that goes on. Default: the active one.
    """
    receipt = await caller.act(lambda handle: handle.release(by=caller.person, note=note, to=to))
    _show(caller, receipt, f"The agent {receipt.agent} has the conversation again.")


def _show(caller: PersonCaller, receipt: "TakeoverReceipt", sentence: str) -> None:
    record = {
        "status": receipt.status,
        "held_by": receipt.by,
        "agent": receipt.agent,
        **({"approved": list(receipt.approved)} if receipt.approved else {}),
    }
    caller.show(record, sentence)
