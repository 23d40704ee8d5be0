"""The pictures and files of a conversation, for the team.

What a file is, its bytes say. Browsers show pictures of four types alone; everything else is saved.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from starlette.datastructures import UploadFile
from starlette.responses import Response
from starlette.routing import BaseRoute

from outlast.deliveries.problems import Refused
from outlast.serve.content import file_answer, file_of
from outlast.serve.pages.live import present
from outlast.serve.pages.page import Form, form_of, show_page
from outlast.serve.pictures import checked_files
from outlast.serve.routing import DeskRequest, route
from outlast.serve.uploads import MOST_FILES, kind_of, parts_of, plain_name
from outlast.views.customer import customer_view
from outlast.views.trouble import with_first_message

_HEADERS: Final[Mapping[str, str]] = {"X-Content-Type-Options": "nosniff"}


async def _file(asked: DeskRequest) -> Response:
    """Answer with a file of a message, which the address names with its place in the message."""
    query = asked.http.query_params
    message_id, at = query.get("message", ""), query.get("at", "")
    now, _, _ = await present(asked.desk, asked.run_id)
    facts = await asked.desk.troubles.facts(asked.run_id, now.state)
    view = customer_view(with_first_message(now.state, facts))
    content = await file_of(asked.desk.client, view, message_id, at)
    if content is None:
        raise Refused(404, "file_not_found", "There is no such file.")
    response = file_answer(content)
    response.headers.update(_HEADERS)
    if "Content-Disposition" not in response.headers:
        return response
    messages = (*view.messages, *view.unread)
    found = next(one for one in messages if one.id == message_id)
    name = plain_name(str(found.attachments[int(at)].get("filename") or "file"))
    response.headers["Content-Type"] = kind_of(content)
    response.headers["Content-Disposition"] = f"attachment; filename*=UTF-8''{quote(name, safe='')}"
    return response


async def form_with_files(asked: DeskRequest) -> Form:
    """Return what a form sent, with its files as parts of a message that every provider takes.

    Raises:
        Refused: a file cannot be sent.
    """
    kind = asked.http.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind != "multipart/form-data":
        return await form_of(asked)
    async with asked.http.form(max_files=MOST_FILES + 1, max_fields=20) as sent:
        pairs = [(name, one) for name, one in sent.multi_items() if isinstance(one, str)]
        files = [one for _, one in sent.multi_items() if isinstance(one, UploadFile)]
        parts = await parts_of([one for one in files if one.filename])
    return Form(pairs, await checked_files(parts))


ROUTES: Final[list[BaseRoute]] = [
    route("/conversations/{run_id}/files", _file, action="view_run", show=show_page),
]
