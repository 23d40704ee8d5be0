"""The customer's view for pages."""

from dataclasses import replace

from temporalio.client import Client

from outlast.loop.state import LoopState
from outlast.serve.content import whole_state
from outlast.serve.customer_view import CustomerView, customer_view


async def view_of(client: Client, state: LoopState) -> CustomerView:
    """Return what a customer sees of a run, with all of its texts; files stay where they are."""
    view = customer_view(await whole_state(client, state, files=False))
    # No worker has taken the run yet, so its first message is nowhere.
    return replace(view, works=True) if state.phase == "new" else view
