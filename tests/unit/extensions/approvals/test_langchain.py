"""LangChain's human-in-the-loop shapes, as `langchain` 1.5 defines them, both ways."""

import json
from dataclasses import replace
from typing import Any, Literal, NotRequired

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ConfigDict, TypeAdapter, with_config
from typing_extensions import TypedDict

from outlast.agents.errors import UserError
from outlast.extensions.approvals.langchain import (
    from_hitl_request,
    from_hitl_response,
    from_tool_approval,
    from_tool_approval_request,
    to_hitl_request,
    to_hitl_response,
    to_tool_approval,
    to_tool_approval_request,
)
from outlast.loop import votes
from outlast.loop.approvals import ApprovalRequest, ApprovalTerms, Decision, digest

Kind = Literal["approve", "edit", "reject", "respond"]


@with_config(ConfigDict(extra="forbid"))
class ActionRequest(TypedDict):
    name: str
    args: dict[str, Any]
    description: NotRequired[str]


@with_config(ConfigDict(extra="forbid"))
class ReviewConfig(TypedDict):
    action_name: str
    allowed_decisions: list[Kind]
    args_schema: NotRequired[dict[str, Any]]


@with_config(ConfigDict(extra="forbid"))
class HITLRequest(TypedDict):
    action_requests: list[ActionRequest]
    review_configs: list[ReviewConfig]


@with_config(ConfigDict(extra="forbid"))
class ToolApprovalRequest(TypedDict):
    type: Literal["tool_approval"]
    tool_call_id: str
    name: str
    args: dict[str, Any]
    description: str


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NAMES = st.sampled_from(["refund_order", "ship", "call"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
ARGUMENTS = st.dictionaries(TEXT, JSON, max_size=3)
KINDS = st.lists(st.sampled_from(["approve", "edit", "reject", "respond"]), min_size=1, unique=True)


def request_of(name: str = "refund_order", args: Any = None, **fields: Any) -> ApprovalRequest:
    arguments = json.dumps({"amount": 250} if args is None else args)
    terms = ApprovalTerms(
        allow=tuple(fields.pop("allow", ("approve", "edit", "reject", "respond")))
    )
    made: dict[str, Any] = {
        "id": "a1",
        "call_id": "c1",
        "agent": "Billing",
        "args_digest": digest(arguments),
        "requested_at_ms": 0,
        "schema": {"type": "object"},
        **fields,
    }
    return ApprovalRequest(name=name, arguments=arguments, terms=terms, **made)


REQUESTS = st.builds(
    request_of,
    NAMES,
    ARGUMENTS,
    allow=KINDS,
    reason=st.none() | TEXT.filter(bool),
    schema=st.sampled_from([{"type": "object"}, {"type": "object", "properties": {}}]),
)


@st.composite
def foreign_decisions(draw: st.DrawFn, request: ApprovalRequest) -> dict[str, Any]:
    """A decision in LangChain's shape that its middleware would take for a request."""
    kind = draw(st.sampled_from(request.terms.allow))
    match kind:
        case "edit":
            return {"type": kind, "edited_action": {"name": request.name, "args": draw(ARGUMENTS)}}
        case "respond":
            return {"type": kind, "message": draw(TEXT)}
        case "reject":
            message = draw(st.none() | TEXT)
            return {"type": kind} if message is None else {"type": kind, "message": message}
        case _:
            return {"type": kind}


@given(st.lists(REQUESTS, min_size=1, max_size=4))
def test_requests_have_the_documented_shape_and_come_back(requests: list[ApprovalRequest]) -> None:
    shown = to_hitl_request(requests)
    TypeAdapter(HITLRequest).validate_python(shown, strict=True)
    back = from_hitl_request(json.loads(json.dumps(shown)), agent="Billing", requested_at_ms=0)
    for one, other in zip(requests, back, strict=True):
        assert (one.name, one.args_digest, one.schema) == (
            other.name,
            other.args_digest,
            other.schema,
        )
        assert one.terms.allow == other.terms.allow
        assert one.reason in {None, other.reason}
    assert to_hitl_request(back) == shown
    assert [one.id for one in back] == [f"h{at + 1}" for at in range(len(requests))]


@given(st.data(), st.lists(REQUESTS, min_size=1, max_size=4))
def test_decisions_come_back_as_they_were(
    data: st.DataObject, requests: list[ApprovalRequest]
) -> None:
    requests = [replace(one, id=f"a{at}") for at, one in enumerate(requests)]
    response = {"decisions": [data.draw(foreign_decisions(one)) for one in requests]}
    decisions = from_hitl_response(requests, response)
    assert to_hitl_response(requests, data.draw(st.permutations(decisions))) == response
    for request, decision in zip(requests, decisions, strict=True):
        assert (decision.request_id, decision.args_digest) == (request.id, request.args_digest)
        assert (decision.by, decision.proof, decision.channel) == (None, None, "langchain")
        sender = votes.Sender(at_ms=1)
        assert decision.response == "" or votes.refusal([request], decision, sender) is None


@given(st.data(), REQUESTS)
def test_one_call_has_its_own_interrupt(data: st.DataObject, request: ApprovalRequest) -> None:
    shown = to_tool_approval_request(request)
    TypeAdapter(ToolApprovalRequest).validate_python(shown, strict=True)
    back = from_tool_approval_request(shown, agent="Billing", requested_at_ms=0)
    assert (back.id, back.call_id, back.name) == ("c1", "c1", request.name)
    assert back.args_digest == request.args_digest
    foreign = data.draw(foreign_decisions(request))
    assert to_tool_approval(request, from_tool_approval(request, foreign)) == foreign


def test_a_handwritten_request_of_the_documentation_is_read() -> None:
    shown = {
        "action_requests": [
            {"name": "write_file", "args": {"path": "a.txt"}, "description": "Please review"},
            {"name": "execute_sql", "args": {"query": "DELETE"}},
        ],
        "review_configs": [
            {"action_name": "execute_sql", "allowed_decisions": ["approve", "reject"]},
            {"action_name": "write_file", "allowed_decisions": ["approve", "edit", "reject"]},
        ],
    }
    write, execute = from_hitl_request(shown, agent="Coder", requested_at_ms=5, prefix="lc")
    assert (write.id, write.name, write.reason) == ("lc1", "write_file", "Please review")
    assert write.terms.allow == ("approve", "edit", "reject")
    assert (execute.reason, execute.terms.allow) == (None, ("approve", "reject"))
    assert json.loads(execute.arguments) == {"query": "DELETE"}


# --- What cannot be said -------------------------------------------------------------------------

REQUEST = request_of()
APPROVE = Decision(request_id="a1", type="approve")


@pytest.mark.parametrize(
    ("decision", "problem"),
    [
        (replace(APPROVE, remember=True), "LangChain cannot remember a decision"),
        (replace(APPROVE, message="fine"), "takes no message with a decision of type approve"),
        (replace(APPROVE, args_digest="other"), "was made for other arguments"),
        (replace(APPROVE, type="respond", response={"a": 1}), "response to a1 must be a text"),
        (replace(APPROVE, type="edit"), "The edited arguments of a1 must be an object"),
        (replace(APPROVE, request_id="a9"), "There is no request 'a9'. Requests: a1."),
    ],
    ids=range(6),
)
def test_what_langchain_cannot_express_is_refused(decision: Decision, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        to_hitl_response([REQUEST], [decision])


def test_a_decision_that_is_not_allowed_is_refused() -> None:
    with pytest.raises(UserError, match="a1 cannot be decided with approve"):
        to_tool_approval(request_of(allow=["reject"]), APPROVE)


def test_each_request_needs_one_decision() -> None:
    for decisions in ([], [APPROVE, APPROVE]):
        with pytest.raises(UserError, match=f"Request a1 has {len(decisions)} decisions"):
            to_hitl_response([REQUEST], decisions)
    with pytest.raises(UserError, match="has 2 decisions for 1 requests"):
        from_hitl_response([REQUEST], {"decisions": [{"type": "approve"}] * 2})


@pytest.mark.parametrize("arguments", ["[1]", "not json", '{"a": 1, "a": 2}', '"[redacted]"'])
def test_arguments_that_an_object_would_not_show_are_refused(arguments: str) -> None:
    with pytest.raises(UserError, match="arguments of approval a1 are no JSON object, or repeat"):
        to_hitl_request([replace(REQUEST, arguments=arguments)])


def test_a_response_with_fields_is_not_offered() -> None:
    terms = ApprovalTerms(allow=("respond", "reject"), response_schema={"type": "object"})
    shown = to_hitl_request([replace(REQUEST, terms=terms)])
    assert shown["review_configs"][0]["allowed_decisions"] == ["reject"]
    with pytest.raises(UserError, match="only takes a response with fields"):
        to_hitl_request([replace(REQUEST, terms=replace(terms, allow=("respond",)))])
    with pytest.raises(UserError, match="There is no request to show"):
        to_hitl_request([])


BAD_DECISIONS: list[tuple[Any, str]] = [
    ({}, "cannot be decided with None"),
    ({"type": "ignore"}, "cannot be decided with 'ignore', only with approve, edit"),
    ("approve", "must be an object, not 'approve'"),
    ({"type": "edit"}, "The edited_action of a1 must be an object"),
    ({"type": "edit", "edited_action": {"name": "ship", "args": {}}}, "names the tool 'ship'"),
    ({"type": "edit", "edited_action": {"name": "refund_order"}}, "args of the edit of a1"),
    ({"type": "respond"}, "message of the response to a1 must be a text"),
    ({"type": "reject", "message": 7}, "message of the rejection of a1 must be a text"),
]


@pytest.mark.parametrize(("decision", "problem"), BAD_DECISIONS, ids=range(8))
def test_a_bad_decision_is_refused(decision: Any, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        from_tool_approval(REQUEST, decision)


CONFIG: dict[str, Any] = {"action_name": "ship", "allowed_decisions": ["approve"]}
ACTION: dict[str, Any] = {"name": "ship", "args": {}}


BAD_REQUESTS: list[tuple[Any, str]] = [
    ([], "A HITLRequest must be an object"),
    ({}, "action_requests must be a list, not None"),
    ({"action_requests": "x", "review_configs": []}, "action_requests must be a list"),
    ({"action_requests": [7], "review_configs": []}, r"action_requests\[0\] must be an object"),
    ({"action_requests": [{"args": {}}], "review_configs": []}, "name must be a text"),
    ({"action_requests": [ACTION], "review_configs": []}, "no entry for the action 'ship'"),
    ({"action_requests": [{"name": "ship"}], "review_configs": [CONFIG]}, "args must be an object"),
    ({"action_requests": [ACTION], "review_configs": [{**CONFIG, "allowed_decisions": []}]},
     "has no type"),
    ({"action_requests": [ACTION], "review_configs": [{**CONFIG, "allowed_decisions": ["x"]}]},
     "has 'x'. Types: approve"),
    ({"action_requests": [{**ACTION, "description": 7}], "review_configs": [CONFIG]},
     "description must be a text"),
]  # fmt: skip


@pytest.mark.parametrize(("shown", "problem"), BAD_REQUESTS, ids=range(10))
def test_another_shape_is_refused(shown: Any, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        from_hitl_request(shown, agent="A", requested_at_ms=0)


def test_another_interrupt_is_refused() -> None:
    with pytest.raises(UserError, match="has the type 'x', not tool_approval"):
        from_tool_approval_request({"type": "x"}, agent="A", requested_at_ms=0)


def test_arguments_without_a_schema_cannot_be_edited() -> None:
    shown = to_hitl_request([replace(REQUEST, schema=None)])
    assert shown["review_configs"][0]["allowed_decisions"] == ["approve", "reject", "respond"]
