"""What a decision reads: each history at most once, and none where the caller has the request."""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.client.handle import RunHandle
from outlast.client.identity import person
from outlast.contract.identity import new_shared_key
from outlast.testing import ScriptedModel, call
from tests.workflow.desk import Desk, waits_for
from tests.workflow.people import clerk, refunds
from tests.workflow.test_desk_api import app_of, opened
from tests.workflow.test_desk_pages import form_in

ANN = person("ann", groups=["billing"])


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The desk proves who decides."""
    monkeypatch.setenv("OUTLAST_IDENTITY_KEY", new_shared_key())


@pytest.fixture
def read(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The histories that are read, by the id of the run; a page that goes on is no second read."""
    counted: Counter[str] = Counter()
    service = desk.client.workflow_service
    ask = service.get_workflow_execution_history

    async def counting(request: Any, **options: Any) -> Any:
        if not request.next_page_token:
            counted[request.execution.workflow_id] += 1
        return await ask(request, **options)

    monkeypatch.setattr(service, "get_workflow_execution_history", counting)
    return counted


Way = Callable[[Any, RunHandle, Any], Awaitable[None]]


async def by_id(http: Any, run: RunHandle, request: Any) -> None:
    await run.approve(request.id, by=ANN)


async def by_request(http: Any, run: RunHandle, request: Any) -> None:
    await run.approve(request, by=ANN)


async def by_api(http: Any, run: RunHandle, request: Any) -> None:
    path = f"/api/conversations/{run.id}/requests/{request.id}/decide"
    answer = await http.post(path, json={"type": "approve", "digest": request.digest})
    assert answer.status_code == 200, answer.text


async def by_page(http: Any, run: RunHandle, request: Any) -> None:
    data = {"deed": "approve", "digest": request.digest}
    answer = await http.post(f"/conversations/{run.id}/requests/{request.id}", data=data)
    assert answer.status_code == 303, answer.text


WAYS: dict[str, tuple[Way, int]] = {
    "its id": (by_id, 1),
    "the request": (by_request, 0),
    "the API": (by_api, 1),
    "the page": (by_page, 2),  # the next request, which opens then, may be of the same run
}


@pytest.mark.parametrize("is_nested", [False, True], ids=["own", "nested"])
@pytest.mark.parametrize("way", WAYS)
async def test_a_decision_reads_each_history_at_most_once(
    desk: Desk, read: Counter[str], way: str, *, is_nested: bool
) -> None:
    inner = clerk(True)
    outer = Agent[Any](name="Outer", tools=[inner.as_tool("ask_clerk", "Ask.")])
    asks = [call("ask_clerk", "n1", input="Refund.")]
    agent, steps = (
        (outer, [asks, refunds(5), "Refunded.", "Done."])
        if is_nested
        else (
            inner,
            [refunds(5), "Refunded."],
        )
    )
    await desk.open(agent, model=ScriptedModel(*steps))
    run = await desk.start(agent)
    await desk.until(
        run, waits_for(1) if not is_nested else lambda one: bool(one.pending_approvals)
    )
    (request,) = await run.approvals()
    assert bool(request.run_id) == is_nested
    act, most = WAYS[way]
    async with opened(app_of(desk, agent)) as http:
        read.clear()
        await act(http, run, request)
        found = dict(read)
    assert found.get(run.id, 0) <= most, found
    if act is not by_page:  # it looks for the next request, in any run
        assert set(found) <= {run.id, request.run_id}
    assert all(count <= max(most, 1) for count in found.values()), found
    await desk.result(run)


async def test_a_page_is_made_from_one_reading(desk: Desk, read: Counter[str]) -> None:
    agent = clerk(True)
    await desk.open(agent, model=ScriptedModel(refunds(5), "Refunded."))
    run = await desk.start(agent)
    await desk.until(run, waits_for(1))
    async with opened(app_of(desk, agent)) as http:
        read.clear()
        page = await http.get(f"/conversations/{run.id}/requests/a1")
        assert form_in(page.text, "approve")
        assert read == {run.id: 1}
    await run.approve("a1", by=ANN)
    await desk.result(run)
