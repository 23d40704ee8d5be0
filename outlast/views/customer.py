"""What customers see of their conversation: a list of what is allowed.

Everything else of a run stays with the team: arguments, outputs, reasoning, notes, drafts,
approvals, names, errors. What is added to a run later is hidden until somebody adds it here.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias, cast

from outlast.contract.blobs import is_plain
from outlast.loop.aside import parts_aside
from outlast.loop.items import Item, refusal_of, text_of
from outlast.loop.phrases import as_text
from outlast.loop.state import OUTPUT_KINDS, LoopState, visible_item_count
from outlast.loop.values import Json, JsonObject
from outlast.loop.view import shown
from outlast.views.run import AnyState, follows_of, loop_state
from outlast.views.transcript import is_cut_short

By: TypeAlias = Literal["customer", "assistant", "colleague"]
"""Who says something: the customer, an agent, or a person of the team, without a name."""

PARTS: Final[dict[str, tuple[str, ...]]] = {
    "input_text": ("text",),
    "input_image": ("image_url", "detail"),
    "input_file": ("file_data", "filename"),
}
"""The parts of customers' messages and their fields, the content first. Ids of a provider's files
and addresses are not among them: they would be read with the rights of the program."""

_TEXT_DELTAS: Final = frozenset({"response.output_text.delta", "response.refusal.delta"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomerMessage:
    """A message of the conversation, as its customer sees it.

    Attributes:
        id: tells it from the other messages of the conversation, and stays the same. A message can
            appear before others that were there already, where guardrails had to pass it first; and
            what was said before a question failed can disappear, where it is checked again.
        by: who says it.
        text: the text. Text in the blob store that was not fetched stands as a placeholder.
        attachments: images and files of the customer or a colleague, as parts of Responses input.
        left_out: whether the model does not read what the customer wrote: see `loop.aside`.
        attachments_left_out: the places of the attachments that the model does not read.
        is_cut_short: whether a limit of tokens cut the answer off.
    """

    id: str
    by: By
    text: str
    attachments: tuple[JsonObject, ...] = ()
    left_out: bool = False
    attachments_left_out: tuple[int, ...] = ()
    is_cut_short: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomerView:
    """A conversation as its customer sees it.

    Attributes:
        messages: the messages and answers, in order.
        unread: messages of the customer that the run has not taken yet, in order. Once they are
            taken, they are among `messages`, with other ids.
        works: whether an answer is to come, from an agent or a person.
        has_ended: whether the conversation takes no more messages. After a resolved one has ended,
            the next message begins the one that follows it.
        waits_for: what the conversation waits for, in the words that a policy has for the customer;
            None without any.
        with_colleague: whether a member of the team has the conversation.
        trouble: what keeps it from going on, in words for the customer; empty for nothing.
        follows: the resolved conversation that it follows; None if it follows none.
        is_live: whether the server answers, so that the page shows what there is.
    """

    messages: tuple[CustomerMessage, ...]
    unread: tuple[CustomerMessage, ...] = ()
    works: bool = False
    has_ended: bool = False
    waits_for: str | None = None
    with_colleague: bool = False
    trouble: str = ""
    follows: str | None = None
    is_live: bool = True


# --- Reading ---------------------------------------------------------------------------------------


def customer_view(run: AnyState) -> CustomerView:
    """Return what the customer of a run sees of it."""
    state = loop_state(run)
    unread = (
        _of_customer(f"{message.id}.{at}", raw)
        for message in state.inbox
        for at, raw in enumerate(message.content)
    )
    is_over = state.phase in {"closing", "closed"}
    texts = [request.terms.customer_text for request in state.pending_approvals]
    if state.case.reply is not None:
        texts.append(state.case.reply.away or None)
    return CustomerView(
        messages=tuple(_messages(state)),
        unread=tuple(one for one in unread if one is not None),
        works=not is_over and bool(state.question.answering or state.inbox),
        has_ended=is_over and state.case.resolved_ms is None,
        waits_for=next((one for one in texts if one is not None), None),
        with_colleague=state.phase == "held",
        follows=follows_of(state),
    )


def shows_text_in_progress(run: AnyState, *, is_unjudged: bool) -> bool:
    """Whether the customer may read the answer while the model writes it.

    Text in progress is sent before any guardrail or person judges it, so it is shown only where
    nobody does.

    Args:
        run: the run before the reply.
        is_unjudged: whether the worker that makes the call says so, as entries of a feed have it.
    """
    state = loop_state(run)
    judged = "check_output" in state.required_steps or state.question.answer_terms is not None
    return is_unjudged and not judged and state.question.unchecked_from is None


def text_delta(raw: JsonObject) -> str | None:
    """Return the piece of an answer in a model's event; None for every other event.

    Reasoning, arguments and whole responses come in events of their own types.
    """
    delta: object = raw.get("delta")
    return delta if raw.get("type") in _TEXT_DELTAS and isinstance(delta, str) else None


def _messages(state: LoopState) -> Iterator[CustomerMessage]:
    answers = {one.item for one in state.answers if one.failure is None}
    passed, aside = _passed_items(state), parts_aside(state.aside)
    agents = {*state.handoff_path, state.agent}
    turns_with_output: set[int] = set()
    for at, item in enumerate(state.items[: visible_item_count(state)]):
        found = None
        # A message after an output of its turn is no reply: a handoff's filter made it for the next
        # agent, and it may quote calls and outputs.
        is_reply = at in passed and item.turn not in turns_with_output
        if item.kind == "input":
            found = _of_customer(f"i{at}", item.raw, aside.get(at, ()))
        elif at in answers or (item.kind == "message" and (item.turn == 0 or is_reply)):
            is_person = item.turn == 0 and item.agent not in agents
            by: By = "colleague" if is_person else "assistant"
            found = _said(f"i{at}", by, _text(item), is_cut=is_cut_short(item.raw))
            if found is not None and is_person and item.custom_data:
                files = dict(_shown_parts(item.custom_data.get("files")))
                found = replace(found, attachments=tuple(files.values()))
        if found is not None:
            yield found
        if item.kind in OUTPUT_KINDS:
            turns_with_output.add(item.turn)
    # The state has the newest answer, also without an item.
    newest = state.answers[-1] if state.answers else None
    if newest is not None and newest.failure is None and newest.item is None:
        said = _said(f"a{len(state.answers)}", "assistant", _as_answer(state.final_output))
        if said is not None:
            yield said


def _passed_items(state: LoopState) -> Collection[int]:
    """Return the items that input guardrails do not, and did not, keep from the customer.

    A guardrail that runs beside the model may block a question after the reply to it. Of earlier
    questions, the state does not say which ones were blocked; but the model does not see these any
    more, so where a question failed, or a handler may have answered in its place, the model's view
    decides.
    """
    stops = [state.question.unchecked_from, state.blocked_from]
    length = min((one for one in stops if one is not None), default=len(state.items))
    in_view = {id(item) for item in shown(state.view, state.items, len(state.items))}
    passed: set[int] = set()
    has_handlers = bool(state.start.handled)
    failed, start = False, 0
    for answer in (*state.answers, None):
        is_given = answer is not None and answer.failure is None
        failed = failed or (answer is not None and not is_given)
        if answer is None or (is_given and answer.item is not None):
            stop = length if answer is None or answer.item is None else answer.item + 1
            places = range(start, min(stop, length))
            doubtful = failed or has_handlers
            passed.update(_in_view(state.items, places, in_view) if doubtful else places)
            failed, start = False, stop
    return passed


def _in_view(
    items: Sequence[Item], places: Iterable[int], in_view: Collection[int]
) -> Iterator[int]:
    """Yield the items that the model sees, or whose question it sees."""
    asked = False
    for at in places:
        is_seen = id(items[at]) in in_view
        asked = is_seen if items[at].kind == "input" else asked
        if is_seen or asked:
            yield at


def _said(message_id: str, by: By, text: str, *, is_cut: bool = False) -> CustomerMessage | None:
    if not text:
        return None
    return CustomerMessage(id=message_id, by=by, text=text, is_cut_short=is_cut)


def _text(item: Item) -> str:
    """Return the words of an agent or a person; empty for other items that look like messages.

    The output of a tool has words where it is the answer.
    """
    if item.kind in OUTPUT_KINDS:
        return _as_answer(item.raw.get("output"))
    if item.raw.get("role") != "assistant":
        return ""
    return text_of(item.raw) or refusal_of(item.raw) or ""


def _as_answer(output: Json) -> str:
    return "" if output is None else as_text(output)


def _of_customer(
    message_id: str, raw: JsonObject, aside: Collection[int | None] = ()
) -> CustomerMessage | None:
    """Return the customer's words; None for what the program sent along, such as instructions."""
    if raw.get("role") != "user" or raw.get("type", "message") != "message":
        return None
    attachments = dict(_shown_parts(raw.get("content")))
    text = text_of(raw)
    if not text and not attachments:
        return None
    return CustomerMessage(
        id=message_id,
        by="customer",
        text=text,
        attachments=tuple(attachments.values()),
        left_out=any(part not in attachments for part in aside),
        attachments_left_out=tuple(
            place for place, part in enumerate(attachments) if part in aside
        ),
    )


def _shown_parts(content: Json) -> Iterator[tuple[int, JsonObject]]:
    """Yield images and files with their indices in the content."""
    for at, part in enumerate(cast("list[Any]", content) if isinstance(content, list) else []):
        fields = cast("JsonObject", part) if isinstance(part, dict) else {}
        kind = str(fields.get("type"))
        if kind in PARTS and kind != "input_text":
            yield at, {name: fields[name] for name in ("type", *PARTS[kind]) if name in fields}


# --- What the model does not read, for front ends -------------------------------------------------


def message_ids(run: AnyState) -> dict[int, str]:
    """Return the ids of messages by the places of their items in the transcript.

    The state has the ids in the order in which messages were recorded. A message of a program may
    have several items; then nobody knows which item is whose, and none has an id.
    """
    state = loop_state(run)
    taken = [one for answer in state.answers for one in answer.to]
    ids = list(dict.fromkeys([*taken, *state.question.answering]))
    places = [at for at, item in enumerate(state.items) if item.kind == "input"]
    return dict(zip(places, ids, strict=True)) if len(ids) == len(places) else {}


def is_other_message(run: AnyState, message_id: str, content: str | Sequence[JsonObject]) -> bool:
    """Whether a message that the run has under this id says something else than `content`.

    Texts are compared, and which images and files there are; a text in the blob store counts as the
    same.
    """
    state = loop_state(run)
    waiting = next((one.content for one in state.inbox if one.id == message_id), None)
    at = next((at for at, own in message_ids(run).items() if own == message_id), None)
    had = waiting if waiting is not None else () if at is None else (state.items[at].raw,)
    if not had or not all(is_plain(one) for one in had):
        return False
    sent = [{"role": "user", "content": content}] if isinstance(content, str) else content
    return _words(had) != _words(sent)


def _words(raws: Iterable[JsonObject]) -> tuple[str, list[str]]:
    listed = list(raws)
    kinds = [
        str(part.get("type")) for raw in listed for _, part in _shown_parts(raw.get("content"))
    ]
    return "\n".join(text_of(raw) for raw in listed), kinds


def messages_left_out(run: AnyState) -> list[CustomerMessage]:
    """Return the messages of the customer that the model does not read, or not all of."""
    if not loop_state(run).aside:
        return []
    seen = customer_view(run).messages
    return [one for one in seen if one.left_out or one.attachments_left_out]
