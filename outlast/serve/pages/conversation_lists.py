"""The two lists of a conversation's page, messages and steps: their newest entries, and more on demand.

A page names the first of its newest entries when it asks for its live stream. So a stream that comes
back begins where the page does, and what was loaded before that stays as it is.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeAlias

from markupsafe import Markup

from outlast.client.timeline import Step
from outlast.serve.pages.conversation_view import Bubble, Conversation, Leavable, took
from outlast.serve.pages.live import LiveList
from outlast.serve.pages.page import fragment, version_of
from outlast.serve.pages.parts import (
    earlier_html,
    key_at,
    message_keys,
    newest,
    newest_parts,
    parts_before,
    wanted_key,
)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Lists:
    """What a page shows of both lists.

    Attributes:
        messages: the newest messages.
        earlier_messages: what stands before them: links, and messages around a wanted one.
        first_message: the key of the first of the newest messages.
        steps: the newest steps.
        earlier_steps: what stands before them.
        first_step: the number of the first of the newest steps.
        comments: what people wrote for colleagues.
    """

    messages: Markup
    earlier_messages: Markup
    first_message: int
    steps: Markup
    earlier_steps: Markup
    first_step: int
    comments: Markup


def lists_of(asked: DeskRequest, view: Conversation) -> Lists:
    """Return what a page shows; its address may name a `message` and a `step`."""
    query = asked.http.query_params
    keys, numbers = message_keys(view.customer.messages), range(len(view.steps))
    first, first_step = newest(keys), first_step_of(view)
    parts = parts_before(keys, first, wanted_key(query, "message"))
    step_parts = parts_before(numbers, first_step, wanted_key(query, "step"))
    messages, steps = partial(_messages, asked, view), partial(_steps, asked, view)
    return Lists(
        messages=Markup(_messages(asked, view, first, None)),  # noqa: S704  templates made it
        earlier_messages=earlier_html(asked, _here(asked), parts, "message", messages),
        first_message=key_at(keys, first),
        steps=Markup(_steps(asked, view, first_step, len(numbers))),  # noqa: S704  as above
        earlier_steps=earlier_html(asked, _here(asked), step_parts, "step", steps),
        first_step=first_step,
        comments=Markup("".join(comment_html(asked, one) for one in view.comments.values())),  # noqa: S704  as above
    )


def first_step_of(view: Conversation) -> int:
    """Return the first of the newest steps: all that may still change are among them."""
    count = len(view.steps)
    return max(0, count - MOST_OPEN, min(newest(range(count)), view.first_open_step))


def more_messages(asked: DeskRequest, view: Conversation) -> Markup:
    """Return the newest messages of a part that the address names by its two ends."""
    keys = message_keys(view.customer.messages)
    parts = newest_parts(keys, asked.http.query_params)
    entries = partial(_messages, asked, view)
    return earlier_html(asked, _here(asked), parts, "message", entries)


def more_steps(asked: DeskRequest, view: Conversation) -> Markup:
    """Return the newest steps of a part that the address names by its two ends."""
    parts = newest_parts(range(len(view.steps)), asked.http.query_params)
    return earlier_html(asked, _here(asked), parts, "step", partial(_steps, asked, view))


def _here(asked: DeskRequest) -> tuple[str, ...]:
    return "conversations", asked.run_id


def _messages(asked: DeskRequest, view: Conversation, start: int, stop: int | None) -> str:
    return "".join(message_html(asked, one) for one in view.bubbles(start, stop))


def _steps(asked: DeskRequest, view: Conversation, start: int, stop: int) -> str:
    return "".join(step_html(asked, view, number) for number in range(start, stop))


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
