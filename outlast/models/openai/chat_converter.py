"""The SDK's converter for Chat Completions, over the conversions of the models here."""

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any, cast

from outlast.agents.config.model_settings import ModelSettings
from outlast.agents.errors import ModelBehaviorError, UserError
from outlast.agents.items.raw_items import NO_ID, as_json
from outlast.agents.items.typed_events import typed_event
from outlast.agents.json_values import as_objects
from outlast.agents.usage import Usage
from outlast.loop.values import JsonObject
from outlast.models.openai import chat_request
from outlast.models.openai.chat_reply import ChatReply, UnreadableReplyError, response_from_chat
from outlast.models.openai.chat_request import UnsupportedItemError
from outlast.models.openai.responses_converter import or_omit
from outlast.ports.model_arguments import function_specs, output_spec
from outlast.ports.run_response import RunResponse

__all__ = ["ChatCmplStreamHandler", "Converter"]


class Converter:
    """Converts between the SDK's objects and those of Chat Completions."""

    @classmethod
    def convert_tool_choice(cls, tool_choice: Any) -> Any:
        """Return the value of `tool_choice`; `openai.omit` if there is none."""
        with _as_user_error():
            return or_omit(chat_request.tool_choice(ModelSettings(tool_choice=tool_choice)))

    @classmethod
    def convert_response_format(cls, final_output_schema: Any) -> Any:
        """Return the value of `response_format`; `openai.omit` for plain text."""
        return or_omit(chat_request.response_format(output_spec(final_output_schema)))

    @classmethod
    def maybe_input_message(cls, item: Any) -> Any:
        """Return the item if it is a message with the role of an instruction or a user."""
        if not isinstance(item, dict):
            return None
        fields = cast("JsonObject", item)
        is_input = fields.get("role") in {"user", "system", "developer"}
        return fields if fields.get("type") == "message" and is_input else None

    @classmethod
    def tool_to_openai(cls, tool: Any) -> JsonObject:
        """Return the entry of a function tool.

        Raises:
            UserError: the tool is not a function, or has options of the Responses API.
        """
        for spec in function_specs([tool], []):
            with _as_user_error():
                chat_request.check_spec(spec)
            return chat_request.tool_entry(spec)
        raise UserError(
            f"Hosted tools are not supported with the ChatCompletions API: {tool!r} is not a"
            " function. Use the Responses API."
        )

    @classmethod
    def convert_handoff_tool(cls, handoff: Any) -> JsonObject:
        """Return the entry of a handoff."""
        return chat_request.tool_entry(function_specs([], [handoff])[0])

    @classmethod
    def extract_all_content(cls, content: str | Iterable[Any]) -> Any:
        """Return a message's content as parts; a string stays a string.

        Raises:
            UserError: a part has no equivalent.
        """
        if isinstance(content, str):
            return content
        with _as_user_error():
            return [chat_request.content_part(as_json(part)) for part in content]

    @classmethod
    def extract_text_content(cls, content: str | Iterable[Any]) -> Any:
        """Return the text parts of a message's content; a string stays a string."""
        parts = cls.extract_all_content(content)
        return parts if isinstance(parts, str) else [p for p in parts if p["type"] == "text"]

    @classmethod
    def items_to_messages(
        cls,
        items: str | Iterable[Any],
        model: str | None = None,
        preserve_thinking_blocks: bool = False,  # noqa: FBT001, FBT002  the SDK's
        preserve_tool_output_all_content: bool = False,  # noqa: FBT001, FBT002  likewise
        **ignored: Any,
    ) -> list[JsonObject]:
        """Return the messages for Responses items, or for the text of a user's message.

        Data of a model is only sent to that model; thinking blocks go back as the model sent them.

        Raises:
            UserError: an item has no equivalent.
        """
        if isinstance(items, str):
            items = [{"role": "user", "content": items}]
        raws = [as_json(item) for item in items]
        for raw in raws:
            if not isinstance(raw, dict):
                raise UserError(f"An input item must be an object, not {raw!r}.")
        with _as_user_error():
            return chat_request.chat_messages(
                None, raws, model=model or "", rich_outputs=preserve_tool_output_all_content
            )

    @classmethod
    def message_to_output_items(
        cls,
        message: Any,
        provider_data: Mapping[str, Any] | None = None,
        *,
        strict_feature_validation: bool = False,
    ) -> list[Any]:
        """Return the Responses items of a completion's message.

        The `model` of `provider_data` is the model to which data of the message may go back.

        Raises:
            UserError: the message has audio, or a call that is refused.
        """
        said: JsonObject = {**as_json(message)}
        if said.get("audio"):
            raise UserError("Audio is not currently supported: ask the model for text.")
        calls = as_objects(said.get("tool_calls")) or []
        said["tool_calls"] = [call for call in calls if call.get("type") in {None, "function"}]
        if strict_feature_validation and len(said["tool_calls"]) < len(calls):
            raise UserError("Custom tool calls are not supported: offer function tools only.")
        if not any(said.get(name) for name in ("content", "refusal", "tool_calls")):
            return []
        model = str((provider_data or {}).get("model") or "")
        reply = response_from_chat({"choices": [{"message": said}]}, turn=0, model=model)
        output = [{**item, "id": NO_ID} for item in reply["output"]]
        return RunResponse(output, Usage()).output


@contextmanager
def _as_user_error() -> Generator[None]:
    try:
        yield
    except UnsupportedItemError as error:
        raise UserError(f"Chat Completions cannot send this: {error}") from None


class ChatCmplStreamHandler:
    """Converts a stream of Chat Completions to Responses stream events."""

    @classmethod
    async def handle_stream(
        cls, response: Any, stream: AsyncIterator[Any], model: str | None = None, **ignored: Any
    ) -> AsyncGenerator[Any]:
        """Yield the typed events of a stream, with the fields of `response` beside its own."""
        reply = ChatReply(turn=0, model=model or "")
        head: JsonObject = as_json(response)
        try:
            async for chunk in stream:
                for event in reply.add(as_json(chunk)):
                    yield _typed(event, head)
            # Who reads the stream notices a broken one, so that the end is the end of the answer.
            for event in reply.finish(otherwise="stop"):
                yield _typed(event, head)
        except UnreadableReplyError as error:
            raise ModelBehaviorError(
                f"The stream of Chat Completions is invalid: {error}"
            ) from None


def _typed(event: JsonObject, head: JsonObject) -> Any:
    whole = event.get("response")
    return typed_event(event if whole is None else {**event, "response": {**head, **whole}})
