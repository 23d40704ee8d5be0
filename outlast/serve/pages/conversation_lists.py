"""The two lists of a conversation's page, messages and steps: their newest entries, and more on demand.

A page names the first of its newest entries when it asks for its live stream. So a stream that comes
back begins where the page does, and what was loaded before that stays as it is.
"""

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from markupsafe import Markup

from outlast.client.timeline import Step
from outlast.serve.pages.conversation_view import Bubble, Conversation, Leavable, took
from outlast.serve.pages.live import LiveList
from outlast.serve.pages.page import fragment, version_of
from outlast.serve.pages.parts import LongList, key_at, message_keys, newest
from outlast.serve.routing import DeskRequest
from outlast.views.records import Comment

MOST_OPEN: Final = 500
"""The most steps that a page shows so that those which may still change are among them."""


# --- Entries -------------------------------------------------------------------------------------


def message_html(asked: DeskRequest, one: Bubble) -> str:
    """Return a message."""
    return fragment(asked, "conversation_bubble.html", one=one)


def comment_html(asked: DeskRequest, one: Comment) -> str:
    """Return what a person wrote for colleagues."""
    return fragment(asked, "conversation_comment.html", one=one, key=version_of(one.id))


def step_html(asked: DeskRequest, view: Conversation, number: int) -> str:
    """Return a step."""
    row = view.row(number)
    return fragment(
        asked,
        "conversation_step.html",
        row=row,
        step=row.step,
        took=took(row.step.took_ms),
        view=view,
        has_temporal=bool(asked.desk.temporal_ui and row.step.effect),
    )


# --- The page ------------------------------------------------------------------------------------


def messages_of(asked: DeskRequest, view: Conversation) -> LongList:
    """Return the messages of a page."""
    keys = message_keys(view.customer.messages)

    def entries(start: int, stop: int) -> str:
        return "".join(message_html(asked, one) for one in view.bubbles(start, stop))

    return LongList(asked, _here(asked), "message", keys, newest(keys), entries)


def steps_of(asked: DeskRequest, view: Conversation) -> LongList:
    """Return the steps of a page."""

    def entries(start: int, stop: int) -> str:
        return "".join(step_html(asked, view, number) for number in range(start, stop))

    numbers = range(len(view.steps))
    return LongList(asked, _here(asked), "step", numbers, first_step_of(view), entries)


def comments_html(asked: DeskRequest, view: Conversation) -> Markup:
    """Return what people wrote for colleagues."""
    return Markup("".join(comment_html(asked, one) for one in view.comments.values()))  # noqa: S704  a template made it


def first_step_of(view: Conversation) -> int:
    """Return the first of the newest steps: all that may still change are among them."""
    count = len(view.steps)
    return max(0, count - MOST_OPEN, min(newest(range(count)), view.first_open_step))


def _here(asked: DeskRequest) -> tuple[str, ...]:
    return "conversations", asked.run_id


# --- The live stream -----------------------------------------------------------------------------

_Shown: TypeAlias = tuple[Step, tuple[Leavable, ...]]
"""A step, and what the model does not read of it."""


@dataclass
class LiveLists:
    """Both lists in one browser.

    Attributes:
        first_message: the key of the first message; None for as many as a page shows.
        first_step: the number of the first step; None for as many as a page shows.
    """

    first_message: int | None = None
    first_step: int | None = None
    _messages: LiveList[Bubble] = field(default_factory=lambda: LiveList[Bubble]("talk"))
    _steps: LiveList[_Shown] = field(default_factory=lambda: LiveList[_Shown]("steps"))
    _comments: LiveList[Comment] = field(default_factory=lambda: LiveList[Comment]("comments"))

    def changes(self, asked: DeskRequest, view: Conversation) -> list[str]:
        """Return what the browser swaps in."""
        keys = message_keys(view.customer.messages)
        if self.first_message is None:
            self.first_message = key_at(keys, newest(keys))
        if self.first_step is None:
            self.first_step = first_step_of(view)
        at = newest(keys, self.first_message)
        messages = {one.id: one for one in view.bubbles(at)}
        steps = {
            f"{one.number}": (one, view.left_out(one)) for one in view.steps[self.first_step :]
        }
        return [
            *self._messages.changes(messages, lambda one: message_html(asked, one)),
            *self._steps.changes(steps, lambda one: step_html(asked, view, one[0].number)),
            *self._comments.changes(view.comments, lambda one: comment_html(asked, one)),
        ]
