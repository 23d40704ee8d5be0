"""Elicitations of MCP, as its package defines them, both ways."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import ElicitRequestFormParams, ElicitResult
from mcp_types._v2025_11_25 import PrimitiveSchemaDefinition
from pydantic import TypeAdapter

from outlast.agents.errors import UserError
from outlast.extensions.approvals.elicitation import (
    from_elicitation,
    from_form_result,
    to_elicitation,
    to_elicitation_result,
)
from outlast.loop import votes
from outlast.loop.approvals import (
    REDACTED,
    ApprovalRequest,
    ApprovalTerms,
    Decision,
    DecisionType,
    digest,
)
from tests.hostile_text import TEXTS, assert_visible

PRIMITIVE: TypeAdapter[Any] = TypeAdapter(PrimitiveSchemaDefinition)

ARGUMENTS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "order_id": {"type": "string", "title": "Order"},
        "amount": {"type": "number", "minimum": 0},
        "count": {"type": "integer"},
        "notify": {"type": "boolean"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "speed": {"type": "string", "enum": ["slow", "fast"]},
        "card": {"type": "string"},
        "lines": {"type": "array", "items": {"type": "object"}},
    },
    "required": ["order_id", "amount"],
    "additionalProperties": False,
}
ARGUMENTS: dict[str, Any] = {
    "order_id": "A-17",
    "amount": 250,
    "note": None,
    "card": REDACTED,
    "lines": [{"sku": 1}],
}
CONTACT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "Your full name", "minLength": 1},
        "email": {"type": "string", "format": "email"},
        "age": {"type": "number", "minimum": 18},
        "news": {"type": "boolean", "default": False},
        "color": {"type": "string", "oneOf": [{"const": "#f00", "title": "Red"}]},
        "sizes": {"type": "array", "maxItems": 2, "items": {"type": "string", "enum": ["S", "M"]}},
        "tags": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}},
    },
    "required": ["name", "email"],
}


def request_of(*allow: DecisionType, schema: Any = None, **fields: Any) -> ApprovalRequest:
    arguments = json.dumps(fields.pop("args", ARGUMENTS))
    made: dict[str, Any] = {
        "call_id": "c1",
        "name": "refund_order",
        "agent": "Billing",
        "args_digest": digest(arguments),
        "schema": ARGUMENTS_SCHEMA,
        "requested_at_ms": 0,
        **fields,
    }
    terms = ApprovalTerms(
        allow=allow or ("approve", "edit", "reject", "respond"),
        response_schema=schema,
        redact=("card",),
        risk="high",
        effect="irreversible",
    )
    return ApprovalRequest(id="a1", arguments=arguments, terms=terms, **made)


def accepted(**content: Any) -> dict[str, Any]:
    result = {"action": "accept", "content": content}
    ElicitResult.model_validate(result)
    return result


def decided(request: ApprovalRequest, result: Any) -> Decision:
    """Return the decision of a form, which the loop accepts."""
    decision = from_form_result(request, result)
    assert decision is not None
    assert votes.refusal([request], decision, votes.Sender(at_ms=1)) is None
    assert (decision.args_digest, decision.channel, decision.by) == (
        request.args_digest,
        "mcp",
        None,
    )
    return decision


# --- Approvals of outlast, as forms --------------------------------------------------------------


def test_an_approval_is_a_flat_form() -> None:
    shown = to_elicitation(request_of(reason="more than 200"))
    ElicitRequestFormParams.model_validate(shown)
    fields = shown["requestedSchema"]["properties"]
    for field in fields.values():
        PRIMITIVE.validate_python(field)
    assert list(fields) == [
        "decision",
        "message",
        "edit_order_id",
        "edit_amount",
        "edit_count",
        "edit_notify",
        "edit_note",
        "edit_speed",
        "response",
    ]
    assert [one["const"] for one in fields["decision"]["oneOf"]] == [
        "approve",
        "edit",
        "reject",
        "respond",
    ]
    assert fields["edit_amount"] == {
        "title": "amount",
        "type": "number",
        "minimum": 0,
        "default": 250,
    }
    assert fields["edit_note"] == {"title": "note", "type": "string"}
    assert shown["requestedSchema"]["required"] == ["decision"]


def test_the_message_says_what_is_asked_with_all_arguments_that_reviewers_see() -> None:
    message = to_elicitation(request_of(reason="more than 200"))["message"]
    assert message.splitlines()[0] == "Billing wants to call refund_order:"
    for line in ('  "amount": 250,', '  "card": "[redacted]",', "more than 200", "Risk: high."):
        assert line in message.splitlines()
    assert "Effect: irreversible." in message


def test_each_decision_of_a_form_is_one_that_the_run_takes() -> None:
    request = request_of()
    assert decided(request, accepted(decision="approve")).type == "approve"
    rejection = decided(request, accepted(decision="reject", message="too much"))
    assert (rejection.type, rejection.message) == ("reject", "too much")
    assert decided(request, accepted(decision="reject", message="")).message is None
    assert decided(request, accepted(decision="respond", response="Done.")).response == "Done."
    edit = decided(request, accepted(decision="edit", edit_amount=12.5, edit_speed="fast"))
    assert edit.edited_arguments == {**ARGUMENTS, "amount": 12.5, "speed": "fast"}
    assert decided(request, {"action": "decline"}).type == "reject"
    assert from_form_result(request, {"action": "cancel"}) is None


def test_a_client_that_sends_all_fields_back_approves_what_was_shown() -> None:
    request = request_of()
    shown = to_elicitation(request)["requestedSchema"]["properties"]
    content = {name: field["default"] for name, field in shown.items() if "default" in field}
    assert content == {"edit_order_id": "A-17", "edit_amount": 250}
    assert decided(request, accepted(decision="approve", **content)).type == "approve"
    with pytest.raises(UserError, match="has changed values, but the decision approve"):
        from_form_result(request, accepted(decision="approve", edit_amount=1))
    with pytest.raises(UserError, match="has changed values, but the decision reject"):
        from_form_result(request, accepted(decision="reject", edit_count=1))


def test_a_response_with_fields_has_them_in_the_form() -> None:
    request = request_of("approve", "respond", schema=CONTACT)
    fields = to_elicitation(request)["requestedSchema"]["properties"]
    assert fields["response_age"] == {"type": "number", "minimum": 18}
    content = {"response_name": "Ann", "response_email": "ann@example.com"}
    decision = decided(request, accepted(decision="respond", **content))
    assert decision.response == {"name": "Ann", "email": "ann@example.com"}


def test_what_does_not_fit_into_a_form_is_not_offered() -> None:
    deep: dict[str, Any] = {"type": "object", "properties": {"lines": {"type": "object"}}}
    request = request_of("approve", "edit", "respond", schema=deep, args={})
    request = replace(request, schema=deep)
    shown = to_elicitation(request)["requestedSchema"]["properties"]
    assert [one["const"] for one in shown["decision"]["oneOf"]] == ["approve"]
    with pytest.raises(UserError, match="cannot be decided with 'edit', only with approve"):
        from_form_result(request, accepted(decision="edit"))
    with pytest.raises(UserError, match="takes edit, respond only, with values that a flat form"):
        to_elicitation(replace(request, terms=replace(request.terms, allow=("edit", "respond"))))


def test_arguments_that_are_no_object_can_be_approved_and_not_edited() -> None:
    request = replace(request_of("approve", "reject"), arguments="not json")
    assert "not json" in to_elicitation(request)["message"]
    assert decided(request, accepted(decision="approve")).type == "approve"
    with pytest.raises(UserError, match="are no JSON object"):
        to_elicitation(replace(request_of(), arguments="[1]"))


BAD_RESULTS: list[tuple[Any, str]] = [
    ("accept", "An ElicitResult must be an object"),
    ({}, "accept, decline or cancel, not None"),
    ({"action": "ok"}, "accept, decline or cancel, not 'ok'"),
    ({"action": "accept"}, "The content of an accepted form must be an object"),
    (accepted(), "cannot be decided with None"),
    (accepted(decision="ignore"), "cannot be decided with 'ignore'"),
    (accepted(decision="approve", card="4111"), "has no field 'card'"),
    (accepted(decision="edit", edit_card="4111"), "has no field 'edit_card'"),
    (accepted(decision="edit", edit_lines=["x"]), "has no field 'edit_lines'"),
    (accepted(decision="approve", message="ok"), "A message goes with a rejection only"),
    (accepted(decision="reject", message=7), "The message must be a text"),
    (accepted(decision="respond"), "The field response must be a text"),
]


@pytest.mark.parametrize(("result", "problem"), BAD_RESULTS, ids=range(len(BAD_RESULTS)))
def test_a_result_that_does_not_fit_is_refused(result: Any, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        from_form_result(request_of(), result)


def test_a_decline_where_nobody_may_reject_is_refused() -> None:
    with pytest.raises(UserError, match="cannot be decided with 'reject', only with approve"):
        from_form_result(request_of("approve"), {"action": "decline"})


@given(TEXTS, TEXTS, TEXTS)
def test_hostile_texts_are_visible_in_the_message(agent: str, name: str, reason: str) -> None:
    request = replace(request_of(args={"x": reason}), agent=agent, name=name, reason=reason or None)
    assert_visible(to_elicitation(request)["message"], layout="\n")


# --- Forms of MCP servers ------------------------------------------------------------------------


def of_server(params: Any) -> ApprovalRequest:
    return from_elicitation(
        params, request_id="e1", server="crm", agent="Billing", requested_at_ms=5
    )


NAMES = st.text("abcxyz_", min_size=1, max_size=5)
LABELS = st.text(max_size=5)
CHOICES = st.lists(NAMES, min_size=1, max_size=3, unique=True)
FIELDS: st.SearchStrategy[dict[str, Any]] = st.one_of(
    LABELS.map(lambda title: {"type": "string", "title": title}),
    st.just({"type": "string", "format": "date", "minLength": 1, "maxLength": 50}),
    st.integers(0, 9).map(lambda low: {"type": "number", "minimum": low, "default": low}),
    st.just({"type": "integer", "description": "How many"}),
    st.just({"type": "boolean", "default": True}),
    CHOICES.map(lambda names: {"type": "string", "enum": names}),
    CHOICES.map(
        lambda names: {"type": "string", "oneOf": [{"const": n, "title": n} for n in names]}
    ),
    CHOICES.map(lambda names: {"type": "array", "items": {"type": "string", "enum": names}}),
    CHOICES.map(
        lambda names: {
            "type": "array",
            "items": {"anyOf": [{"const": n, "title": n} for n in names]},
        }
    ),
)
FORMS = st.dictionaries(NAMES, FIELDS, max_size=4).map(
    lambda fields: {"type": "object", "properties": fields, "required": sorted(fields)[:1]}
)


@given(st.text(max_size=20), FORMS, st.sampled_from(["decline", "cancel", "accept"]), st.data())
def test_a_form_and_its_result_come_back_as_they_were(
    message: str, schema: dict[str, Any], action: str, data: st.DataObject
) -> None:
    params = {"mode": "form", "message": message, "requestedSchema": schema}
    for field in schema["properties"].values():
        PRIMITIVE.validate_python(field)
    request = of_server(params)
    assert to_elicitation(request) == {
        **params,
        "message": message or to_elicitation(request)["message"],
    }
    result: dict[str, Any] = {"action": action}
    if action == "accept":
        chosen = data.draw(st.sets(st.sampled_from(sorted(schema["properties"]) or [""])))
        result["content"] = {name: "value" for name in chosen if name}
    decision = from_form_result(request, result)
    assert to_elicitation_result(request, decision) == result


def test_a_servers_form_becomes_a_request_that_takes_a_response() -> None:
    request = of_server({"message": "Who are you?", "requestedSchema": CONTACT})
    assert (request.kind, request.name, request.reason) == (
        "tool",
        "crm.elicitation",
        "Who are you?",
    )
    assert (request.terms.allow, request.terms.response_schema) == (("respond", "reject"), CONTACT)
    good = {"name": "Ann", "email": "ann@example.com", "age": 30}
    decision = decided(request, accepted(**good))
    assert to_elicitation_result(request, decision) == {"action": "accept", "content": good}
    young = from_form_result(request, accepted(**{**good, "age": 3}))
    assert young is not None
    refusal = votes.refusal([request], young, votes.Sender(at_ms=9))
    assert refusal is not None
    assert "age must be at least 18" in refusal


FLAT: dict[str, Any] = {"type": "object", "properties": {}}
BAD_FORMS: list[tuple[Any, str]] = [
    ("x", "The parameters of an elicitation must be an object"),
    ({"mode": "url", "message": "x", "url": "https://x"}, "asks in the mode 'url'"),
    ({"requestedSchema": FLAT}, "The message of an elicitation must be a text"),
    ({"message": "x"}, "requestedSchema must be an object"),
    ({"message": "x", "requestedSchema": {"type": "array"}}, "is not flat: it has no properties"),
    ({"message": "x", "requestedSchema": {**FLAT, "type": "string"}}, "'its type' does not fit"),
    (
        {"message": "x", "requestedSchema": {**FLAT, "required": "name"}},
        "required in requestedSchema",
    ),
]
BAD_FIELDS: list[Any] = [
    {"type": "object", "properties": {}},
    {"type": "array", "items": {"type": "string"}},
    {"type": "array", "items": {"anyOf": [{"const": "a"}]}},
    {"type": "array"},
    {"type": "string", "enum": []},
    {"type": "string", "enum": [1]},
    {"type": "string", "oneOf": ["a"]},
    {"type": "number", "enum": [1]},
    {"$ref": "#/$defs/X"},
    {"type": ["string", "number"]},
    {"anyOf": [{"type": "string"}, {"type": "number"}]},
    "string",
    {},
]


@pytest.mark.parametrize(("params", "problem"), BAD_FORMS, ids=range(len(BAD_FORMS)))
def test_another_elicitation_is_refused(params: Any, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        of_server(params)


@pytest.mark.parametrize("field", BAD_FIELDS, ids=range(len(BAD_FIELDS)))
def test_a_form_that_is_not_flat_is_refused(field: Any) -> None:
    schema = {"type": "object", "properties": {"ok": {"type": "string"}, "deep": field}}
    with pytest.raises(UserError, match="is not flat: 'deep' does not fit"):
        of_server({"message": "x", "requestedSchema": schema})


@pytest.mark.parametrize(
    ("decision", "problem"),
    [
        (Decision(request_id="e1", type="approve"), "cannot be decided with 'approve'"),
        (Decision(request_id="e1", type="reject", message="no"), "MCP takes no message"),
        (Decision(request_id="e1", type="reject", remember=True), "MCP cannot remember"),
        (
            Decision(request_id="e1", type="respond", response="x"),
            "response to e1 must be an object",
        ),
    ],
    ids=range(4),
)
def test_what_mcp_cannot_express_is_refused(decision: Decision, problem: str) -> None:
    request = of_server({"message": "x", "requestedSchema": CONTACT})
    with pytest.raises(UserError, match=problem):
        to_elicitation_result(request, decision)


def test_a_request_that_is_no_form_has_no_result_for_an_approval() -> None:
    with pytest.raises(UserError, match="takes a response or a rejection, not approve"):
        to_elicitation_result(request_of(), Decision(request_id="a1", type="approve"))


def test_a_request_that_nobody_decided_is_cancelled() -> None:
    assert to_elicitation_result(request_of(), None) == {"action": "cancel"}
