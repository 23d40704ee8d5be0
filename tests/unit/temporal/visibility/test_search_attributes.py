"""Search attributes on a real server."""

import asyncio
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.api.operatorservice.v1 import ListSearchAttributesResponse
from temporalio.client import Client
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.service import RPCError, RPCStatusCode

from outlast.agents.errors import UserError
from outlast.temporal.visibility.search_attributes import ensure_search_attributes
from tests.servers import TemporalServer


@pytest.fixture(scope="module")
async def client(server: TemporalServer) -> Client:
    return await server.connect()


@pytest.mark.smoke
async def test_what_is_missing_is_made_once(client: Client):
    wanted = {"OutlastAgent": "Keyword", "OutlastGroups": "KeywordList", "OutlastPending": "Int"}
    assert await ensure_search_attributes(client, wanted) == ["OutlastGroups", "OutlastPending"]
    assert await ensure_search_attributes(client, wanted) == []
    assert await ensure_search_attributes(client, {}) == []


async def test_a_new_attribute_can_be_used_at_once(client: Client):
    await ensure_search_attributes(client, {"OutlastFresh": "Bool"})
    key = SearchAttributeKey.for_bool("OutlastFresh")
    handle = await client.start_workflow(
        "Nobody",
        id="fresh",
        task_queue="nobody",
        execution_timeout=timedelta(minutes=1),
        search_attributes=TypedSearchAttributes([SearchAttributePair(key, value=True)]),
    )
    description = await handle.describe()
    assert description.typed_search_attributes.get(key) is True


async def test_two_processes_may_make_the_same_attribute_at_once(client: Client):
    made = await asyncio.gather(
        *(ensure_search_attributes(client, {"OutlastRace": "Text"}) for _ in range(5))
    )
    assert ["OutlastRace"] in made


async def test_an_attribute_of_another_type_is_an_error(client: Client):
    with pytest.raises(UserError, match=r"'OutlastAgent' .* has another type than Int"):
        await ensure_search_attributes(client, {"OutlastAgent": "Int"})


async def test_an_unknown_type_is_an_error(client: Client):
    with pytest.raises(UserError, match=r"unknown type 'String'\. Types are Bool, .*, Text"):
        await ensure_search_attributes(client, {"OutlastAgent": "String"})


class StrictOperatorService:
    """A server that has no attribute when it is asked, and refuses every new one."""

    def __init__(self, status: RPCStatusCode) -> None:
        self.status = status

    async def list_search_attributes(self, _request: Any) -> ListSearchAttributesResponse:
        return ListSearchAttributesResponse()

    async def add_search_attributes(self, _request: Any) -> None:
        raise RPCError("refused", self.status, b"")


class SlowOperatorService:
    """A server that accepts new attributes, and knows them at the third search."""

    def __init__(self) -> None:
        self.searches: list[str] = []

    async def list_search_attributes(self, _request: Any) -> ListSearchAttributesResponse:
        return ListSearchAttributesResponse()

    async def add_search_attributes(self, _request: Any) -> None: ...

    async def count_workflows(self, query: str) -> None:
        self.searches.append(query)
        if len(self.searches) < 3:
            raise RPCError("no mapping defined", RPCStatusCode.INVALID_ARGUMENT, b"")


async def test_a_new_attribute_is_there_when_the_server_accepts_it():
    service = SlowOperatorService()
    client: Any = SimpleNamespace(
        namespace="default", operator_service=service, count_workflows=service.count_workflows
    )
    assert await ensure_search_attributes(client, {"A": "Keyword", "B": "Bool"}) == ["A", "B"]
    assert service.searches == ["A = '-' AND B = true"] * 3


async def anything(_query: str) -> None: ...


async def test_an_attribute_made_by_somebody_else_in_the_meantime_is_fine():
    service = StrictOperatorService(RPCStatusCode.ALREADY_EXISTS)
    client: Any = SimpleNamespace(
        namespace="default", operator_service=service, count_workflows=anything
    )
    assert await ensure_search_attributes(client, {"OutlastAgent": "Keyword"}) == ["OutlastAgent"]


async def test_a_refusal_of_the_server_is_passed_on():
    service = StrictOperatorService(RPCStatusCode.RESOURCE_EXHAUSTED)
    client: Any = SimpleNamespace(namespace="default", operator_service=service)
    with pytest.raises(RPCError, match="refused"):
        await ensure_search_attributes(client, {"OutlastAgent": "Keyword"})
