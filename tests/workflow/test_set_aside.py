"""What a provider refuses does not end a conversation, on a real server."""

from typing import Any

from outlast.agents.agent import Agent
from outlast.client.audit import audit_run
from outlast.client.timeline import Timeline
from outlast.loop.values import JsonObject
from outlast.ports.model import ModelError, ModelRequest
from outlast.testing import ScriptedModel, say
from tests.pictures import PNG, url_of
from tests.workflow.desk import Desk

PHOTO: JsonObject = {
    "type": "input_image",
    "image_url": url_of("image/png", PNG),
    "detail": "auto",
}
WORDS = "Invalid image data."


def takes_no_photo(request: ModelRequest) -> Any:
    """Refuse as a provider does what holds the photo, and else answer."""
    if "data:image" in str(request.input):
        message = f"The model provider refused the request. HTTP 400. Its message: {WORDS}"
        raise ModelError(message, code="invalid_request", retryable=False, status=400)
    return say(f"{len(request.input)} items.")


async def test_a_photo_that_the_provider_refuses_is_left_out_and_named_everywhere(desk: Desk):
    agent = Agent[Any](name="Clerk")
    await desk.open(agent, model=ScriptedModel(always=takes_no_photo))
    asked: list[JsonObject] = [
        {"role": "user", "content": [{"type": "input_text", "text": "What is this?"}, PHOTO]}
    ]
    handle = await desk.start(agent, asked, keep_open=True)
    state = await desk.until_status(handle, "idle")
    assert state.answers[-1].failure is None
    [one] = state.aside
    assert (one.item, one.part, one.reason) == (0, 1, WORDS)
    assert state.items[0].raw["content"][1] == PHOTO, "people still see it"
    answer = await (await handle.send("And now?")).answer()
    assert answer.final_output == "3 items."
    shown = await desk.workflow(handle).query("state")
    assert [(row["item"], row["reason"]) for row in shown["set_aside"]] == [(0, WORDS)]
    rows = (await audit_run(desk.client, handle.id)).records
    assert [row.event for row in rows if row.event == "set_aside"] == ["set_aside"]
    await handle.take_back(0, part=1, by="ann")
    assert (await (await handle.send("Once more?")).answer()).final_output == "5 items."
    [again] = (await handle.state()).aside
    assert again.at_ms > one.at_ms, "it was refused once more"
    await handle.cancel("after_turn")
    timeline = Timeline()
    for progress in await desk.progress(handle):
        timeline.take(progress.event, progress.state)
    told = [step.text for step in timeline.steps if step.kind == "set_aside"]
    refused = f"is not read by the model any more: the model provider refused it: {WORDS}"
    assert told == [
        f"Item 0, part 1, {refused}",
        "Item 0, part 1, is read by the model again.",
        f"Item 0, part 1, {refused}",
    ]
