"""The SDK's converter of tools for the Responses API, over the conversion of the models here."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from outlast.agents.config.model_settings import ModelSettings
from outlast.agents.tools.search import check_deferred, check_tool_search
from outlast.loop.values import JsonObject
from outlast.models.openai import responses
from outlast.models.openai.responses import OpenAIResponsesModel
from outlast.models.openai.responses_websocket import (
    OpenAIResponsesWebSocketOptions,
    OpenAIResponsesWSModel,
)
from outlast.ports.model import ModelRequest
from outlast.ports.model_arguments import ModelTracing, model_request, output_spec

__all__ = [
    "ConvertedTools",
    "Converter",
    "OpenAIResponsesModel",
    "OpenAIResponsesWSModel",
    "OpenAIResponsesWebSocketOptions",
]


@dataclass(frozen=True, slots=True)
class ConvertedTools:
    """Tools in the format of the Responses API, and the additional data to request for them."""

    tools: list[JsonObject]
    includes: list[str]


class Converter:
    """Converts the SDK's objects to parts of a body for `/responses`."""

    @classmethod
    def convert_tool_choice(
        cls,
        tool_choice: Any,
        *,
        tools: Sequence[Any] | None = None,
        handoffs: Sequence[Any] | None = None,
        model: str | None = None,
    ) -> Any:
        """Return the value of `tool_choice`; `openai.omit` if there is none.

        Raises:
            UserError: the choice cannot be made with these tools.
        """
        if tool_choice == "required":
            check_deferred("The request", tools or ())
        request = _request_of(tools, handoffs, tool_choice)
        return or_omit(responses.tool_choice(request, model))

    @classmethod
    def get_response_format(cls, output_schema: Any) -> Any:
        """Return the value of `text`; `openai.omit` for plain text."""
        request = ModelRequest(instructions=None, input=[], output=output_spec(output_schema))
        return or_omit(responses.text_settings(request))

    @classmethod
    def convert_tools(
        cls,
        tools: Sequence[Any],
        handoffs: Sequence[Any] = (),
        *,
        model: str | None = None,
        tool_choice: Any = None,
        allow_opaque_tool_search_surface: bool = False,
    ) -> ConvertedTools:
        """Return the entries of the tools and handoffs.

        Raises:
            UserError: the tools need a `ToolSearchTool`, or have one for nothing.
        """
        if not allow_opaque_tool_search_surface:
            check_tool_search("The request", tools)
        request = _request_of(tools, handoffs, tool_choice)
        return ConvertedTools(
            responses.tool_entries(request, model), responses.included_data(request) or []
        )


def _request_of(
    tools: Sequence[Any] | None, handoffs: Sequence[Any] | None, tool_choice: Any
) -> ModelRequest:
    settings = ModelSettings(tool_choice=tool_choice)
    tracing = ModelTracing.DISABLED
    return model_request(None, [], settings, tools or (), None, handoffs or (), tracing)


def or_omit(value: Any) -> Any:
    """Return a value, or `openai.omit` for None."""
    from openai import omit

    return omit if value is None else value
