"""The customer's view for pages."""

from dataclasses import replace

from temporalio.client import Client

from outlast.serve.content import whole_state
from outlast.serve.troubles import customer_trouble
from outlast.views.customer import CustomerView, customer_view
from outlast.views.run import RunSnapshot
from outlast.views.trouble import QUIET, ServerFacts, with_first_message


async def view_of(client: Client, state: RunSnapshot, facts: ServerFacts = QUIET) -> CustomerView:
    """Return what a customer sees of a run, with all of its texts; files stay where they are."""
    present = with_first_message(state, facts)
    view = customer_view(await whole_state(client, present, files=False))
    works = view.works or not state.has_begun  # no worker has taken its first message yet
    trouble = customer_trouble(state, facts)
    return replace(view, works=works, trouble=trouble, is_live=facts.answers)
