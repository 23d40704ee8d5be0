"""The request that waits, on the page of its conversation: its details, and the forms that decide it.

The forms are those of the request's own page, and do the same.
"""

from markupsafe import Markup

from outlast.client.people.nested_requests import FoundRequest
from outlast.serve.access import Staff
from outlast.serve.pages.conversation_view import Conversation
from outlast.serve.pages.decisions import problems_of
from outlast.serve.pages.page import fragment
from outlast.serve.pages.request import forms_of
from outlast.serve.routing import DeskRequest
from outlast.views.records import ApprovalRequest


def first_waiting(asked: DeskRequest, view: Conversation) -> ApprovalRequest | None:
    """Return the request that the page lets its viewer decide: the first that they can, else the first.

    Requests of nested runs are decided on their own pages, where all that they show can be read.
    """
    if not isinstance(asked.caller, Staff):
        return None
    able = [
        any(not problem for problem in problems_of(one).values())
        for one, _ in view.waiting
        if one.run_id == view.state.run_id
    ]
    own = [one for one in view.state.pending_approvals if not _is_nested(one, view)]
    return next((one for one, is_able in zip(own, able, strict=True) if is_able), None) or next(
        iter(own), None
    )


def _is_nested(request: ApprovalRequest, view: Conversation) -> bool:
    return bool(request.run_id) and request.run_id != view.state.run_id


def deciding_html(
    asked: DeskRequest, view: Conversation, request: ApprovalRequest | None
) -> Markup:
    """Return a waiting request with its forms; nothing without one."""
    if request is None:
        return Markup("")
    found = FoundRequest(request, view.state)
    values = forms_of(asked, found, view.proofs) | {"within": True}
    more = len(view.waiting) - 1
    text = fragment(asked, "conversation_deciding.html", **values, more=more)
    return Markup(text)  # noqa: S704  a template made it
