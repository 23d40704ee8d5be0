"""Reads what a front end sends: a conversation with new messages, and decisions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ag_ui.core import (
    AssistantMessage,
    DataSource,
    Message,
    ResumeEntry,
    RunAgentInput,
    TextPart,
    ToolMessage,
    UserMessage,
)
from pydantic import TypeAdapter, ValidationError
from starlette.requests import Request

from outlast.agents.errors import UserError
from outlast.agents.json_values import as_object, is_list, is_object
from outlast.edges.bodies import loads
from outlast.serve.histories import history_body
from outlast.serve.uploads import with_name
from outlast.serve.wires.ag_ui_view import OWN, Called, Part, Returned, Said
from outlast.views.records import ApprovalRequest, JsonObject, VoteType

_DIGEST: Final = 16
"""How many hexadecimal digits of what somebody saw are in the id of an interrupt."""

_HOW_TO_DECIDE: Final = (
    'Send {"approved": true}, with "editedArgs" to change the arguments, '
    '{"approved": false, "message": "why"}, or {"response": "..."}.'
)


_MESSAGE: Final[TypeAdapter[Message]] = TypeAdapter(Message)


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer to an interrupt.

    Attributes:
        interrupt_id: the interrupt.
        kind: the decision; None if the person does not decide.
        fields: the further arguments of `Decision`.
        problem: why the answer says nothing, in words; empty if it does.
    """

    interrupt_id: str
    kind: VoteType | None = None
    fields: JsonObject | None = None
    problem: str = ""

    @property
    def request_id(self) -> str:
        """The id of the request."""
        return self.interrupt_id.partition("~")[0]


async def read_input(http: Request) -> RunAgentInput:
    """Return the body of a request.

    Raises:
        UserError: it is no `RunAgentInput`.
    """
    body = await history_body(http)
    try:
        asked = RunAgentInput.model_validate_json(body)
    except ValidationError as error:
        [first, *_] = error.errors(include_url=False, include_context=False, include_input=False)
        asked = _without_unreadable(body)
        if asked is None:
            place = ".".join(map(str, first["loc"]))
            message = f"The body is no RunAgentInput: {place}: {first['msg']}."
            raise UserError(message) from None
    if not asked.thread_id:
        raise UserError("threadId must name the conversation.")
    return asked


def _without_unreadable(body: bytes) -> RunAgentInput | None:
    """Return a body without messages that cannot be read and that the client only repeats.

    A stock client keeps a message in its list that was refused. None if the newest message, or
    something else, cannot be read.
    """
    try:
        given: Any = loads(body)
    except (ValueError, RecursionError):
        return None
    listed: Any = given.get("messages") if is_object(given) else None
    if not is_list(listed):
        return None
    *before, last = listed or [None]
    kept = [one for one in before if _is_readable(one)]
    try:
        return RunAgentInput.model_validate({**given, "messages": [*kept, last]})
    except ValidationError:
        return None


def _is_readable(message: Any) -> bool:
    try:
        _MESSAGE.validate_python(message)
    except ValidationError:
        return False
    return True


def follows(asked: RunAgentInput) -> bool:
    """Whether the stream goes on after the answer, until the conversation ends."""
    own = as_object((as_object(asked.forwarded_props) or {}).get("outlast"))
    return own is not None and own.get("follow") is True


# --- Messages ------------------------------------------------------------------------------------


def own_messages(messages: Sequence[Message]) -> list[UserMessage]:
    """Return the messages of the user that a front end has written, new ones and old ones.

    Only the user's count: a front end cannot put words into the mouth of an agent.
    """
    return [one for one in messages if isinstance(one, UserMessage) and not one.id.startswith(OWN)]


def content_of(message: UserMessage) -> str | list[JsonObject]:
    """Return the content of a message, as `customer_input` takes it.

    Raises:
        UserError: a part is none that people send.
    """
    if isinstance(message.content, str):
        return message.content
    return [_part(one) for one in message.content]


def _part(part: Any) -> JsonObject:
    """Return a part as `customer_input` takes it."""
    if isinstance(part, TextPart):
        return {"type": "input_text", "text": part.text}
    source: object = getattr(part, "source", None)
    if part.type not in {"image", "document"} or not isinstance(source, DataSource):
        raise UserError(
            f"A part {part.type!r:.40} of a message must be a text, or an image or a document with "
            "its data."
        )
    data = f"data:{source.mime_type};base64,{source.value}"
    named = (as_object(part.metadata) or {}).get("filename")
    if part.type == "image":
        name = named if isinstance(named, str) else ""
        return {"type": "input_image", "image_url": with_name(data, name)}
    name = named if isinstance(named, str) else "document"
    return {"type": "input_file", "file_data": data, "filename": name}


def known_parts(messages: Sequence[Message]) -> Iterator[Part]:
    """Yield what a client has of the conversation."""
    for message in messages:
        match message:
            case UserMessage(id=own):
                yield Said(own, "user", "")
            case AssistantMessage(id=own, content=text, tool_calls=calls):
                if text:
                    yield Said(own, "assistant", text)
                for call in calls or ():
                    yield Called(call.id, own, call.function.name, call.function.arguments)
            case ToolMessage(id=own, tool_call_id=call_id, content=content):
                yield Returned(own, call_id, content if isinstance(content, str) else "")
            case _:
                pass


# --- Decisions -----------------------------------------------------------------------------------


def interrupt_id(request: ApprovalRequest) -> str:
    """Return the id under which a person is asked: another one when the request has changed."""
    return f"{request.id}~{request.digest[:_DIGEST]}"


def answers_in(resume: Sequence[ResumeEntry] | None) -> list[Answered]:
    """Return the answers to interrupts."""
    return [_answer(one) for one in resume or ()]


def _answer(entry: ResumeEntry) -> Answered:
    if entry.status == "cancelled":
        return Answered(entry.interrupt_id)
    payload = as_object(entry.payload) or {}
    approved, edited = payload.get("approved"), payload.get("editedArgs")
    message = payload.get("message")
    said = {"message": message} if isinstance(message, str) and message else {}
    if approved is not None and payload.get("response") is not None:  # it says two things
        return Answered(entry.interrupt_id, problem=_HOW_TO_DECIDE)
    if approved is True and edited is not None:
        fields = {"edited_arguments": edited, **said}
        return Answered(entry.interrupt_id, "edit", fields)
    if approved is True:
        return Answered(entry.interrupt_id, "approve", {"remember": payload.get("always") is True})
    if approved is False:
        return Answered(entry.interrupt_id, "reject", said)
    if payload.get("response") is not None:
        return Answered(entry.interrupt_id, "respond", {"response": payload["response"]})
    return Answered(entry.interrupt_id, problem=_HOW_TO_DECIDE)


def response_schema(request: ApprovalRequest) -> JsonObject:
    """Return the JSON Schema of an answer to an interrupt."""
    allow = request.terms.allow
    fields: JsonObject = {"approved": {"type": "boolean"}}
    if "edit" in allow and request.schema is not None:
        fields["editedArgs"] = request.schema
    if "reject" in allow or "edit" in allow:
        fields["message"] = {"type": "string", "description": "The reason, for the agent."}
    if "respond" in allow:
        fields["response"] = request.terms.response_schema or {"type": "string"}
    if request.kind == "tool" and request.terms.quorum == 1:
        words = "Also for further calls of this tool in this conversation."
        fields["always"] = {"type": "boolean", "description": words}
    return {"type": "object", "properties": fields}
