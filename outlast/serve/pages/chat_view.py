"""The customer's view for pages."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from temporalio.client import Client

from outlast.serve.content import whole_state
from outlast.serve.pages.parts import message_key
from outlast.serve.troubles import customer_trouble
from outlast.views.customer import CustomerView, customer_view
from outlast.views.run import RunSnapshot
from outlast.views.trouble import QUIET, ServerFacts, with_first_message


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatView(CustomerView):
    """A conversation as the chat shows it.

    Attributes:
        status: what it waits for, as the name of the words for it in a `Look`; empty for nothing.
    """

    status: str = ""


async def view_of(
    client: Client,
    state: RunSnapshot,
    facts: ServerFacts = QUIET,
    times: Sequence[int] = (),
) -> ChatView:
    """Return what a customer sees of a run, with all of its texts; files stay where they are.

    Args:
        client: connected to the runs' server.
        state: the run.
        facts: what the server says about it.
        times: when each item of the transcript was written: see `Timeline`; newer ones may lack.
    """
    present = with_first_message(state, facts)
    view = customer_view(await whole_state(client, present, files=False))
    seen: dict[str, Any] = {one.name: getattr(view, one.name) for one in fields(CustomerView)}
    seen["works"] = view.works or not state.has_begun  # no worker has taken its first message yet
    seen |= {"trouble": customer_trouble(state, facts), "is_live": facts.answers}
    at_ms = dict(enumerate(times))
    seen["messages"] = tuple(
        replace(one, at_ms=at_ms.get(message_key(one.id)) or None) for one in view.messages
    )
    return ChatView(**seen, status=status_of(present, view, works=seen["works"]))


def status_of(state: RunSnapshot, view: CustomerView, *, works: bool) -> str:
    """Return what a conversation waits for, where no policy has words for it."""
    if view.has_ended:
        return "ended"
    if view.with_colleague and state.hold is None:
        return "team"
    if view.with_colleague:
        last = "customer" if view.unread or not view.messages else view.messages[-1].by
        return {"customer": "looks", "colleague": "your_turn"}.get(last, "taken")
    if works:
        return "request" if state.pending_approvals else "works"
    return ""
