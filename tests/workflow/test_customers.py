"""For whom a run works: found, kept apart and deleted by the customer's id."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from temporalio.client import Client

from outlast import Customer, Runner
from outlast.agents.agent import Agent
from outlast.agents.errors import UserError
from outlast.client.handle import RunHandle
from outlast.client.runs import RunFilter, list_runs
from outlast.contract import names
from outlast.encryption import EncryptionCodec
from outlast.testing import ScriptedModel, call
from outlast.views.run import loop_state
from tests.workflow.codecs import Sealed, with_codec
from tests.workflow.desk import PATIENCE_SECONDS, Desk

HELPER = Agent[Any](name="Helper")


def maria(desk: Desk) -> Customer:
    """Return a customer whom no other test has."""
    return Customer(f"c-17-{desk.queue}", "Maria Olsen", "pt-BR")


async def found(client: Client, customer: str, wanted: int) -> set[str]:
    """Return the runs that are listed for a customer, once there are as many."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            page = await list_runs(client, RunFilter(customer=customer))
            if len(page) >= wanted:
                return {one.run_id for one in page}
            await asyncio.sleep(0.05)


@asynccontextmanager
async def waiting(desk: Desk, customer: Customer, *clients: Client) -> AsyncGenerator[list[str]]:
    """Start a run that no worker takes with each client, and end it with the test."""
    handles = [
        await Runner.start(
            HELPER.name, "Hello", client=one, task_queue=f"{desk.queue}-nobody", customer=customer
        )
        for one in clients
    ]
    yield [one.id for one in handles]
    for one in handles:
        await desk.client.get_workflow_handle(one.id).terminate()


async def test_runs_and_their_nested_runs_are_found_by_customer(desk: Desk) -> None:
    agent = Agent[Any](name="Clerk", tools=[HELPER.as_tool("ask_helper", "Ask.")])
    asks = [call("ask_helper", "n1", input="Well?")]
    await desk.open(agent, HELPER, model=ScriptedModel(asks, "Yes.", "It is.", "Hello."))
    whose = maria(desk)
    hers = await desk.start(agent, "Is it?", customer=whose)
    await desk.result(hers)
    others = await desk.start(agent, "Hello", customer=f"c-1-{desk.queue}")
    await desk.result(others)

    listed = await found(desk.client, whose.id, 2)
    nested = listed - {hers.id}
    assert [one.startswith(f"{hers.id}/") for one in nested] == [True]
    assert await found(desk.client, f"c-1-{desk.queue}", 1) == {others.id}
    assert (loop_state(await hers.state())).start.customer == whose
    for run_id in nested:
        assert (loop_state(await RunHandle(desk.client, run_id).state())).start.customer == whose


async def test_with_a_codec_the_server_lists_a_digest_and_any_key_finds_it(desk: Desk) -> None:
    keys, whose = {"old": os.urandom(32), "new": os.urandom(32)}, maria(desk)
    before, after, other = (
        with_codec(desk.client, codec)
        for codec in (
            EncryptionCodec({"old": keys["old"]}, "old"),
            EncryptionCodec(keys, "new"),
            EncryptionCodec({"old": os.urandom(32)}, "old"),
        )
    )
    async with waiting(desk, whose, before, after) as ids:
        for run_id in ids:
            described = await desk.client.get_workflow_handle(run_id).describe()
            listed = dict(described.raw_info.search_attributes.indexed_fields)
            assert names.ATTRIBUTE_CUSTOMER in listed
            assert b"c-17" not in b"".join(one.data for one in listed.values())
        assert await found(after, whose.id, 2) == set(ids)
        assert await found(before, whose.id, 1) == {ids[0]}
        assert await found(other, whose.id, 0) == set()
        assert await found(desk.client, whose.id, 0) == set(), "nor by the plain id"


async def test_a_codec_without_digests_leaves_customers_unlisted(desk: Desk) -> None:
    client = with_codec(desk.client, Sealed(os.urandom(32)))
    async with waiting(desk, maria(desk), client) as (run_id,):
        described = await desk.client.get_workflow_handle(run_id).describe()
        listed = described.raw_info.search_attributes.indexed_fields
        assert names.ATTRIBUTE_AGENT in listed
        assert names.ATTRIBUTE_CUSTOMER not in listed
        with pytest.raises(UserError, match="digests_of"):
            await list_runs(client, RunFilter(customer="c-17"))


async def test_the_same_words_and_id_of_another_customer_are_another_run(desk: Desk) -> None:
    await desk.open(HELPER, model=ScriptedModel("One.", "Two."))
    run_id, whose = desk.new_id(), maria(desk)
    first = await desk.run(HELPER, "Hello", id=run_id, customer=whose)
    renamed = Customer(whose.id, "M. Olsen")
    same = await desk.run(HELPER, "Hello", id=run_id, customer=renamed)
    second = await desk.run(HELPER, "Hello", id=run_id, customer="c-1")
    assert [one.final_output for one in (first, same, second)] == ["One.", "One.", "Two."]
