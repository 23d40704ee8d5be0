"""Items of a realtime conversation are read from JSON, and keep fields that they do not name."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from outlast.realtime.port.items import (
    AssistantAudio,
    AssistantMessageItem,
    InputAudio,
    InputText,
    RealtimeItem,
    RealtimeMessageItem,
    RealtimeResponse,
    RealtimeToolCallItem,
    SystemMessageItem,
    UserMessageItem,
)

ITEM: TypeAdapter[Any] = TypeAdapter(RealtimeItem)
MESSAGE: TypeAdapter[Any] = TypeAdapter(RealtimeMessageItem)


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (
            {"role": "user", "content": [{"type": "input_audio", "transcript": "Hi"}]},
            UserMessageItem,
        ),
        ({"role": "system", "content": [{"type": "input_text", "text": "Hi"}]}, SystemMessageItem),
        ({"role": "assistant", "content": [{"type": "audio"}]}, AssistantMessageItem),
    ],
)
def test_the_role_decides_which_message_it_is(raw: dict[str, Any], kind: type) -> None:
    message = MESSAGE.validate_python({"type": "message", "item_id": "1", **raw})
    assert type(message) is kind
    assert type(ITEM.validate_python({"type": "message", "item_id": "1", **raw})) is kind


def test_content_is_read_by_its_type() -> None:
    user = UserMessageItem.model_validate(
        {"item_id": "1", "content": [{"type": "input_text", "text": "a"}, {"type": "input_audio"}]}
    )
    assert [type(part) for part in user.content] == [InputText, InputAudio]
    with pytest.raises(ValidationError, match="input_video"):
        UserMessageItem.model_validate({"item_id": "1", "content": [{"type": "input_video"}]})


def test_a_tool_call_is_in_progress_until_there_is_an_output() -> None:
    call = RealtimeToolCallItem(
        item_id="1", call_id="c", status="in_progress", arguments="{}", name="look_up"
    )
    assert call.model_dump(exclude_none=True) == {
        "item_id": "1",
        "call_id": "c",
        "type": "function_call",
        "status": "in_progress",
        "arguments": "{}",
        "name": "look_up",
    }
    assert ITEM.validate_python(call.model_dump()) == call


def test_fields_without_a_name_here_are_kept() -> None:
    audio = AssistantAudio.model_validate({"transcript": "Hi", "sample_rate": 24000})
    assert audio.model_dump()["sample_rate"] == 24000


def test_a_response_has_messages() -> None:
    response = RealtimeResponse.model_validate(
        {"id": "resp_1", "output": [{"item_id": "1", "role": "assistant", "content": []}]}
    )
    assert type(response.output[0]) is AssistantMessageItem
