"""A chat while it is open: what has changed for its customer, as server-sent events.

    feed of the run -> everything that is there by now -> the customer's view -> what the page lacks

Each connection begins with everything, and the page keeps what it has already by the ids of
messages. So nothing is there twice, and a page needs no position.
"""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

from outlast.serve.feed import (
    Ended,
    FeedReader,
    Happened,
    Snapshot,
    TextAdded,
    TextReset,
)
from outlast.serve.pages.chat_view import view_of
from outlast.serve.pages.parts import key_at, message_keys, newest
from outlast.serve.routing import Desk
from outlast.serve.sse import ServerSentEvent
from outlast.serve.troubles import Watch
from outlast.views.customer import CustomerMessage, CustomerView, shows_text_in_progress
from outlast.views.run import RunSnapshot, turn_in_progress

OPEN: Final = "begin"
CHAT: Final = "chat"
TEXT: Final = "text"
END: Final = "end"
"""The types of events: the stream begins; messages and state; the text in progress; it is over."""


@dataclass
class PageContent:
    """What the page of one reader has.

    Attributes:
        message: returns a message as HTML.
        status: returns the state of the conversation as HTML.
        first: the key of the first message that the page keeps up to date; None for as many as
            it shows.
    """

    message: Callable[[CustomerMessage, bool], str]
    status: Callable[[CustomerView], str]
    first: int | None = None
    _messages: dict[str, str] = field(default_factory=dict[str, str])
    _status: str | None = None
    _text: str | None = None

    def changes(self, view: CustomerView, text: str) -> ServerSentEvent | None:
        """Return what the page lacks of a view and of the text in progress; None if nothing.

        Where a text ends, its message is in the same event: it is never there twice, or not at all.
        """
        keys = message_keys(view.messages)
        if self.first is None:
            self.first = key_at(keys, newest(keys))
        newer = view.messages[newest(keys, self.first) :]
        listed = [*((one, False) for one in newer), *((one, True) for one in view.unread)]
        messages = {
            ("u-" if is_unread else "") + one.id: self.message(one, is_unread)
            for one, is_unread in listed
        }
        status = self.status(view)
        is_same = list(messages) == list(self._messages) and messages == self._messages
        if is_same and status == self._status:
            return self.more_text(text)
        content: dict[str, Any] = {
            "order": list(messages),
            "html": {
                name: one for name, one in messages.items() if self._messages.get(name) != one
            },
            "status": status,
            "ended": view.has_ended,
        }
        if text != self._text:
            content["text"] = text
        self._messages, self._status, self._text = messages, status, text
        return ServerSentEvent(json.dumps(content), CHAT)

    def more_text(self, text: str) -> ServerSentEvent | None:
        """Return what the page lacks of the text in progress; None if it has that."""
        before, self._text = self._text, text
        if text == before:
            return None
        if before and text.startswith(before):
            return ServerSentEvent(json.dumps({"add": text[len(before) :]}), TEXT)
        return ServerSentEvent(json.dumps({"text": text}), TEXT)


async def chat_events(
    desk: Desk, run_id: str, person: str, page: PageContent
) -> AsyncGenerator[ServerSentEvent]:
    """Yield what a page lacks, until the conversation ends."""
    async with (
        desk.feed.reader(run_id, person=person) as entries,
        desk.troubles.watch(run_id, lambda: entries.state) as watch,
    ):
        yield ServerSentEvent("{}", OPEN)
        text, last = _Text(), None
        async with aclosing(_steps(entries, text, watch)) as steps:
            async for is_over in steps:
                state, facts = entries.state, watch.facts
                shown = text.shown(state)
                if last is not None and state is last[0] and facts is last[1]:
                    event = page.more_text(shown)
                else:
                    event = page.changes(await view_of(desk.client, state, facts), shown)
                    last = state, facts
                if event is not None:
                    yield event
                if is_over:
                    yield ServerSentEvent("{}", END)


@dataclass
class _Text:
    """The text in progress, as far as its reader has got."""

    text: str = ""
    is_unjudged: bool = False

    def shown(self, state: RunSnapshot) -> str:
        """Return what the customer may read of it, and has not as a message."""
        may_read = shows_text_in_progress(state, is_unjudged=self.is_unjudged)
        return self.text if turn_in_progress(state) and may_read else ""


async def _steps(entries: FeedReader, text: _Text, watch: Watch) -> AsyncGenerator[bool]:
    """Yield whenever everything that there is has been taken: the state fits the text then.

    Yields whether the run has ended.
    """
    async with aclosing(watch.beside(entries.with_states())) as found:
        async for entry in found:
            is_over = False
            match entry:
                case Snapshot():
                    text.text, text.is_unjudged = entry.text, entry.is_unjudged
                case TextAdded():
                    text.text += entry.text
                    text.is_unjudged = entry.is_unjudged
                case TextReset():
                    text.text, text.is_unjudged = "", False
                case Happened() if not entry.cursor.offset:
                    text.text, text.is_unjudged = "", False
                case Ended():
                    is_over = True
                case _:
                    pass
            if is_over or not entries.has_more:
                yield is_over
