"""The SDK's converter for Chat Completions, over the conversions of the models here."""

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any, cast

from outlast.agents.config.settings import ModelSettings
from outlast.agents.errors import UserError
from outlast.agents.items.raw_items import NO_ID, as_json
from outlast.agents.usage import Usage
from outlast.loop.values import JsonObject
from outlast.models.json_values import as_objects
from outlast.models.openai import chat_request
from outlast.models.openai.chat_reply import response_from_chat
from outlast.models.openai.chat_request import UnsupportedItemError
from outlast.models.openai.responses_converter import or_omit
from outlast.ports.model_arguments import function_specs, output_spec
from outlast.ports.run_response import RunResponse

__all__ = ["Converter"]


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
            UserError: the tool is not a function, deferred or in a namespace.
        """
        for spec in function_specs([tool], []):
            if spec.deferred or spec.namespace:
                raise UserError(
                    f"The tool {spec.name!r} is deferred or in a namespace, and Chat Completions has"
                    " no search for tools. Use the Responses API, or leave that out."
                )
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
        *,
        preserve_tool_output_all_content: bool = False,
    ) -> list[JsonObject]:
        """Return the messages for Responses items.

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
    def message_to_output_items(cls, message: Any) -> list[Any]:
        """Return the Responses items of a completion's message.

        Raises:
            UserError: the message has audio.
        """
        said = as_json(message)
        if said.get("audio"):
            raise UserError("Audio is not currently supported: ask the model for text.")
        said["tool_calls"] = [
            call
            for call in as_objects(said.get("tool_calls")) or ()
            if call.get("type") in {None, "function"}
        ]
        if not any(said.get(name) for name in ("content", "refusal", "tool_calls")):
            return []
        reply = response_from_chat({"choices": [{"message": said}]}, turn=0)
        output = [{**item, "id": NO_ID} for item in reply["output"]]
        return RunResponse(output, Usage()).output


@contextmanager
def _as_user_error() -> Generator[None]:
    try:
        yield
    except UnsupportedItemError as error:
        raise UserError(f"Chat Completions cannot send this: {error}") from None
