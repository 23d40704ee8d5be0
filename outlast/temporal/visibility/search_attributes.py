"""Ensures that a namespace has the required search attributes."""

import asyncio
from collections.abc import Mapping
from time import monotonic
from typing import TYPE_CHECKING, Final

from outlast.agents.errors import UserError

if TYPE_CHECKING:
    from temporalio.api.enums.v1 import IndexedValueType
    from temporalio.client import Client

PATIENCE_SECONDS: Final = 20.0
"""How long a server may take to accept a newly added attribute."""

_LOOK_SECONDS = 0.1

_RARE_VALUES = {
    "Bool": "true",
    "Datetime": "'1970-01-01T00:00:00Z'",
    "Double": "0",
    "Int": "0",
    "Keyword": "'-'",
    "KeywordList": "'-'",
    "Text": "'none'",
}
"""Values for queries in which only the attribute's name matters, by type."""


async def ensure_search_attributes(client: "Client", attributes: Mapping[str, str]) -> list[str]:
    """Add the search attributes that the client's namespace lacks; return their names.

    A development server ignores its own flag for search attributes when the database exists, and
    other servers have no such flag. A repeated call changes nothing. New attributes can be used
    when the call returns: a cluster reloads its list every few seconds and rejects them until
    then.

    Raises:
        UserError: a type is unknown, or the attribute exists with another type.
        temporalio.service.RPCError: the server refuses, for instance because the limit for attributes
            of the type is reached.
    """
    if not attributes:
        return []
    from temporalio.api.operatorservice.v1 import (
        AddSearchAttributesRequest,
        ListSearchAttributesRequest,
    )
    from temporalio.service import RPCError, RPCStatusCode

    wanted = {name: _indexed_type(name, kind) for name, kind in attributes.items()}
    listed = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=client.namespace)
    )
    existing = {**listed.system_attributes, **listed.custom_attributes}
    for name, kind in wanted.items():
        if existing.get(name, kind) != kind:
            raise UserError(
                f"The search attribute {name!r} of namespace {client.namespace!r} has another type "
                f"than {attributes[name]}. Remove it there, or start from another data directory."
            )
    missing = {name: kind for name, kind in wanted.items() if name not in existing}
    if missing:
        request = AddSearchAttributesRequest(namespace=client.namespace, search_attributes=missing)
        try:
            await client.operator_service.add_search_attributes(request)
        except RPCError as error:
            # Another process has added the attribute meanwhile.
            if error.status is not RPCStatusCode.ALREADY_EXISTS:
                raise
        await _until_accepted(client, {name: attributes[name] for name in missing})
    return list(missing)


async def _until_accepted(client: "Client", attributes: Mapping[str, str]) -> None:
    deadline = monotonic() + PATIENCE_SECONDS
    while await lacks_search_attributes(client, attributes) and monotonic() < deadline:  # noqa: ASYNC110  nothing announces it
        await asyncio.sleep(_LOOK_SECONDS)


async def lacks_search_attributes(client: "Client", attributes: Mapping[str, str]) -> bool | None:
    """Return whether the namespace lacks a search attribute; None if that is unknown.

    The check is a query that names the attributes. It needs no permission beyond a worker's.
    """
    from temporalio.service import RPCError, RPCStatusCode

    query = " AND ".join(f"{name} = {_RARE_VALUES[kind]}" for name, kind in attributes.items())
    try:
        await client.count_workflows(query)
    except RPCError as error:
        return True if error.status is RPCStatusCode.INVALID_ARGUMENT else None
    return False


def _indexed_type(name: str, kind: str) -> "IndexedValueType.ValueType":
    from temporalio.api.enums.v1 import IndexedValueType

    types = {
        "Bool": IndexedValueType.INDEXED_VALUE_TYPE_BOOL,
        "Datetime": IndexedValueType.INDEXED_VALUE_TYPE_DATETIME,
        "Double": IndexedValueType.INDEXED_VALUE_TYPE_DOUBLE,
        "Int": IndexedValueType.INDEXED_VALUE_TYPE_INT,
        "Keyword": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
        "KeywordList": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD_LIST,
        "Text": IndexedValueType.INDEXED_VALUE_TYPE_TEXT,
    }
    if kind not in types:
        raise UserError(
            f"The search attribute {name!r} has the unknown type {kind!r}. Types are "
            f"{', '.join(types)}."
        )
    return types[kind]
