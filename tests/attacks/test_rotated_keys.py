"""Keys that are replaced while people decide: what a decision is worth, and what people read."""

import pytest

from outlast.agents.errors import DecisionRefused
from outlast.client.handle import RunHandle
from outlast.contract.identity import KEY_VARIABLE, PUBLIC_KEYS_VARIABLE, new_key_pair, read_keys
from outlast.testing import ScriptedModel, call
from outlast.worker import AgentWorker
from tests.attacks.test_somebody_with_temporal import ANN, BOB, Bank, request_of
from tests.workflow.desk import Desk, waits_for

OLD, NEW = new_key_pair(), new_key_pair()
OLD_ID = read_keys(OLD[0])[0].id


class Office:
    """Workers that know public keys, and people's programs that sign with private ones."""

    def __init__(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        self.desk, self.bank, self._environment = desk, Bank(), monkeypatch
        self.model = ScriptedModel([call("refund", "c1", euros=500)], "Done.")
        self._worker: AgentWorker | None = None

    async def works_with(self, *keys: tuple[str, str]) -> None:
        """Start the worker again, with the public keys that it now trusts."""
        if self._worker is not None:
            await self.desk.close(self._worker)
        self._environment.delenv(KEY_VARIABLE, raising=False)
        self._environment.setenv(PUBLIC_KEYS_VARIABLE, ",".join(public for _, public in keys))
        self._worker = await self.desk.open(self.bank.agent, model=self.model)

    def signs_with(self, key: tuple[str, str]) -> None:
        self._environment.setenv(KEY_VARIABLE, key[0])

    async def asks(self) -> RunHandle:
        handle = await self.desk.start(self.bank.agent)
        await self.desk.until(handle, waits_for(1))
        return handle


@pytest.fixture
def office(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Office:
    return Office(desk, monkeypatch)


async def test_a_vote_of_a_key_that_is_trusted_still_counts_beside_one_of_the_new(
    office: Office,
) -> None:
    await office.works_with(OLD)
    handle = await office.asks()
    office.signs_with(OLD)
    await handle.approve(await request_of(handle), by=ANN)
    await office.works_with(NEW, OLD)
    office.signs_with(NEW)
    await handle.approve(await request_of(handle), by=BOB)
    await office.desk.result(handle)
    assert office.bank.paid == [500]


async def test_a_vote_whose_key_was_removed_is_asked_for_again_with_the_reason(
    office: Office,
) -> None:
    """Whoever has stolen the old key votes before it is removed; the worker that has it is one of
    two in a rollout, and the call runs at the other one.
    """
    await office.works_with(OLD)
    handle = await office.asks()
    office.signs_with(OLD)
    await handle.approve(await request_of(handle), by=ANN)
    await office.works_with(NEW)
    office.signs_with(NEW)
    first = await request_of(handle)
    await handle.approve(first, by=BOB)
    state = await office.desk.until(
        handle, lambda state: [one.id for one in state.pending_approvals] == ["a2"]
    )
    assert office.bank.paid == []
    assert str(state.pending_approvals[0].reason) == (
        f"The decision of ann does not count: it is signed with the key {OLD_ID}, which this "
        "worker does not trust."
    )
    office.signs_with(OLD)
    with pytest.raises(DecisionRefused, match=f"the key {OLD_ID}, which this worker does not"):
        await handle.approve(await request_of(handle), by=ANN)
    office.signs_with(NEW)
    for who in (ANN, BOB):
        await handle.approve(await request_of(handle), by=who)
    await office.desk.result(handle)
    assert office.bank.paid == [500]
