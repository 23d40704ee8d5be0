"""A value that a policy hides is on no surface, however the run repeats it; its group sees it.

Each surface is asked about one run in which the model, a tool and another argument repeat the value
in variants: see `VARIANTS`.
"""

import json
from collections.abc import Callable
from typing import Any, Final

import pytest

from outlast.cli.report import Report
from outlast.client.identity import person
from outlast.client.people.nested_requests import FoundRequest
from outlast.client.people.words import model_words
from outlast.client.timeline import Timeline
from outlast.loop.approvals import ApprovalTerms
from outlast.loop.notices import Notice
from outlast.loop.redacted import Redacted
from outlast.loop.state import LoopState
from outlast.notifications.texts import arguments_shown
from outlast.ports.notifier import notification
from outlast.serve.access import Caller, Program, Staff, groups_of
from outlast.serve.pages.conversation_view import conversation
from outlast.serve.records import customer_conversation, request_view, run_view
from outlast.serve.wires.ag_ui_view import view_of_team
from outlast.views.redaction import shown_notices
from outlast.views.run import snapshot_of
from outlast.workflows import presentation
from tests.laws.driver import Play, gated, nested, said
from tests.unit.serve.played import SIGNING

SECRET: Final = "DE89370400440532013000"
VARIANTS: Final = (
    SECRET,
    SECRET.lower(),
    "DE89 3704 0044 0532 0130 00",
    "de89-3704-0044-0532-0130-00",
    "ending in 013000",
)
PIECES: Final = (SECRET, SECRET.lower(), "3704", "013000")

ANN = Staff(person("ann", groups=["support"]), frozenset({"viewer", "decider", "operator"}))
FAY = Staff(person("fay", groups=["Fraud"]), frozenset({"viewer", "decider", "operator"}))


def waiting(variant: str) -> Play:
    """A payment that waits, whose other argument, reason and words repeat the account."""
    play = Play.ready(keep_open=True)
    terms = ApprovalTerms(redact=("iban",), redact_for=("fraud",))
    arguments = {"iban": SECRET, "note": f"to {variant}", "of": [variant]}
    play.replies(
        said(f"I pay to {variant}."),
        gated("pay", "c1", json.dumps(arguments), terms=terms, reason=f"pays {variant}"),
    )
    return play


def paid(variant: str) -> Play:
    play = waiting(variant)
    play.decided("a1", by="ann", message=f"to {variant}")
    play.returns("c1", f"paid to {variant}")
    play.replies(said(f"Paid to {variant}, done."))
    return play


def found(state: LoopState) -> list[FoundRequest]:
    return [FoundRequest(one, snapshot_of(state)) for one in state.approvals]


def api(state: LoopState, caller: Caller = ANN) -> str:
    view = run_view(snapshot_of(state), caller, requests=found(state), at_ms=state.at_ms)
    return view.model_dump_json()


def page(state: LoopState) -> str:
    seen = conversation(snapshot_of(state), Timeline().steps, ANN, SIGNING, at_ms=state.at_ms)
    return repr((seen.bubbles(0, 99), seen.waiting, seen.customer.unread))


def request(state: LoopState, caller: Caller = ANN) -> str:
    words = model_words(state, state.approvals[0], groups_of(caller))
    return request_view(found(state)[0], caller, words=words).model_dump_json()


def show(state: LoopState) -> str:
    report = Report(
        run_id=state.run_id,
        state=snapshot_of(state),
        status=state.status,
        task_queue="desk",
        events=0,
        ui=None,
        requests=tuple(one.shown for one in found(state)),
    )
    return json.dumps(report.record(10))


def queries(state: LoopState) -> str:
    return json.dumps(
        [
            presentation.state_view(state),
            presentation.transcript_view(state),
            presentation.approvals_view(state),
            [presentation.effect_line(state, one) for one in state.pending],
        ]
    )


def notices(state: LoopState) -> str:
    told = shown_notices(
        state, [Notice(event="created", request=one, at_ms=1) for one in state.approvals]
    )
    sent = [notification(one, state.run_id) for one in told]
    return repr([(one, arguments_shown(one)) for one in sent])


SURFACES: Final[dict[str, Callable[[LoopState], str]]] = {
    "the API": api,
    "the API, for a program": lambda state: api(state, Program("shop")),
    "the page of a conversation": page,
    "the page of a request": request,
    "AG-UI": lambda state: repr(view_of_team(snapshot_of(state), ANN).parts),
    "outlast show": show,
    "queries": queries,
    "details": presentation.details,
    "notices": notices,
}

OF_A_REQUEST: Final = {"the page of a request", "notices"}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("make", [waiting, paid], ids=["waiting", "paid"])
@pytest.mark.parametrize("surface", SURFACES)
def test_no_surface_shows_it(surface: str, make: Callable[[str], Play], variant: str) -> None:
    shown = SURFACES[surface](make(variant).state)
    assert not [one for one in PIECES if one in shown], shown
    assert "pay" in shown


@pytest.mark.parametrize("surface", [api, request])
def test_its_group_sees_it(surface: Callable[[LoopState, Caller], str]) -> None:
    shown = surface(waiting(SECRET).state, FAY)
    assert SECRET in shown
    assert "[redacted]" not in shown


@pytest.mark.parametrize("surface", [one for one in SURFACES if one not in OF_A_REQUEST])
def test_what_a_nested_run_hides_is_hidden_in_its_root(surface: str) -> None:
    play = Play.ready(keep_open=True)
    play.replies(nested("Payments", "c1"))
    play.worked(final_output=f"Paid to {SECRET}.", redacted=(Redacted(text=SECRET),))
    play.replies(said(f"Paid to {SECRET.lower()}, done."))
    shown = SURFACES[surface](play.state)
    assert not [one for one in PIECES if one in shown], shown


def test_customers_read_their_own_words() -> None:
    play = paid(SECRET)
    assert SECRET in customer_conversation(snapshot_of(play.state)).model_dump_json()


def test_a_decision_is_for_the_same_request_whoever_sees_more() -> None:
    state: Any = waiting(SECRET).state
    digests = {request_view(found(state)[0], one).digest for one in (ANN, FAY)}
    assert len(digests) == 1
