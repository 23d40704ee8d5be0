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

from outlast.serve.feed import FeedReader
from outlast.serve.pages.chat_view import ChatView, view_of
from outlast.serve.pages.live import moments
from outlast.serve.pages.parts import key_at, message_keys, newest
from outlast.serve.routing import Desk
from outlast.serve.sse import ServerSentEvent
from outlast.views.customer import CustomerMessage, shows_text_in_progress
from outlast.views.run import turn_in_progress

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
        rating: returns the buttons for a rating as HTML.
        first: the key of the first message that the page keeps up to date; None for as many as
            it shows.
    """

    message: Callable[[CustomerMessage, bool], str]
    status: Callable[[ChatView], str]
    rating: Callable[[ChatView], str]
    first: int | None = None
    _messages: dict[str, str] = field(default_factory=dict[str, str])
    _status: str | None = None
    _rating: str | None = None
    _text: str | None = None

    def changes(self, view: ChatView, text: str) -> ServerSentEvent | None:
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
        status, rating = self.status(view), self.rating(view)
        is_same = list(messages) == list(self._messages) and messages == self._messages
        if is_same and (status, rating) == (self._status, self._rating):
            return self.more_text(text)
        content: dict[str, Any] = {
            "order": list(messages),
            "html": {
                name: one for name, one in messages.items() if self._messages.get(name) != one
            },
            "status": status,
            "ended": view.has_ended,
        }
        if rating != self._rating:
            content["rating"] = rating
        if text != self._text:
            content["text"] = text
        self._rating = rating
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
    desk: Desk, run_id: str, page: PageContent
) -> AsyncGenerator[ServerSentEvent]:
    """Yield what a page lacks, until the conversation ends."""
    last = None
    async with aclosing(moments(desk, run_id)) as found:
        async for now in found:
            if now is None:
                yield ServerSentEvent("{}", OPEN)
                continue
            state, facts = now.entries.state, now.facts
            shown = _shown_text(now.entries)
            if last is not None and state is last[0] and facts is last[1]:
                event = page.more_text(shown)
            else:
                event = page.changes(
                    await view_of(desk.client, state, facts, now.entries.times), shown
                )
                last = state, facts
            if event is not None:
                yield event
            if now.is_over:
                yield ServerSentEvent("{}", END)


def _shown_text(entries: FeedReader) -> str:
    """Return what the customer may read of the text in progress, and has not as a message."""
    state = entries.state
    may_read = shows_text_in_progress(state, is_unjudged=entries.is_unjudged)
    return entries.text if turn_in_progress(state) and may_read else ""
