"""Requests and decisions in the shapes of LangChain's human-in-the-loop middleware, both ways.

A screen made for those shapes can decide about approvals of outlast: `to_hitl_request`, then
`from_hitl_response`. People who use outlast can decide about an interrupt of LangChain:
`from_hitl_request`, then `to_hitl_response`. LangChain matches a batch by position, so both take
requests in the same order. Its interrupts per call have functions with `tool_approval` in their
names. Needs no package of LangChain.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast, get_args

from outlast.agents.errors import UserError
from outlast.extensions.approvals.fields import (
    arguments_of,
    check_sayable,
    is_for_texts,
    list_of,
    object_of,
    text_of,
)
from outlast.loop.approvals import (
    ApprovalRequest,
    ApprovalTerms,
    Decision,
    DecisionType,
    digest,
)
from outlast.loop.values import Json, JsonObject

CHANNEL: Final = "langchain"
_ANY_OBJECT: Final[JsonObject] = {"type": "object"}
"""The schema of arguments whose schema LangChain does not say; without one, nothing is edited."""

_TYPES: Final[tuple[DecisionType, ...]] = get_args(DecisionType)


# --- Requests of outlast, decided in LangChain's shapes ------------------------------------------


def to_hitl_request(requests: Sequence[ApprovalRequest]) -> JsonObject:
    """Return requests as one `HITLRequest`: an action and a review configuration for each.

    Raises:
        UserError: there is no request, or one cannot be shown there.
    """
    if not requests:
        raise UserError("There is no request to show: a HITLRequest needs at least one.")
    return {
        "action_requests": [
            {"name": one.name, "args": arguments_of(one), "description": _description(one)}
            for one in requests
        ],
        "review_configs": [_review_config(one) for one in requests],
    }


def to_tool_approval_request(request: ApprovalRequest) -> JsonObject:
    """Return a request as the interrupt of one call.

    Raises:
        UserError: the request cannot be shown there.
    """
    _allowed(request)
    return {
        "type": "tool_approval",
        "tool_call_id": request.call_id,
        "name": request.name,
        "args": arguments_of(request),
        "description": _description(request),
    }


def from_hitl_response(
    requests: Sequence[ApprovalRequest], response: Mapping[str, Any]
) -> tuple[Decision, ...]:
    """Return the decisions of a `HITLResponse`, each bound to its request's arguments.

    They name nobody: add the person with `outlast.client.identity.decided_by`.

    Args:
        requests: the requests in the order in which they were shown.
        response: `{"decisions": [...]}`.

    Raises:
        UserError: the response has another number of decisions, or one does not fit its request.
    """
    decisions = list_of(object_of(response, "A HITLResponse").get("decisions"), "decisions")
    if len(decisions) != len(requests):
        raise UserError(
            f"The response has {len(decisions)} decisions for {len(requests)} requests. They are "
            "matched by position, so each request needs one."
        )
    return tuple(
        from_tool_approval(request, one) for request, one in zip(requests, decisions, strict=True)
    )


def from_tool_approval(request: ApprovalRequest, decision: Mapping[str, Any]) -> Decision:
    """Return one decision in LangChain's shape as a decision about a request.

    Raises:
        UserError: the decision does not fit the request.
    """
    fields = object_of(decision, f"The decision about {request.id}")
    kind = fields.get("type")
    if kind not in _allowed(request):
        raise UserError(
            f"Approval {request.id} cannot be decided with {kind!r:.40}, only with "
            f"{', '.join(_allowed(request))}."
        )
    message: str | None = None
    response: Json = None
    edited: JsonObject | None = None
    if kind == "edit":
        edited = _edited_arguments(request, fields)
    elif kind == "respond":
        response = text_of(fields.get("message"), f"The message of the response to {request.id}")
    elif kind == "reject" and fields.get("message") is not None:
        message = text_of(fields["message"], f"The message of the rejection of {request.id}")
    return Decision(
        request_id=request.id,
        type=kind,
        message=message,
        response=response,
        edited_arguments=edited,
        args_digest=request.args_digest,
        channel=CHANNEL,
    )


def _edited_arguments(request: ApprovalRequest, fields: JsonObject) -> JsonObject:
    action = object_of(fields.get("edited_action"), f"The edited_action of {request.id}")
    if action.get("name") != request.name:
        raise UserError(
            f"The edit of {request.id} names the tool {action.get('name')!r:.80}, but an edit "
            f"changes arguments only: the call is of {request.name!r:.80}."
        )
    return object_of(action.get("args"), f"The args of the edit of {request.id}")


def _allowed(request: ApprovalRequest) -> list[DecisionType]:
    """Return the decisions that LangChain can express: its responses are texts.

    Raises:
        UserError: there is none.
    """
    texts = is_for_texts(request.terms.response_schema)
    found: list[DecisionType] = [
        kind
        for kind in request.terms.allow
        if (kind != "respond" or texts) and (kind != "edit" or request.schema is not None)
    ]
    if not found:
        raise UserError(
            f"Approval {request.id} only takes a response with fields, and responses of LangChain "
            "are texts. Show it as an MCP elicitation, or decide it with `outlast`."
        )
    return found


def _review_config(request: ApprovalRequest) -> JsonObject:
    config: JsonObject = {"action_name": request.name, "allowed_decisions": _allowed(request)}
    if request.schema in (None, _ANY_OBJECT):
        return config
    return {**config, "args_schema": request.schema}


def _description(request: ApprovalRequest) -> str:
    return request.reason or f"{request.agent} wants to call {request.name}."


# --- Interrupts of LangChain, decided with outlast -----------------------------------------------


def from_hitl_request(
    request: Mapping[str, Any], *, agent: str, requested_at_ms: int, prefix: str = "h"
) -> tuple[ApprovalRequest, ...]:
    """Return the actions of a `HITLRequest` as requests `h1`, `h2` …, in its order.

    Args:
        request: the value of the interrupt.
        agent: the name of the agent, for people to read.
        requested_at_ms: when it was made, in milliseconds since the epoch.
        prefix: the beginning of the requests' ids.

    Raises:
        UserError: it is no such request, or an action has no review configuration.
    """
    fields = object_of(request, "A HITLRequest")
    actions = list_of(fields.get("action_requests"), "action_requests")
    configs = [
        object_of(one, f"review_configs[{at}]")
        for at, one in enumerate(list_of(fields.get("review_configs"), "review_configs"))
    ]
    found: list[ApprovalRequest] = []
    for at, one in enumerate(actions):
        action = object_of(one, f"action_requests[{at}]")
        config = _config_of(text_of(action.get("name"), f"action_requests[{at}].name"), at, configs)
        found.append(
            _request_of(
                action,
                f"action_requests[{at}]",
                _decision_types(config.get("allowed_decisions"), f"review_configs of {at}"),
                ApprovalRequest(
                    id=f"{prefix}{at + 1}",
                    call_id="",
                    name="",
                    agent=agent,
                    arguments="",
                    args_digest="",
                    schema=config.get("args_schema") or _ANY_OBJECT,
                    requested_at_ms=requested_at_ms,
                ),
            )
        )
    return tuple(found)


def from_tool_approval_request(
    request: Mapping[str, Any],
    *,
    agent: str,
    requested_at_ms: int,
    allow: Sequence[DecisionType] = ("approve", "edit", "reject"),
) -> ApprovalRequest:
    """Return the interrupt of one call as a request with the call's id.

    Args:
        request: the value of the interrupt.
        agent: the name of the agent, for people to read.
        requested_at_ms: when it was made, in milliseconds since the epoch.
        allow: the decisions that the interrupt's `response_schema` allows.

    Raises:
        UserError: it is no such interrupt.
    """
    fields = object_of(request, "A ToolApprovalRequest")
    if fields.get("type") != "tool_approval":
        raise UserError(
            f"The interrupt has the type {fields.get('type')!r:.40}, not tool_approval."
        )
    call_id = text_of(fields.get("tool_call_id"), "tool_call_id")
    blank = ApprovalRequest(
        id=call_id,
        call_id=call_id,
        name="",
        agent=agent,
        arguments="",
        args_digest="",
        schema=_ANY_OBJECT,
        requested_at_ms=requested_at_ms,
    )
    return _request_of(fields, "The interrupt", _decision_types(list(allow), "allow"), blank)


def to_hitl_response(
    requests: Sequence[ApprovalRequest], decisions: Sequence[Decision]
) -> JsonObject:
    """Return decisions as a `HITLResponse`, in the order of the requests.

    Args:
        requests: the requests of `from_hitl_request`.
        decisions: a decision about each of them, in any order.

    Raises:
        UserError: a request has no decision or several, or LangChain cannot express one.
    """
    ids = [one.id for one in requests]
    strange = [one.request_id for one in decisions if one.request_id not in ids]
    if strange:
        raise UserError(f"There is no request {strange[0]!r:.80}. Requests: {', '.join(ids)}.")
    answers: list[JsonObject] = []
    for request in requests:
        found = [one for one in decisions if one.request_id == request.id]
        if len(found) != 1:
            raise UserError(
                f"Request {request.id} has {len(found)} decisions. LangChain resumes with exactly "
                "one for each call."
            )
        answers.append(to_tool_approval(request, found[0]))
    return {"decisions": answers}


def to_tool_approval(request: ApprovalRequest, decision: Decision) -> JsonObject:
    """Return a decision in LangChain's shape.

    Raises:
        UserError: it is not allowed, for other arguments, or LangChain cannot express it.
    """
    if decision.args_digest not in {None, request.args_digest}:
        raise UserError(f"The decision about {request.id} was made for other arguments.")
    if decision.type not in request.terms.allow:
        raise UserError(f"Request {request.id} cannot be decided with {decision.type}.")
    check_sayable(decision, "LangChain", message=decision.type == "reject")
    match decision.type:
        case "approve":
            return {"type": "approve"}
        case "edit":
            wanted = object_of(decision.edited_arguments, f"The edited arguments of {request.id}")
            return {"type": "edit", "edited_action": {"name": request.name, "args": wanted}}
        case "reject":
            message = decision.message
            return {"type": "reject"} if message is None else {"type": "reject", "message": message}
        case "respond":
            said = text_of(decision.response, f"LangChain's response to {request.id}")
            return {"type": "respond", "message": said}


def _config_of(name: str, at: int, configs: Sequence[JsonObject]) -> JsonObject:
    """Return the review configuration of an action: at its position, or else of its name."""
    if at < len(configs) and configs[at].get("action_name") == name:
        return configs[at]
    for one in configs:
        if one.get("action_name") == name:
            return one
    raise UserError(f"review_configs has no entry for the action {name!r:.80}.")


def _request_of(
    action: JsonObject, place: str, allow: tuple[DecisionType, ...], blank: ApprovalRequest
) -> ApprovalRequest:
    arguments = json.dumps(object_of(action.get("args"), f"{place}.args"), ensure_ascii=False)
    described = action.get("description")
    return replace(
        blank,
        name=text_of(action.get("name"), f"{place}.name"),
        arguments=arguments,
        args_digest=digest(arguments),
        reason=None if described is None else text_of(described, f"{place}.description"),
        terms=ApprovalTerms(allow=allow),
    )


def _decision_types(value: object, place: str) -> tuple[DecisionType, ...]:
    found = list_of(value, f"allowed_decisions in {place}")
    unknown = [one for one in found if one not in _TYPES]
    if unknown or not found:
        raise UserError(
            f"allowed_decisions in {place} has {repr(unknown[0])[:40] if unknown else 'no type'}. Types: "
            f"{', '.join(_TYPES)}."
        )
    return tuple(cast("list[DecisionType]", found))
