"""Models behind OpenAI's Responses API: request bodies, and checks of responses."""

import re
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from hashlib import sha256
from http import HTTPStatus
from itertools import compress
from operator import attrgetter, is_not, methodcaller
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast
from urllib.parse import quote

from outlast.agents.config.model_settings import MCPToolChoice, ModelSettings
from outlast.agents.items.raw_items import NO_ID, as_input
from outlast.agents.json_values import as_object, as_objects, as_text
from outlast.agents.tools.definition import ToolNamespace
from outlast.agents.tools.hosted import HostedTool
from outlast.agents.tools.local import LocalTool
from outlast.loop.call_forms import OUTPUT_OF_CALL, is_by_model, without_id
from outlast.loop.values import JsonObject
from outlast.models.failures import (
    Target,
    bad_response,
    empty_answer,
    refused_request,
    reported_failure,
)
from outlast.models.openai.connection import REQUEST_ID, ModelConnection, OpenAIConnection
from outlast.models.openai.item_encoding import ItemEncoder, SentForm, sent_forms
from outlast.ports.model import (
    ModelError,
    ModelRequest,
    ModelResponse,
    ResponseLost,
    ToolSpec,
    usage_of,
)
from outlast.ports.model_arguments import answers_both_forms, streams_both_forms

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_PATH = "/responses"
_COMPACT_PATH = "/responses/compact"

_KIND_NAMES = frozenset({"computer", "computer_use", "computer_use_preview"})

_HOSTED_KINDS = frozenset({
    "file_search", "web_search_preview", "computer_use_preview", "image_generation",
    "code_interpreter", "mcp", "programmatic_tool_calling",
})  # fmt: skip
"""Tool types that the API accepts as a tool choice, whatever the type in the tool's entry."""

_LOGPROBS = "message.output_text.logprobs"

DERIVED = "_outlast_"
"""Marks ids that were made for items of Chat Completions, which have none of their own."""

FILTERED = "The provider's content filter stopped the answer."
"""What stands for the refusal of an answer that was filtered."""

PROVIDER_DATA = "provider_data"
"""The key of an item's data that a server other than OpenAI's expects back."""

_NO_REASONING = re.compile(r"(ft:)?(gpt-3|gpt-4|chatgpt-4o|gpt-5-chat)")
"""The names of OpenAI's models that refuse requests with reasoning in the input."""

_LONGEST_ID = 64

RUN_ID = "outlast_run"
"""The key of the run's id in the metadata of a response in the background."""

_LONGEST_METADATA = 512
_MOST_METADATA = 16

_UNFINISHED = frozenset({"queued", "in_progress"})

_HAS_ENDED = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT})
"""The statuses with which a provider refuses to cancel what has ended, or what it has forgotten."""

_WITH_RESPONSE = frozenset({"response.completed", "response.incomplete", "response.failed"})
"""The types of the events that end a response and hold the whole of it."""


class ResponsesModel:
    """A model behind the Responses API. Never retries.

    Attributes:
        name: the provider's name of the model, also as `model`.
        api: the API; spans of its calls are `response` spans.
    """

    api: ClassVar[str] = "responses"

    def __init__(self, name: str, connection: ModelConnection, *, is_default: bool = False) -> None:
        """Create the model; the caller closes the connection.

        If the name `is_default`, a stored prompt may choose its own model.
        """
        self.name: str = name
        self.model: str = name
        self._connection = connection
        self._is_default = is_default

    @classmethod
    def over(cls, name: str, connection: ModelConnection, *, is_default: bool = False) -> Self:
        """Return a model of this class over a connection; the arguments are those of the model."""
        made = cls.__new__(cls)
        ResponsesModel.__init__(made, name, connection, is_default=is_default)
        return made

    def server_url(self) -> str:
        """Return the URL of the server, for traces."""
        return self._connection.target(_PATH, self.name).base_url

    def conversations_at(self) -> str:
        """Return the URL of the server, which keeps conversations for all its models."""
        return self._connection.over_http().target(_PATH, self.name).base_url

    @answers_both_forms
    async def get_response(self, request: ModelRequest) -> ModelResponse:
        """Answer one request."""
        target = self._connection.target(_PATH, self.name)
        reply = await self._connection.post(target, self._body(request), request.settings)
        response = valid_response(reply.body, target)
        return _converted(_answer(response, target, request), reply.request_id)

    @streams_both_forms
    async def stream_response(self, request: ModelRequest) -> AsyncGenerator[JsonObject]:
        """Answer one request as the provider's own events.

        An incomplete response (`response.incomplete`) ends in `response.completed` as well; its
        `status` is then `incomplete`.
        """
        target = self._connection.target(_PATH, self.name)
        body = {**self._body(request), "stream": True}
        events = self._connection.stream(target, body, request.settings, is_last=ends_response)
        complete, request_id = False, None
        done: list[object] = []
        async with aclosing(events):
            async for event in events:
                request_id = event.pop(REQUEST_ID, request_id)
                kind = as_text(event.get("type"))
                if kind == "error" or (kind is None and event.get("error")):
                    raise reported_failure(event.get("error") or event, target)
                if kind is None:
                    if "choices" in event:
                        raise bad_response(target, "this server speaks Chat Completions")
                    continue  # such as the data of a ping
                if kind in _WITH_RESPONSE:
                    response = _whole(valid_response(event.get("response"), target), done)
                    complete = True
                    named = {} if request_id is None else {REQUEST_ID: request_id}
                    whole = _answer(response, target, request)
                    yield {**event, **named, "type": "response.completed", "response": whole}
                    continue
                if kind == "response.output_item.done":
                    done.append(event.get("item"))
                yield event
        if not complete:
            raise bad_response(target, "the stream ended before the answer was complete")

    async def compact(self, request: ModelRequest) -> ModelResponse:
        """Make the input of a request shorter; over HTTP, as the API has it."""
        connection = self._connection.over_http()
        target = connection.target(_COMPACT_PATH, self.name)
        body = {"model": self.name, "input": supported_items(request.input, self.name)}
        reply = await connection.post(target, body, request.settings)
        response = _converted(valid_response(reply.body, target), reply.request_id)
        if not response.output:
            raise bad_response(target, "expected the items of a shorter conversation")
        return replace(response, output=compacted_items(response.output))

    async def begin_response(self, request: ModelRequest) -> str:
        """Begin a response in the background, and return its id."""
        connection = self._connection.over_http()
        target = connection.target(_PATH, self.name)
        body = {**self._body(request), "background": True, "store": True}
        metadata = with_run_id(request.settings.metadata, request.run_id)
        if metadata:
            body["metadata"] = metadata
        reply = await connection.post(target, body, request.settings)
        response_id = as_text(reply.body.get("id"))
        if not response_id:
            raise bad_response(target, "expected a response object with an id")
        return response_id

    async def read_response(self, response_id: str, request: ModelRequest) -> ModelResponse | None:
        """Return a response that was begun, or None while the provider makes it."""
        connection = cast("OpenAIConnection", self._connection.over_http())
        target = connection.target(f"{_PATH}/{quote(response_id, safe='')}", self.name)
        include = included_data(request)
        query = {"include": include} if include else None
        try:
            reply = await connection.request("get", target, request.settings, query=query)
        except ModelError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            raise ResponseLost(
                error.message, code=error.code, retryable=True, status=404
            ) from error
        status = reply.body.get("status")
        if status in _UNFINISHED:
            return None
        if status == "cancelled":
            error = refused_request(target, "the response was cancelled at the provider")
            raise ResponseLost(error.message, code=error.code, retryable=False)
        if reply.body.get("error") or status == "failed":
            error = reported_failure(reply.body.get("error"), target)
            raise ResponseLost(error.message, code=error.code, retryable=error.retryable)
        try:
            return read_response(reply.body, target, request_id=reply.request_id)
        except ModelError as error:
            if error.code != "empty_answer":
                raise
            # The response stays as it is: only another one may have words.
            raise ResponseLost(error.message, code=error.code, retryable=True) from error

    async def cancel_response(self, response_id: str) -> None:
        """Stop a response that was begun; one that has ended stays as it is."""
        connection = cast("OpenAIConnection", self._connection.over_http())
        path = f"{_PATH}/{quote(response_id, safe='')}/cancel"
        target = connection.target(path, self.name)
        try:
            await connection.request("post", target, ModelSettings())
        except ModelError as error:
            if error.status not in _HAS_ENDED:
                raise

    async def check_access(self) -> str:
        """Check the key, and return the URL of the server."""
        target = self._connection.target(_PATH, self.name)
        await self._connection.check_key(target)
        return target.base_url

    def _body(self, request: ModelRequest) -> JsonObject:
        omit_name = self._is_default and request.prompt is not None
        return responses_body(request, None if omit_name else self.name)


class OpenAIResponsesModel(ResponsesModel):
    """A model behind the Responses API."""

    def __init__(
        self, model: str, openai_client: "AsyncOpenAI", *, model_is_explicit: bool = True
    ) -> None:
        connection = OpenAIConnection(client=openai_client)
        super().__init__(model, connection, is_default=not model_is_explicit)


def responses_body(request: ModelRequest, model: str | None) -> JsonObject:
    """Return the body of a request to `/responses`.

    `extra_args` and then `extra_body` are merged into the body. The API has no penalties, so
    `frequency_penalty` and `presence_penalty` are left out. If `model` is None, the stored prompt
    chooses the model.
    """
    settings = request.settings
    tools = tool_entries(request, model)
    body: dict[str, Any] = {
        "model": model,
        "instructions": request.instructions or None,
        "input": _encoded_items(request, model),
        "tools": tools or None,
        "max_output_tokens": settings.max_tokens,
        "include": included_data(request),
        "text": text_settings(request),
        "previous_response_id": request.previous_response_id,
        "conversation": request.conversation_id,
        "prompt": request.prompt,
    }
    if tools or request.prompt is not None or has_extra_tools(settings):
        # Without tools, the API refuses both fields.
        body["tool_choice"] = tool_choice(request, model)
        body["parallel_tool_calls"] = settings.parallel_tool_calls
    return with_settings(body, settings, "truncation", "reasoning", "context_management")


def _encoded_items(request: ModelRequest, model: str | None) -> list[JsonObject]:
    items = _with_single_ids(request.input)
    form = _form_for(items, model)
    key = None if request.run_id is None else f"{request.run_id} {form.__name__}"
    return _items.of_run(key, items, form)


def with_run_id(metadata: dict[str, str] | None, run_id: str | None) -> dict[str, str]:
    """Return metadata with the id of the run, by which its webhook finds it, if there is room."""
    metadata = metadata or {}
    has_room = len(metadata) < _MOST_METADATA and run_id and len(run_id) <= _LONGEST_METADATA
    return {**metadata, RUN_ID: run_id} if has_room and run_id else metadata


def with_settings(body: JsonObject, settings: ModelSettings, *names: str) -> JsonObject:
    """Return a body with the settings that have the same name in the API, without unset fields."""
    names = (*_OF_BOTH_APIS, *names)
    body |= zip(names, attrgetter(*names)(settings), strict=True)
    body = dict(compress(body.items(), map(_IS_SET, body.values())))
    return {**body, **(settings.extra_args or {}), **(settings.extra_body or {})}


_IS_SET = partial(is_not, None)


_OF_BOTH_APIS = (
    "temperature", "top_p", "metadata", "store", "top_logprobs",
    "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options",
)  # fmt: skip


def tool_entries(request: ModelRequest, model: str | None) -> list[JsonObject]:
    """Return the entries of all tools; functions of a namespace are together in one entry."""
    entries: list[JsonObject] = []
    groups: dict[ToolNamespace, list[JsonObject]] = {}
    for tool in request.all_tools():
        if not isinstance(tool, ToolSpec):
            entries.append(_entry(tool, model))
            continue
        entry: JsonObject = {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
            "strict": tool.strict,
        }
        if tool.deferred:
            entry["defer_loading"] = True
        if tool.allowed_callers is not None:
            entry["allowed_callers"] = list(tool.allowed_callers)
        if tool.output_schema is not None:
            entry["output_schema"] = tool.output_schema
        group = entries
        if (space := tool.namespace) is not None:
            if space not in groups:
                groups[space] = []
                head = {"name": space.name, "description": space.description}
                entries.append({"type": "namespace", **head, "tools": groups[space]})
            group = groups[space]
        group.append(entry)
    return entries


def supported_items(
    items: Sequence[JsonObject], model: str | None = None, *, behind: Sequence[JsonObject] = ()
) -> list[JsonObject]:
    """Return items as the API accepts them behind others, without those a model cannot read."""
    every = _with_single_ids([*behind, *items])
    before = every[len(behind) - 1] if behind else None
    return sent_forms(every[len(behind) :], _form_for(every, model), before)


_ID, _TYPE = methodcaller("get", "id"), methodcaller("get", "type")


def _with_single_ids(items: Sequence[JsonObject]) -> Sequence[JsonObject]:
    """Return items without the ids that several have: some models give all their answers one id."""
    ids = [*map(str, filter(_IS_SET, map(_ID, items)))]
    if len(set(ids)) == len(ids):
        return items
    counts = Counter(ids)
    return [without_id(item) if counts.get(str(item.get("id")), 0) > 1 else item for item in items]


def _form_for(items: Sequence[JsonObject], model: str | None) -> SentForm:
    """Return what is sent of each item to a model."""
    if "reasoning" not in map(_TYPE, items):
        return _plain_form
    return _with_reasoning if takes_reasoning(model) else _without_reasoning


def _plain_form(
    item: JsonObject, before: JsonObject | None, after: JsonObject | None
) -> JsonObject | None:
    """Return an item as the API accepts it; what comes first may have lost its reasoning."""
    del after
    item = _supported_fields(item)
    is_first = before is None or ("id" not in before and is_by_model(before))
    return without_id(item) if is_first else item


def _with_reasoning(
    item: JsonObject, before: JsonObject | None, after: JsonObject | None
) -> JsonObject | None:
    """Return an item as the API accepts it between others; None if it cannot be there.

    The API refuses reasoning without the item that it led to, and an item that the provider has
    stored without the reasoning before it. So reasoning has its id only before an item with an id,
    and a message or call only behind reasoning with one, or beside a call with one.
    """
    if item.get("type") == "reasoning":
        return _sent_reasoning(item, after)
    item = _supported_fields(item)
    return item if before is not None and _leads(before) else without_id(item)


def _leads(before: JsonObject) -> bool:
    """Whether the next item may have its id: behind reasoning, or a call beside it that has one."""
    kind = str(before.get("type"))
    return "id" in before and (kind in {"reasoning", "message"} or kind in OUTPUT_OF_CALL)


def _without_reasoning(
    item: JsonObject, before: JsonObject | None, after: JsonObject | None
) -> JsonObject | None:
    """Return an item as the API accepts it for a model that takes no reasoning.

    What its reasoning led to has no id, and what a provider did by itself needs one.
    """
    del before, after
    plain = without_id(_supported_fields(item))
    is_own = (
        is_by_model(plain) and "role" not in plain and str(plain.get("type")) not in OUTPUT_OF_CALL
    )
    return None if is_own and "id" in plain else plain


def _sent_reasoning(item: JsonObject, after: JsonObject | None) -> JsonObject | None:
    if item.get(PROVIDER_DATA):  # that of another server is unreadable for this one
        return None
    item = _supported_fields(item)
    is_before_id = after is not None and is_by_model(after) and _has_id(after)
    if "id" not in item or is_before_id:
        return item
    return _without(item, "id") if item.get("encrypted_content") else None


def takes_reasoning(model: str | None) -> bool:
    """Whether a model accepts reasoning in its input, as far as its name says."""
    return model is None or _NO_REASONING.match(model) is None


def _has_id(item: JsonObject) -> bool:
    return bool(item.get("id")) and not is_invented(item.get("id"))


def _supported_fields(item: JsonObject) -> JsonObject:
    item = as_input(item)
    if "call_id" in item and len(str(item["call_id"])) > _LONGEST_ID:
        item = {**item, "call_id": short_id(str(item["call_id"]))}
    unsupported: tuple[str, ...] = (PROVIDER_DATA,)
    if is_invented(item.get("id")):
        # The status of a call belongs to the item that the provider does not have.
        unsupported = (PROVIDER_DATA, "id", *(() if "role" in item else ("status",)))
    if not any(name in item for name in unsupported):
        return item
    return _without(item, *unsupported)


def short_id(call_id: str) -> str:
    """Return an id for one that is too long for OpenAI; other servers make longer ones."""
    return f"call_{sha256(call_id.encode(errors='replace')).hexdigest()[:32]}"


def _without(item: JsonObject, *names: str) -> JsonObject:
    return {name: value for name, value in item.items() if name not in names}


_items = ItemEncoder()
"""Encodes the items of all requests of this process."""


def is_invented(item_id: object) -> bool:
    """Whether no provider made this id, so that none knows the item under it."""
    return isinstance(item_id, str) and (item_id == NO_ID or DERIVED in item_id)


def has_extra_tools(settings: ModelSettings) -> bool:
    """Whether the settings add tools in the provider's own format."""
    return any(extra and "tools" in extra for extra in (settings.extra_args, settings.extra_body))


def read_response(body: object, target: Target, *, request_id: str | None = None) -> ModelResponse:
    """Validate a response object with an answer, and convert it."""
    return _converted(answer_of(valid_response(body, target), target), request_id)


def _answer(response: JsonObject, target: Target, request: ModelRequest) -> JsonObject:
    try:
        return answer_of(response, target)
    except ModelError as error:
        # A conversation on the server has the input now, and would have it twice.
        error.retryable = error.retryable and request.conversation_id is None
        raise


def answer_of(response: JsonObject, target: Target) -> JsonObject:
    """Return a valid response object with an answer: a filtered one is a refusal.

    An answer that a token limit cuts off is an answer, unless it ends before its first word.
    """
    output: list[JsonObject] = response["output"]
    details = as_object(response.get("incomplete_details")) or {}
    if details.get("reason") == "content_filter":
        return {**response, "output": _refused(output, str(response.get("id")))}
    is_cut = response.get("status") == "incomplete"
    if all(item["type"] in _SILENT and not _spoken(item) for item in output):
        raise empty_answer(target, is_cut=is_cut)
    if is_cut and output[-1]["type"] == "message":  # some servers say so of the response only
        return {**response, "output": [*output[:-1], {**output[-1], "status": "incomplete"}]}
    return response


_SILENT = frozenset({"message", "reasoning"})
"""The types of items that are no answer without words; calls and their like always count."""


def _spoken(item: JsonObject) -> list[JsonObject]:
    """Return the parts of a message that say something."""
    content: Any = item.get("content") if item["type"] == "message" else None
    if isinstance(content, str):
        content = [{"type": "output_text", "text": content, "annotations": []}]
    parts = as_objects(content)
    return [one for one in parts or () if one.get("type") != "output_text" or _words_of(one)]


def _words_of(part: JsonObject) -> str:
    return str(part.get("text") or "").strip()


def _refused(output: Sequence[JsonObject], response_id: str) -> list[JsonObject]:
    """Return a filtered answer as one message with a refusal; no call of it runs."""
    spoken = [part for item in output for part in _spoken(item)]
    if not any(part.get("type") == "refusal" for part in spoken):
        spoken.append({"type": "refusal", "refusal": FILTERED})
    messages = [item for item in output if item["type"] == "message"]
    if len(output) == len(messages) == 1:
        return [{**messages[0], "content": spoken}]
    digest = sha256(response_id.encode(errors="replace")).hexdigest()[:32]
    item: JsonObject = {"type": "message", "id": f"msg{DERIVED}{digest}", "role": "assistant"}
    return [{**item, "status": "incomplete", "content": spoken}]


def valid_response(body: object, target: Target) -> JsonObject:
    """Return a response object that has ended; status `incomplete` is valid."""
    response = as_object(body)
    if response is None:
        raise bad_response(target, "expected a response object")
    status = response.get("status")
    if response.get("error") or status == "failed":
        raise reported_failure(response.get("error"), target)
    output = as_objects(response.get("output"))
    if output is None:
        hint = "; this server speaks Chat Completions" if "choices" in response else ""
        raise bad_response(target, f"the response has no list of items under `output`{hint}")
    if not all(as_text(item.get("type")) for item in output):
        raise bad_response(target, "the response has items without a type")
    if status not in {None, "completed", "incomplete"}:
        # A retry would start, and bill, another response.
        raise refused_request(
            target,
            f"the response has the status {status!r}; for a response in the background, use "
            "ModelSettings(background=True)",
        )
    return response


def _converted(response: JsonObject, request_id: str | None) -> ModelResponse:
    return ModelResponse(
        output=response["output"],
        usage=usage_of(response.get("usage")),
        response_id=as_text(response.get("id")),
        request_id=request_id,
        raw_usage=as_object(response.get("raw_usage", response.get("usage"))),
        model=as_text(response.get("model")),
    )


def compacted_items(output: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the items of a compaction as the provider accepts them in the input of a request.

    It refuses empty fields, and ids of answers whose reasoning it has left out.
    """
    items = [_without_empty_content(item) for item in output]
    if any(item.get("type") == "reasoning" for item in items):
        return items
    return [_without_answer_id(item) for item in items]


def _without_empty_content(item: JsonObject) -> JsonObject:
    parts = as_objects(item.get("content"))
    if parts is None:
        return item
    full = [{name: value for name, value in part.items() if value is not None} for part in parts]
    return {**item, "content": full}


def _without_answer_id(item: JsonObject) -> JsonObject:
    if item.get("role") != "assistant":
        return item
    return {name: value for name, value in item.items() if name != "id"}


def _whole(response: JsonObject, done: list[object]) -> JsonObject:
    """Return a response with the items of its stream, which some servers send only there."""
    items = as_objects(done)
    if response["output"] or not items or not all(as_text(item.get("type")) for item in items):
        return response
    return {**response, "output": items}


def ends_response(event: JsonObject) -> bool:
    """Whether an event is the last one of a response, and holds the whole response."""
    return event.get("type") in _WITH_RESPONSE


def included_data(request: ModelRequest) -> list[str] | None:
    """Return the additional data to request, for the settings and the hosted tools."""
    include = list(request.settings.include or ())
    if request.settings.top_logprobs is not None:
        include.append(_LOGPROBS)  # needed as well as the number
    for tool in request.hosted_tools:
        include.extend(cast("Sequence[str]", getattr(tool, "include", ())))
    return list(dict.fromkeys(include)) or request.settings.include


def _entry(tool: HostedTool, model: str | None) -> JsonObject:
    return tool.param_for(model) if isinstance(tool, LocalTool) else tool.to_tool_param()


def tool_choice(request: ModelRequest, model: str | None) -> str | JsonObject | None:
    """Return the tool choice of a request in the API's format."""
    choice = request.settings.tool_choice
    if isinstance(choice, MCPToolChoice):
        return {"type": "mcp", "server_label": choice.server_label, "name": choice.name}
    if choice is None or choice in {"auto", "required", "none"}:
        return choice
    if choice in [tool.name for tool in request.tools]:
        return {"type": "function", "name": choice}
    entries = [_entry(tool, model) for tool in request.hosted_tools]
    for entry in entries:
        if entry.get("type") == "custom" and entry.get("name") == choice:
            return {"type": "custom", "name": choice}
        if choice in _KIND_NAMES and entry.get("type") in _KIND_NAMES:
            return {"type": entry["type"]}  # the same tool under the model's own name
    if choice != "custom" and choice in [entry.get("type") for entry in entries]:
        return {"type": choice}
    if choice in _HOSTED_KINDS:
        return {"type": choice}
    return {"type": "function", "name": choice}


def text_settings(request: ModelRequest) -> JsonObject | None:
    """Return the format and the verbosity of the answer's text."""
    text: JsonObject = {}
    if request.output is not None:
        text["format"] = {
            "type": "json_schema",
            "name": request.output.name,
            "schema": request.output.schema,
            "strict": request.output.strict,
        }
    if request.settings.verbosity is not None:
        text["verbosity"] = request.settings.verbosity
    return text or None
