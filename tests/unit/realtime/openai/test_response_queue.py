"""Responses of a realtime session come one at a time, whoever starts them."""

import pytest

from outlast.loop.values import JsonObject
from outlast.realtime.openai.response_queue import ACTIVE, NOT_ACTIVE, ResponseQueue


class Wire:
    """Records what is sent; fails while `broken`."""

    def __init__(self) -> None:
        self.sent: list[JsonObject] = []
        self.broken = False

    async def send(self, message: JsonObject) -> None:
        if self.broken:
            raise ConnectionError("broken")
        self.sent.append(message)

    @property
    def kinds(self) -> list[str]:
        return [message["type"] for message in self.sent]


def turns() -> tuple[ResponseQueue, Wire]:
    wire = Wire()
    return ResponseQueue(wire.send), wire


async def test_a_response_is_requested_at_once_where_none_is_in_progress() -> None:
    one, wire = turns()
    assert one.is_idle
    await one.request()
    assert wire.kinds == ["response.create"]
    assert not one.is_idle
    one.created("r1")
    assert (one.is_idle, one.in_progress, one.response_id) == (True, True, "r1")


async def test_plain_requests_that_wait_become_one_and_others_stay() -> None:
    one, wire = turns()
    one.created("r1")
    own: JsonObject = {"type": "response.create", "event_id": "mine", "response": {"a": 1}}
    for message in (None, None, own, None, None):
        await one.request(message)
    for number in range(2, 6):
        one.done(f"r{number - 1}")
        await one.start_next()
        one.created(f"r{number}")
    assert [message.get("response") for message in wire.sent] == [None, {"a": 1}, None]
    assert wire.sent[1]["event_id"] == "mine"
    assert len({message["event_id"] for message in wire.sent}) == 3


async def test_the_end_of_a_response_beside_the_conversation_starts_none() -> None:
    one, wire = turns()
    one.created("r1")
    await one.request()
    one.done("other")
    await one.start_next()
    assert wire.sent == []
    one.done("r1")
    await one.start_next()
    assert wire.kinds == ["response.create"]


async def test_a_response_that_the_provider_refuses_makes_room_for_the_next() -> None:
    one, wire = turns()
    await one.request({"type": "response.create", "event_id": "bad"})
    await one.request()
    assert not one.failed("invalid_value", "another", "something else")
    await one.start_next()
    assert wire.kinds == ["response.create"]
    assert not one.failed("invalid_value", "bad", "bad voice")
    await one.start_next()
    assert wire.kinds == ["response.create"] * 2


@pytest.mark.parametrize(
    ("code", "words"), [("bad_response_create", ""), (None, "Invalid response.create")]
)
async def test_an_error_about_responses_without_an_id_counts_too(
    code: str | None, words: str
) -> None:
    one, wire = turns()
    await one.request()
    await one.request({"type": "response.create"})
    assert not one.failed(code, None, words)
    await one.start_next()
    assert wire.kinds == ["response.create"] * 2


async def test_an_error_about_something_else_changes_nothing() -> None:
    one, wire = turns()
    await one.request()
    await one.request({"type": "response.create"})
    assert not one.failed("invalid_value", None, "Invalid audio")
    await one.start_next()
    assert wire.kinds == ["response.create"]


async def test_a_request_that_came_too_late_is_repeated_after_the_other_response() -> None:
    one, wire = turns()
    await one.request()
    assert one.failed(ACTIVE, wire.sent[0]["event_id"], "active")
    assert one.in_progress
    one.done("of the other client")
    await one.start_next()
    assert wire.kinds == ["response.create"] * 2
    assert wire.sent[0]["event_id"] != wire.sent[1]["event_id"]


async def test_the_late_request_of_another_client_is_not_ours() -> None:
    one, wire = turns()
    assert not one.failed(ACTIVE, "theirs", "active")
    assert not one.failed(ACTIVE, None, "active")
    assert wire.sent == []


async def test_a_response_is_cancelled_once() -> None:
    one, wire = turns()
    await one.cancel()
    assert wire.sent == [], "there is none"
    one.created("r1")
    await one.cancel("another")
    assert wire.sent == []
    await one.cancel("r1")
    await one.cancel()
    assert wire.sent == [{"type": "response.cancel", "response_id": "r1"}]
    await one.request()
    assert len(wire.sent) == 1, "the next waits for the end"
    one.done("r1")
    await one.start_next()
    assert wire.kinds == ["response.cancel", "response.create"]


async def test_a_cancellation_that_came_too_late_holds_up_nothing() -> None:
    one, wire = turns()
    one.created(None)
    await one.cancel()
    assert wire.sent == [{"type": "response.cancel"}]
    assert not one.failed(NOT_ACTIVE, None, "none active")
    await one.request()
    one.done(None)
    await one.start_next()
    assert wire.kinds == ["response.cancel", "response.create"]


async def test_what_could_not_be_sent_is_not_waited_for() -> None:
    one, wire = turns()
    wire.broken = True
    with pytest.raises(ConnectionError):
        await one.request()
    assert one.is_idle
    one.created("r1")
    with pytest.raises(ConnectionError):
        await one.cancel()
    wire.broken = False
    await one.cancel()
    assert wire.kinds == ["response.cancel"]


async def test_the_end_of_the_connection_drops_all_requests() -> None:
    one, wire = turns()
    one.created("r1")
    await one.request()
    one.forget()
    assert (one.is_idle, one.in_progress) == (True, False)
    one.done(None)
    await one.start_next()
    assert wire.sent == []
