"""The two lists of a conversation's page, messages and steps: their newest entries, and more on demand.

A page names the first of its newest entries when it asks for its live stream. So a stream that comes
back begins where the page does, and what was loaded before that stays as it is.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from markupsafe import Markup

from outlast.client.timeline import Step
from outlast.serve.pages.conversation_view import Bubble, Conversation, Leavable, took
from outlast.serve.pages.page import fragment, link
from outlast.serve.pages.parts import (
    Part,
    key_at,
    message_keys,
    newest,
    newest_parts,
    parts_before,
    wanted_key,
)
from outlast.serve.routing import DeskRequest

MOST_OPEN: Final = 500
"""The most steps that a page shows so that those which may still change are among them."""


# --- Entries -------------------------------------------------------------------------------------


def message_html(asked: DeskRequest, one: Bubble) -> str:
    """Return a message."""
    return fragment(asked, "conversation_bubble.html", one=one)


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
    """

    messages: Markup
    earlier_messages: Markup
    first_message: int
    steps: Markup
    earlier_steps: Markup
    first_step: int


def lists_of(asked: DeskRequest, view: Conversation) -> Lists:
    """Return what a page shows; its address may name a `message` and a `step`."""
    query = asked.http.query_params
    keys, numbers = message_keys(view.customer.messages), range(len(view.steps))
    first, first_step = newest(keys), first_step_of(view)
    parts = parts_before(keys, first, wanted_key(query, "message"))
    step_parts = parts_before(numbers, first_step, wanted_key(query, "step"))
    return Lists(
        messages=_messages(asked, view, first, None),
        earlier_messages=_shown(asked, parts, "message", _messages_of(asked, view)),
        first_message=key_at(keys, first),
        steps=_steps(asked, view, first_step, len(numbers)),
        earlier_steps=_shown(asked, step_parts, "step", _steps_of(asked, view)),
        first_step=first_step,
    )


def first_step_of(view: Conversation) -> int:
    """Return the first of the newest steps: all that may still change are among them."""
    count = len(view.steps)
    return max(0, count - MOST_OPEN, min(newest(range(count)), view.first_open_step))


def more_messages(asked: DeskRequest, view: Conversation) -> Markup:
    """Return the newest messages of a part that the address names by its two ends."""
    keys = message_keys(view.customer.messages)
    parts = newest_parts(keys, *_ends(asked.http.query_params))
    return _shown(asked, parts, "message", _messages_of(asked, view))


def more_steps(asked: DeskRequest, view: Conversation) -> Markup:
    """Return the newest steps of a part that the address names by its two ends."""
    parts = newest_parts(range(len(view.steps)), *_ends(asked.http.query_params))
    return _shown(asked, parts, "step", _steps_of(asked, view))


def _ends(query: Mapping[str, str]) -> tuple[int, int]:
    return wanted_key(query, "after") or 0, wanted_key(query, "before") or 0


def _messages(asked: DeskRequest, view: Conversation, start: int, stop: int | None) -> Markup:
    return _joined(message_html(asked, one) for one in view.bubbles(start, stop))


def _steps(asked: DeskRequest, view: Conversation, start: int, stop: int) -> Markup:
    return _joined(step_html(asked, view, number) for number in range(start, stop))


def _messages_of(asked: DeskRequest, view: Conversation) -> Callable[[Part], Markup]:
    return lambda part: _messages(asked, view, part.start, part.stop)


def _steps_of(asked: DeskRequest, view: Conversation) -> Callable[[Part], Markup]:
    return lambda part: _steps(asked, view, part.start, part.stop)


def _shown(
    asked: DeskRequest, parts: Sequence[Part], noun: str, entries: Callable[[Part], Markup]
) -> Markup:
    here = ("conversations", asked.run_id)
    return _joined(
        entries(part)
        if part.is_shown
        else fragment(
            asked,
            "part_link.html",
            part=part,
            noun=noun,
            address=link(asked, *here, **{noun: str(part.around)}),
            more=link(
                asked, *here, f"more-{noun}s", after=str(part.after), before=str(part.before)
            ),
        )
        for part in parts
    )


def _joined(parts: Iterable[str]) -> Markup:
    return Markup("".join(parts))  # noqa: S704  templates made them


# --- The live stream -----------------------------------------------------------------------------


@dataclass
class LiveMessages:
    """The newest messages in one browser, to send it what has changed.

    Attributes:
        first: the key of the first one; None for as many as a page shows.
    """

    first: int | None = None
    _known: list[Bubble] | None = None

    def changes(self, asked: DeskRequest, view: Conversation) -> list[str]:
        """Return what the browser swaps in."""
        keys = message_keys(view.customer.messages)
        if self.first is None:
            self.first = key_at(keys, newest(keys))
        known, now = self._known, view.bubbles(newest(keys, self.first))
        self._known = now
        if known is None or [one.id for one in known] != [one.id for one in now[: len(known)]]:
            return [_all("talk", (message_html(asked, one) for one in now))]
        changed = [
            _replacing(message_html(asked, one))
            for one, before in zip(now, known, strict=False)
            if one != before
        ]
        return changed + _added("talk", [message_html(asked, one) for one in now[len(known) :]])


_Shown: TypeAlias = tuple[Step, tuple[Leavable, ...]]
"""A step, and what the model does not read of it."""


@dataclass
class LiveSteps:
    """The newest steps in one browser, to send it what has changed.

    Attributes:
        first: the number of the first one; None for as many as a page shows.
    """

    first: int | None = None
    _known: list[_Shown] = field(default_factory=list[_Shown])

    def changes(self, asked: DeskRequest, view: Conversation) -> list[str]:
        """Return what the browser swaps in."""
        if self.first is None:
            self.first = first_step_of(view)
        first, known = self.first, self._known
        now: list[_Shown] = [(step, view.left_out(step)) for step in view.steps[first:]]
        self._known = now
        if not known:
            numbers = range(first, first + len(now))
            return [_all("steps", (step_html(asked, view, number) for number in numbers))]
        changed = [
            _replacing(step_html(asked, view, first + at))
            for at, (step, before) in enumerate(zip(now, known, strict=False))
            if step != before
        ]
        added = range(first + len(known), first + len(now))
        return changed + _added("steps", [step_html(asked, view, number) for number in added])


def _all(name: str, entries: Iterable[str]) -> str:
    return f'<ol id="{name}" hx-swap-oob="innerHTML">{"".join(entries)}</ol>'


def _replacing(entry: str) -> str:
    return entry.replace("<li ", '<li hx-swap-oob="true" ', 1)


def _added(name: str, entries: Sequence[str]) -> list[str]:
    return [f'<ol hx-swap-oob="beforeend:#{name}">{"".join(entries)}</ol>'] if entries else []
