"""A realtime line: it makes the model calls while it is attached.

Tokens show that the replies on a line come from whoever attached it. Each token is the hash of the
one that is shown after it, and a line is attached with the hash of the first. Whoever reads the
run's history knows the tokens so far, and cannot make the next one.
"""

from dataclasses import replace
from hashlib import sha256
from typing import Final

from outlast.loop import effect_factory, ledger, phrases
from outlast.loop.effects import KeepLineOpen
from outlast.loop.events import LineAttached, LineReplied
from outlast.loop.items import Message
from outlast.loop.problems import line_problem
from outlast.loop.revision import revised, revised_call
from outlast.loop.state import LoopState, has_message, line_call, line_of
from outlast.loop.transcript import (
    begin_question,
    record_messages,
    record_outputs,
    record_reply,
    with_ignored,
)
from outlast.loop.turns import begin_calls, model_replied

MOST_TOKENS: Final = 10_000
"""How many replies a line may give."""

MOST_SKIPPED: Final = 100
"""How many tokens may be missing before one: a reply that the server refused has used one up."""


def line_attached(state: LoopState, event: LineAttached) -> LoopState:
    """Let a realtime line make the model calls from now on, instead of the one before."""
    before = line_of(state)
    if line_problem(state) or (before is not None and before.line == event.line):
        return state
    pending = tuple(one for one in state.pending if one is not before)
    line = KeepLineOpen(effect=state.next_effect, line=event.line, label=event.label)
    state = revised(state, line_token=event.owner, pending=pending)
    return reroute_model_call(effect_factory.issue(state, line))


def reroute_model_call(state: LoopState) -> LoopState:
    """Give the model call of a line that has ended to the newest line, or else to a worker."""
    call = line_call(state)
    if call is None:
        return state
    line = line_of(state)
    again = replace(call, effect=state.next_effect, line=line.line if line is not None else "")
    rest = tuple(one for one in state.pending if one is not call)
    return effect_factory.issue(revised(state, pending=rest), again)


def line_replied(state: LoopState, event: LineReplied) -> LoopState:
    """Record a reply on the line, and the user's words before it, once.

    The conversation on the provider's server, if the run has one, does not hear of it.
    """
    line, message = line_of(state), event.message
    if line is None or line.line != event.line or state.phase in {"preparing", "closing"}:
        what, why = f"reply on the line {event.line}", "It is not the line of this run now."
        return with_ignored(state, event.at_ms, what, why)
    replied = any(one.response_id == event.reply.response_id for one in state.responses)
    if replied or has_message(state, message.id):
        return state
    if state.line_token and not follows(event.token, state.line_token):
        what, why = f"reply on the line {event.line}", "It does not come from the line's owner."
        return with_ignored(state, event.at_ms, what, why)
    state = revised(state, line_token=event.token)
    if not state.question.answering:  # nothing happens, or a person has the conversation
        state = _begin_spoken(state, message, event.at_ms)
    elif message.content:
        state = record_messages(revised(state, inbox=(*state.inbox, message)))
    if state.phase == "idle":
        begun = revised(state, phase="thinking", turn=1, turns=state.turns + 1, starts=False)
        newer = model_replied(begun, event.reply, event.at_ms)
    else:
        newer = _reply_on_line(state, event)
    return revised(newer, server=state.server)


def _reply_on_line(state: LoopState, event: LineReplied) -> LoopState:
    """Take a reply as the result of the line's model call, or beside running calls.

    On a line the user may speak, and the model may answer, at any time. While calls run or wait for
    people, what is said belongs to the same turn, and its calls run beside the others.
    """
    call = line_call(state)
    if call is not None:
        rest = tuple(one for one in state.pending if one is not call)
        return model_replied(revised(state, pending=rest), event.reply, event.at_ms)
    earlier, question = state.calls, state.question
    state = record_reply(state, event.reply)
    calls = state.calls
    state = revised(
        state,
        calls=earlier,
        judged=question.judged,
        parallel=question.parallel,
        answer_terms=question.answer_terms,
        answer_reason=question.answer_reason,
    )
    if state.phase == "acting":
        return begin_calls(revised(state, calls=(*earlier, *calls)), event.at_ms, len(earlier))
    late = [revised_call(one, output=one.output or phrases.NOT_RUN_NOW) for one in calls]
    return record_outputs(state, late)


def _begin_spoken(state: LoopState, message: Message, at_ms: int) -> LoopState:
    """Begin a question on a line; its first reply has arrived already."""
    before = len(state.items)
    state = record_messages(revised(ledger.hide_blocked(state), inbox=(*state.inbox, message)))
    return revised(begin_question(state, at_ms), question_from=before)


# --- Tokens --------------------------------------------------------------------------------------


def tokens(secret: str) -> list[str]:
    """Return the tokens of a line, the one to attach it with first.

    Args:
        secret: a random text that nobody else knows.
    """
    made = [_hash(secret)]
    for _ in range(MOST_TOKENS):
        made.append(_hash(made[-1]))
    return made[::-1]


def follows(token: str, known: str) -> bool:
    """Whether a token comes after a known one."""
    for _ in range(MOST_SKIPPED):
        token = _hash(token)
        if token == known:
            return True
    return False


def _hash(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()
