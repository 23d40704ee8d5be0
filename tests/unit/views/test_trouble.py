"""What keeps a run from going on has one wording, which every surface shows."""

import io
from dataclasses import replace
from typing import Any, get_args

import pytest
from rich.console import Console

from outlast.cli import terminal
from outlast.cli.report import Report, show_report
from outlast.client.identity import person
from outlast.client.timeline import Timeline
from outlast.loop.approvals import ApprovalRequest, ApprovalTerms
from outlast.loop.effects import CallModel, Effect, NotifyPeople, RunTool
from outlast.loop.items import Item, Message
from outlast.loop.state import Blocked, ItemsToSave, LoopState, SaveFailure, Saving
from outlast.loop.values import Failure
from outlast.serve.access import Staff
from outlast.serve.pages.conversation_view import conversation
from outlast.serve.pages.filters import FILTERS
from outlast.serve.records import customer_conversation, run_view
from outlast.serve.troubles import customer_trouble
from outlast.views.run import snapshot_of
from outlast.views.trouble import (
    QUIET,
    SILENT,
    KeptSignal,
    PendingTry,
    ServerFacts,
    Trouble,
    TroubleKind,
    customer_words,
    trouble_words,
    troubles,
    with_first_message,
    words_for_customer,
)
from tests.unit.serve.played import SIGNING

NOW = 100_000
OPERATOR = Staff(person("olga"), frozenset({"viewer", "decider", "operator"}))
VIEWER = Staff(person("vera"), frozenset({"viewer"}))
MODEL = CallModel(effect=1, agent="Helper", turn=1, input_length=1)
TOOL = RunTool(effect=2, agent="Helper", name="refund", call_id="c1", arguments="{}", turn=1)
NOTIFY = NotifyPeople(effect=3, notices=(), run_id="r")
WORKING = LoopState(run_id="r", agent="Helper", phase="thinking", pending=(MODEL, TOOL, NOTIFY))
HELLO = Message("m1", ({"role": "user", "content": "Hello?"},), NOW)
NEW = LoopState(run_id="r")
BUSY = PendingTry(
    effect=1,
    name="call_model",
    failed=2,
    why="The service is busy",
    waits_since_ms=NOW - 9_000,
    next_ms=NOW + 4_000,
    failed_ms=NOW - 1_000,
)
UNSAVED = Saving(
    to_save=(ItemsToSave(start=0, stop=3, dropped=(1,)),),
    save_failure=SaveFailure(
        at_ms=NOW - 200_000, failure=Failure(code="session", message="The disk is full.")
    ),
)
BLOCKED = Blocked(effect=2, at_ms=NOW - 5_000, lacks="the tool refund")
KEPT = KeptSignal(what="decision approve for a1 by lee", at_ms=NOW - 3_000)
LATER = "Your messages are kept, and the answer comes later."

TABLE: dict[TroubleKind, tuple[LoopState, ServerFacts, str, str, str]] = {
    "no_server": (
        WORKING,
        SILENT,
        "The Temporal server does not answer. This is what was known before.",
        "The Temporal server does not answer. This is what was known before.",
        "This conversation cannot be updated at the moment. What you see may be out of date.",
    ),
    "no_worker": (
        WORKING,
        ServerFacts(queue="desk", workers=0),
        (
            "No worker polls the task queue 'desk', so nothing happens until you start one: "
            "`outlast worker MODULE`."
        ),
        (
            "No worker polls the task queue 'desk', so nothing happens until you start one: "
            "`outlast worker MODULE`."
        ),
        f"We cannot answer at the moment. {LATER}",
    ),
    "untaken": (
        NEW,
        ServerFacts(workers=1, task_since_ms=NOW - 3_000, is_begun=False, first=HELLO),
        "No worker has taken the first message.",
        "No worker has taken the first message, for 3 s.",
        "Your message has arrived, and waits for its turn. The answer comes later.",
    ),
    "lacks": (
        replace(WORKING, blocked=(BLOCKED,)),
        QUIET,
        "No worker can carry out the tool refund: the tool refund.",
        "No worker can carry out the tool refund, for 5 s: the tool refund.",
        f"We cannot answer at the moment. {LATER}",
    ),
    "retry": (
        WORKING,
        ServerFacts(workers=1, tries=(BUSY,)),
        "Attempt 2 of the model call of Helper failed: The service is busy. It is tried again.",
        (
            "Attempt 2 of the model call of Helper failed: The service is busy. It is tried again in "
            "4 s."
        ),
        "The answer takes longer than usual. We keep trying.",
    ),
    "kept": (
        WORKING,
        ServerFacts(workers=1, kept=(KEPT,)),
        (
            "The server keeps the decision approve for a1 by lee: no worker has taken it yet. It "
            "counts, or is refused, when one does."
        ),
        (
            "The server keeps the decision approve for a1 by lee, for 3 s: no worker has taken it yet. "
            "It counts, or is refused, when one does."
        ),
        "This takes longer than usual. The conversation goes on by itself.",
    ),
    "unsaved": (
        replace(WORKING, saving=UNSAVED),
        QUIET,
        "2 items could not be saved in the session: The disk is full.",
        "2 items could not be saved in the session, for 3 min: The disk is full.",
        "",
    ),
}


def test_the_table_has_every_kind() -> None:
    assert set(TABLE) == set(get_args(TroubleKind))


@pytest.mark.parametrize("kind", TABLE)
def test_each_kind_has_the_same_words_on_every_surface(
    kind: TroubleKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, facts, timeless, now, customers = TABLE[kind]
    monkeypatch.setattr("outlast.edges.clock.now_ms", lambda: NOW)
    (found,) = troubles(state, facts, NOW)
    assert (found.kind, trouble_words(found), trouble_words(found, NOW)) == (kind, timeless, now)
    # the API and the page
    (view,) = run_view(snapshot_of(state), OPERATOR, trouble=(found,), at_ms=NOW).trouble
    assert (view.kind, view.words, view.attempt) == (kind, timeless, found.attempt)
    page = conversation(
        snapshot_of(state), Timeline().steps, OPERATOR, SIGNING, at_ms=NOW, facts=facts
    )
    assert page.trouble == (found,)
    assert [FILTERS["trouble"](one) for one in page.trouble] == [timeless]
    # `outlast show`
    record, text = shown(state, facts, monkeypatch)
    assert [one["words"] for one in record["trouble"]] == [timeless]
    assert now in text
    # the customer
    assert customer_words(found) == customers
    assert customer_conversation(
        snapshot_of(state), customer_trouble(snapshot_of(state), facts)
    ).trouble == (customers or None)


def shown(state: LoopState, facts: ServerFacts, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, str]:
    """Return what `outlast show` says, for programs and for people."""
    report = Report(
        run_id="r",
        state=snapshot_of(state),
        status="running",
        task_queue="desk",
        events=0,
        ui=None,
        server=facts,
    )
    monkeypatch.setattr("outlast.cli.report.now_ms", lambda: NOW)
    out = io.StringIO()
    monkeypatch.setattr(terminal, "out", lambda: Console(file=out, width=400))
    show_report(report, last=0)
    return report.record(0), out.getvalue()


def test_who_may_not_see_payloads_does_not_read_why() -> None:
    state, facts, *_ = TABLE["retry"]
    page = conversation(
        snapshot_of(state), Timeline().steps, VIEWER, SIGNING, at_ms=NOW, facts=facts
    )
    assert [one.why for one in page.trouble] == [""]
    found = troubles(state, facts, NOW)
    record: Any = run_view(snapshot_of(state), VIEWER, trouble=found, at_ms=NOW).record()
    (view,) = record["trouble"]
    assert "why" not in view
    assert view["words"] == "Attempt 2 of the model call of Helper failed. It is tried again."


# --- When something counts as trouble ------------------------------------------------------------


def kinds(state: LoopState, facts: ServerFacts) -> list[str]:
    return [one.kind for one in troubles(state, facts, NOW)]


def test_what_a_worker_may_still_take_in_time_is_no_trouble() -> None:
    soon = ServerFacts(workers=1, task_since_ms=NOW - 500, is_begun=False)
    assert kinds(NEW, soon) == []
    assert kinds(WORKING, ServerFacts(workers=1, kept=(replace(KEPT, at_ms=NOW - 500),))) == []
    fresh = PendingTry(effect=1, name="call_model", waits_since_ms=NOW - 500)
    assert kinds(WORKING, ServerFacts(workers=1, tries=(fresh,))) == []


def test_without_a_worker_it_is_trouble_at_once() -> None:
    soon = ServerFacts(workers=0, task_since_ms=NOW - 500, is_begun=False)
    assert kinds(NEW, soon) == ["no_worker", "untaken"]
    kept = ServerFacts(workers=0, task_since_ms=NOW, kept=(replace(KEPT, at_ms=NOW),))
    assert kinds(WORKING, kept) == ["no_worker", "kept"]


def test_an_effect_that_no_worker_takes_is_trouble_as_with_a_full_task_queue() -> None:
    late = PendingTry(effect=2, name="run_tool", waits_since_ms=NOW - 12_000)
    (found,) = troubles(WORKING, ServerFacts(workers=1, tries=(late,)), NOW)
    assert trouble_words(found, NOW) == "No worker has taken the tool refund, for 12 s."
    assert customer_words(found) == "The answer takes longer than usual. We keep trying."
    running = replace(late, waits_since_ms=None)
    assert kinds(WORKING, ServerFacts(workers=1, tries=(running,))) == []


def test_a_run_at_rest_needs_no_worker_until_something_is_kept() -> None:
    idle = LoopState(run_id="r", phase="idle")
    assert kinds(idle, ServerFacts(workers=0)) == []
    kept = ServerFacts(workers=0, task_since_ms=NOW, kept=(KEPT,))
    assert kinds(idle, kept) == ["no_worker", "kept"]


def test_a_run_that_has_ended_has_no_trouble_but_what_it_could_not_save() -> None:
    ended = replace(
        WORKING, outcome="completed", phase="closed", blocked=(BLOCKED,), saving=UNSAVED
    )
    assert kinds(ended, ServerFacts(workers=0, tries=(BUSY,))) == ["unsaved"]


def test_customers_hear_nothing_of_what_goes_on_beside_the_conversation() -> None:
    mail = replace(BUSY, effect=3, name="notify_people")
    found = troubles(WORKING, ServerFacts(workers=1, tries=(mail, BUSY)), NOW)
    assert customer_words(found[0]) == ""
    assert words_for_customer(found) == "The answer takes longer than usual. We keep trying."


def test_an_effect_that_the_state_does_not_have_any_more_has_the_name_of_its_activity() -> None:
    (known,) = troubles(NEW, ServerFacts(tries=(BUSY,)), NOW)
    (other,) = troubles(NEW, ServerFacts(tries=(replace(BUSY, name="tool:weather"),)), NOW)
    assert (known.what, other.what) == ("the model call", "tool:weather")


@pytest.mark.parametrize("effect", [MODEL, TOOL, NOTIFY], ids=lambda one: one.kind)
def test_effects_have_words(effect: Effect) -> None:
    (found,) = troubles(
        replace(WORKING, pending=(effect,)),
        ServerFacts(tries=(replace(BUSY, effect=getattr(effect, "effect", 0)),)),
        NOW,
    )
    assert found.what in {"the model call of Helper", "the tool refund", "notifying people"}


def test_the_words_say_how_long_without_false_precision() -> None:
    def lasts(ms: int) -> str:
        return trouble_words(Trouble(kind="untaken", since_ms=NOW - ms, what="x"), NOW)

    assert lasts(10) == "No worker has taken x, for 1 s."
    assert lasts(99_000).endswith("for 99 s.")
    assert lasts(600_000).endswith("for 10 min.")
    assert lasts(7 * 3_600_000).endswith("for 7 hours.")


# --- Hostile and hidden texts --------------------------------------------------------------------


def test_reasons_hide_what_a_policy_hides_and_are_made_visible() -> None:
    request = ApprovalRequest(
        id="a1",
        call_id="c9",
        name="pay",
        agent="Helper",
        arguments='{"iban": "[redacted]"}',
        args_digest="d",
        requested_at_ms=1,
        terms=ApprovalTerms(redact=("iban",)),
    )
    call = {"call_id": "c9", "name": "pay", "arguments": '{"iban": "DE89370400"}'}
    state = replace(
        WORKING,
        approvals=(request,),
        items=(Item("tool_call", {"type": "function_call", **call}, "Helper", 1),),
    )
    hostile = "DE89 3704 00 is wrong\u202e\x1b[2J"
    facts = ServerFacts(
        workers=1,
        tries=(replace(BUSY, why=hostile),),
        kept=(replace(KEPT, what=f"decision approve for {hostile}"),),
    )
    for one in troubles(state, facts, NOW):
        said = trouble_words(one, NOW)
        assert "[redacted]" in said
        assert "3704" not in said
        assert "\\u202e" in said
        assert "\x1b" not in said
        assert "DE89" not in customer_words(one)


def test_a_long_reason_is_cut() -> None:
    found = Trouble(kind="retry", what="x", why="a" * 5_000, attempt=1)
    assert len(trouble_words(found)) < 800


# --- The first message ---------------------------------------------------------------------------


def test_a_first_message_is_unread_until_a_worker_begins_the_run() -> None:
    state, facts, *_ = TABLE["untaken"]
    assert with_first_message(snapshot_of(state), facts).unread == (HELLO,)
    page = conversation(
        snapshot_of(state), Timeline().steps, OPERATOR, SIGNING, at_ms=NOW, facts=facts
    )
    assert [one.text for one in page.customer.unread] == ["Hello?"]
    for other in (WORKING, replace(NEW, outcome="terminated", phase="closed")):
        assert with_first_message(snapshot_of(other), facts) == snapshot_of(other)
