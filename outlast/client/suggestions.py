"""Drafts that the agent writes for the person who has a conversation.

A draft is the answer of a fork: the same loop, without effects, and without a trace in the run. It
costs what the fork's model calls cost, which the fork's figures have.
"""

import asyncio
import json
import secrets
from contextlib import suppress
from datetime import timedelta
from typing import Final

from temporalio.client import Client

from outlast.agents.errors import AgentsException, UserError
from outlast.client.forks import fork_run
from outlast.client.handle import RunHandle
from outlast.client.people.actions import By
from outlast.client.results.run_result import RunResult
from outlast.loop.phrases import as_text

PREFIX: Final = "draft-"
"""What the names of these forks begin with."""

PATIENCE: Final = timedelta(seconds=60)
"""How long the agent may take."""

NOTE: Final = (
    "A colleague has the conversation and asks you for a draft. Write the reply to the customer "
    "alone: the colleague reads it, and may change it, before anything is sent."
)

NO_QUESTION: Final = "There is nothing to answer: the customer has written nothing since."
_WAITS: Final = "This conversation waits for a decision. Decide it first."
_NEEDS: Final = "The agent needs a decision before it can answer, so there is no draft."
_NOTHING: Final = "The agent has written nothing."
_LATE: Final = f"The agent has written nothing within {PATIENCE.total_seconds():.0f} seconds."


async def suggest_reply(client: Client, run_id: str, *, by: By) -> str:
    """Return what the agent would answer, while a person has the conversation.

    Nothing of the run changes, and nothing is sent. Tools that only read are called; others answer
    as they do in forks.

    Args:
        client: connected to the run's server.
        run_id: the conversation.
        by: who has it.

    Raises:
        UserError: there is nothing to answer, or the agent could not answer.
    """
    state = await RunHandle(client, run_id).state()
    if not (state.unread or state.answering):
        raise UserError(NO_QUESTION)
    if state.pending_approvals:
        raise UserError(_WAITS)
    fork = await fork_run(client, run_id, name=f"{PREFIX}{secrets.token_hex(4)}")
    try:
        async with asyncio.timeout(PATIENCE.total_seconds()):
            await fork.release(by=by, note=NOTE)
            return _text_of(await fork.wait_for_people())
    except TimeoutError:
        raise UserError(_LATE) from None
    except UserError:
        raise
    except AgentsException as error:
        raise UserError(f"The agent could not answer: {error.message}") from None
    finally:
        await asyncio.shield(_ended(fork))


def _text_of(result: RunResult) -> str:
    for item in result.interruptions:
        if item.request.kind != "output":
            raise UserError(_NEEDS)
        return as_text(json.loads(item.request.arguments)["answer"])
    text = as_text(result.final_output) if result.final_output is not None else ""
    if not text.strip():
        raise UserError(_NOTHING)
    return text


async def _ended(fork: RunHandle) -> None:
    with suppress(AgentsException):  # it has ended, or the server is away
        await fork.cancel("immediate")
