"""Whether two starts with the same id mean the same run; see docs/design/0005.

Each part of a start has a digest in the run's memo: what was asked, in which context, for whom.
"""

import hashlib
import json
import re
from dataclasses import replace
from typing import Any, Final, cast

from outlast.blobs import large_content
from outlast.client.start.tenant import Tenant
from outlast.contract import names, records
from outlast.contract.records import RunInput, customer_of
from outlast.loop.start import OWN_AGENTS
from outlast.loop.values import Json, JsonObject

_OWNER: Final = "tenant or customer"
_PARTS: Final = ("agent or input", "context", _OWNER, "conversation")
_CLASS: Final = re.compile(r'("\$(?:class|value|enum)": "[^"]*#[0-9a-f]{8})/[0-9a-f]{8}-\d+(?=")')
"""The name of a class made in a function: what follows the slash is another one in each process."""

_LENGTH: Final = 16  # 64 bits: no two starts of an id are alike by chance


def start_digest(record: RunInput, tenant: Tenant | None, *, is_new_session: bool = False) -> str:
    """Return the digest of a start: one for each part, joined with dots.

    A new session got its id from a server for this start, so a second start of the same program
    has another one, which says nothing.
    """
    settings = record.settings or {}
    parts: list[Json] = [
        [record.agent, record.input, record.keep_open],
        record.context,
        [tenant.name if tenant is not None else None, customer_of(settings).id or None],
        None if is_new_session else _conversation(record, settings),
    ]
    texts = (_CLASS.sub(r"\1", json.dumps(part, sort_keys=True)) for part in parts)
    return ".".join(hashlib.sha256(text.encode()).hexdigest()[:_LENGTH] for text in texts)


async def recorded_digest(
    client: Any, payload: Any, tenant: Tenant | None, *, is_new: bool = False
) -> str:
    """Return the digest of a start from what its history says; empty if no program made it.

    `payload` is the input of the run's first execution. `is_new` says that the start which asks has
    a new session.

    Raises:
        ContentUnavailable: a part of the input is in a store, and cannot be read.
    """
    try:
        record = records.read(RunInput, payload)
    except records.UnreadableRecordError:
        return ""
    settings = record.settings or {}
    if record.carried or record.parent or OWN_AGENTS in settings:
        return ""
    whole = await large_content(client=client).joined(cast("Json", record.input))
    record = replace(record, input=cast("str | list[JsonObject]", whole))
    return start_digest(record, tenant, is_new_session=is_new)


def _conversation(record: RunInput, settings: JsonObject) -> Json:
    data = cast("JsonObject", settings.get(names.SETTING_SESSION) or {})
    thread = record.thread
    return [
        data.get("session_id", data.get("conversation_id")),
        *([data["store"]] if "store" in data else []),
        thread.conversation_id if thread is not None else None,
        thread.previous_response_id if thread is not None else None,
    ]


def difference(before: str, now: str) -> str:
    """Return which parts of two starts differ, in words; empty if they mean the same run."""
    was, parts = before.split("."), now.split(".")
    if len(was) != len(parts):  # a run that was not started by a client of ours
        return _PARTS[0]
    return ", ".join(
        name for name, one, other in zip(_PARTS, was, parts, strict=True) if one != other
    )


def has_other_owner(before: str, now: str) -> bool:
    """Whether two starts are for different tenants or customers."""
    return before.count(".") == now.count(".") and _OWNER in difference(before, now)
