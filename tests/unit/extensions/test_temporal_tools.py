"""Workflows and Nexus operations as tools: names, schemas, and runs in memory."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any

import nexusrpc
import pytest
from pydantic import BaseModel, Field
from temporalio import workflow

from outlast import Agent, FunctionTool, UserError, nexus_tool, workflow_tool
from outlast.testing import NOTHING_COMES, ScriptedModel, call, run_in_memory

TWO_DAYS = timedelta(days=2)


class Address(BaseModel):
    """Where to."""

    street: str
    zip_code: Annotated[str, Field(alias="zip")]


@dataclass
class Shipment:
    """A parcel on its way."""

    tracking: str
    days: int


@workflow.defn
class ShipOrder:
    """Ship orders."""

    @workflow.run
    async def run(self, order: str, to: Address, days: int = 3) -> Shipment:
        """Ship an order.

        Args:
            order: the order's number.
            to: where it goes.
            days: how long it may take.
        """
        raise NotImplementedError


@workflow.defn(name="tidy up the HTTPServer")
class TidyUp:
    """Tidies up."""

    @workflow.run
    async def run(self) -> None:
        raise NotImplementedError


@nexusrpc.service(name="Depot")
class Warehouse:
    """A warehouse of another team."""

    reserve: nexusrpc.Operation[Address, Shipment]
    ping: nexusrpc.Operation[None, str]


SHIPS = {"order": "A-42", "to": {"street": "Elm 1", "zip": "12345"}, "days": 2}


def schema_of(tool: FunctionTool) -> dict[str, Any]:
    """Return the properties of a tool's arguments."""
    return tool.params_json_schema["properties"]


async def said(tool: FunctionTool, outcome: Any, **arguments: Any) -> str:
    """Return what the model reads of a call in a run in memory."""
    agent = Agent[Any](name="Desk", tools=[tool])
    model = ScriptedModel([call(tool.name, "c1", **arguments)], "Done.")
    name = {"ship_order": "ShipOrder", "reserve": "reserve"}[tool.name]
    result = await run_in_memory(agent, "Hi", model=model, deliver={name: outcome})
    assert result.final_output == "Done."
    return model.requests[1].input[-1]["output"]


def test_a_workflow_gives_its_tool_the_name_the_words_and_the_parameters() -> None:
    tool = workflow_tool(ShipOrder.run)
    assert (tool.name, tool.description) == ("ship_order", "Ship an order.")
    assert list(schema_of(tool)) == ["order", "to", "days"]
    assert schema_of(tool)["order"]["description"] == "the order's number."
    assert tool.result_type is Shipment


def test_a_tool_may_say_otherwise() -> None:
    tool = workflow_tool(ShipOrder.run, name="ship", description="Ships.", effect="irreversible")
    assert (tool.name, tool.description, tool.effect) == ("ship", "Ships.", "irreversible")
    assert schema_of(tool)["order"]["description"] == "the order's number."
    tool = workflow_tool(TidyUp.run)
    assert (tool.name, tool.description) == ("tidy_up_the_http_server", "Tidies up.")
    assert schema_of(tool) == {}


def test_a_nexus_operation_gives_its_tool_the_input_as_a_parameter() -> None:
    tool = nexus_tool("depot", Warehouse, Warehouse.reserve)
    assert (tool.name, tool.description) == ("reserve", "A warehouse of another team.")
    assert list(schema_of(tool)) == ["input"]
    assert tool.result_type is Shipment
    assert schema_of(nexus_tool("depot", Warehouse, Warehouse.ping)) == {}


async def plain(order: str) -> str:
    """A function that is no workflow."""
    raise NotImplementedError


def as_any(value: Any) -> Any:
    """Hide a type from the type checker, as a program without one does."""
    return value


@workflow.defn
class TakesAll:
    """Takes any arguments."""

    @workflow.run
    async def run(self, *orders: str) -> None:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: workflow_tool(plain), r"pass the run method of a class with @workflow.defn"),
        (lambda: workflow_tool(as_any(ShipOrder)), r"such as ShipOrder.run, not <class"),
        (lambda: workflow_tool(TakesAll.run), r"the parameter 'orders' must be an ordinary one"),
        (lambda: workflow_tool(ShipOrder.run, timeout=timedelta(0)), r"timeout must be a positive"),
        (lambda: workflow_tool(ShipOrder.run, **as_any({"retries": 3})), r"has no option retries"),
        (lambda: workflow_tool(ShipOrder.run, name="a b"), r"A tool's name must be"),
        (lambda: nexus_tool("depot", Shipment, Warehouse.ping), r"no class with @nexusrpc.service"),
        (lambda: nexus_tool("", Warehouse, Warehouse.ping), r"must be a non-empty string"),
        (
            lambda: nexus_tool("depot", Warehouse, nexusrpc.Operation("pong")),
            r"no operation of the service. Its operations are ping, reserve.",
        ),
    ],
)
def test_what_is_no_operation_is_refused_in_words(make: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        make()


async def test_in_memory_the_test_delivers_the_outcome() -> None:
    tool = workflow_tool(ShipOrder.run, timeout=TWO_DAYS)
    outcome = {"result": {"tracking": "T1", "days": 2}}
    assert await said(tool, outcome, **SHIPS) == '{"tracking":"T1","days":2}'
    tool = nexus_tool("depot", Warehouse, Warehouse.reserve)
    assert await said(tool, outcome, input=SHIPS["to"]) == '{"tracking":"T1","days":2}'


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ({"failure": "The truck is broken."}, "ToolFailed: The truck is broken."),
        ({"result": {"tracking": "T1"}}, "ToolFailed: The result of ShipOrder is no "),
        ({"result": None}, "ToolFailed: The result of ShipOrder is no "),
        (NOTHING_COMES, "WaitTimeout: Nothing came for 'ShipOrder' in time."),
    ],
)
async def test_an_operation_that_fails_fails_the_call(outcome: Any, words: str) -> None:
    def shown(_: Any, error: Exception) -> str:
        return f"{type(error).__name__}: {error}"

    tool = workflow_tool(ShipOrder.run, timeout=TWO_DAYS, failure_error_function=shown)
    assert (await said(tool, outcome, **SHIPS)).startswith(words)


async def test_arguments_that_do_not_fit_start_nothing() -> None:
    tool = workflow_tool(ShipOrder.run)
    agent = Agent[Any](name="Desk", tools=[tool])
    model = ScriptedModel([call("ship_order", "c1", order=7)], "Done.")
    result = await run_in_memory(agent, "Hi", model=model)
    assert result.status == "completed"
    assert "Invalid JSON input for tool ship_order" in model.requests[1].input[-1]["output"]
