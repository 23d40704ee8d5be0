"""Links from mails and chats to requests on the desk.

A link gives nobody a right: the desk asks who opens it, and decides for what its page shows.
"""

from urllib.parse import quote, urlsplit

from outlast.agents.errors import UserError
from outlast.agents.hosts import is_this_machine
from outlast.notifications.http import check_url
from outlast.ports.notifier import Notification


def check_link_base(address: object) -> str:
    """Return the address of the desk, without a slash at its end."""
    base = check_url(address, "link_base").rstrip("/")
    parts = urlsplit(base)
    if parts.query or parts.fragment:
        raise UserError("link_base= must be the address of the desk, without a query.")
    if parts.scheme != "https" and not is_this_machine(parts.hostname or ""):
        raise UserError("link_base= must begin with https://, because people log in there.")
    return base


def request_address(base: str, notice: Notification) -> str | None:
    """Return the address of a notification's request on the desk, or of who was mentioned.

    None if it has no request.

    The id of a run may be used again, and its requests count from `a1`: the time of the request
    lets the page say that the link is of an earlier one.
    """
    is_mention = notice.event == "mentioned"
    if not notice.execution or not (notice.request_id or is_mention):
        return None  # a run in memory is on no desk
    run, request = (
        quote(one.encode("utf-8", "replace"), safe="") for one in (notice.run_id, notice.request_id)
    )
    if is_mention:
        return f"{base}/conversations/{run}"
    return f"{base}/conversations/{run}/requests/{request}?asked={notice.requested_at_ms}"
