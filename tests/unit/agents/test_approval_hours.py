"""Policies within a calendar: their terms, what they come to by the clock, and where they are refused."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.agents.agent import Agent
from outlast.agents.approval_points import calendars_of, check_calendars
from outlast.agents.approvals.hours import clock_durations, within_hours
from outlast.agents.approvals.loosening import loosened
from outlast.agents.approvals.policy import ApprovalPolicy, Audience, Escalation
from outlast.agents.approvals.policy_file import ApprovalFile, calendar_of_file
from outlast.agents.calendars import Calendar
from outlast.agents.context.waits import Waits
from outlast.agents.errors import UserError
from outlast.agents.registry import Registry
from outlast.agents.tools.function_tool import function_tool
from outlast.edges.clock import now, time_of
from outlast.loop import votes
from outlast.loop.approvals import ApprovalRequest, ApprovalTerms, EscalationStep, terms_digest
from outlast.loop.approvals import Audience as AudienceRecord
from outlast.loop.open_hours import Durations
from outlast.views.words import course

HOUR = timedelta(hours=1)
MS = 3_600_000
ALWAYS = Calendar("always", zone="UTC", hours={"mon-sun": "0:00-24:00"})
OFFICE = Calendar("support-hours", zone="UTC", hours={"mon-fri": "9:00-17:00"})
FRIDAY = datetime(2026, 11, 27, 15, tzinfo=UTC)
FRIDAY_MS = round(FRIDAY.timestamp() * 1000)

FILE = """\
[calendar.support-hours]
zone = "Europe/Berlin"
hours = { mon-thu = "9:00-17:00", fri = ["9:00-12:00", "13:00-15:00"] }
holidays = [2026-12-25]
half_days = { 2026-12-24 = "9:00-12:00" }

[tool.refund]
expires_in = "8h"
within = "support-hours"
"""


def at(days: int, hour: float) -> int:
    """Milliseconds from that Friday to an hour of a day after it."""
    return round((days * 24 + hour - 15) * MS)


# --- Terms -----------------------------------------------------------------------------------------


def test_a_policy_within_a_calendar_has_its_durations_uncounted() -> None:
    policy = ApprovalPolicy(expires_in=4 * HOUR, remind_every=HOUR, within="support-hours")
    terms = policy.terms()
    assert (terms.expires_in_ms, terms.remind_every_ms) == (None, MS)
    assert terms.hours is not None
    assert (terms.hours.within, terms.hours.from_ms) == ("support-hours", None)
    assert terms.hours.open == Durations(expires_in_ms=4 * MS, remind_in_ms=MS)
    assert policy.terms() == replace(policy, within=OFFICE).terms()
    assert terms_digest(terms) == terms_digest(replace(policy, within=None).terms())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"within": "a\nb"}, "must be the name of a calendar"),
        ({"within": "<script>"}, "must be the name of a calendar"),
        ({"within": ""}, "must be the name of a calendar"),
        ({"within": 5}, "must be the name of a calendar"),
        ({"within": "support-hours", "expires_in": None}, "the policy has none of them"),
    ],
)
def test_a_policy_whose_calendar_means_nothing_is_refused(changes: Any, said: str) -> None:
    fields: dict[str, Any] = {"expires_in": HOUR, **changes}
    with pytest.raises(UserError, match=said):
        ApprovalPolicy(**fields)


STEPS = st.lists(st.integers(1, 40), max_size=4).map(
    lambda hours: tuple(
        EscalationStep(after_ms=one * MS, audience=AudienceRecord(groups=(f"g{one}-{at_}",)))
        for at_, one in enumerate(sorted(hours))
    )
)


@given(STEPS, st.integers(1, 20))
def test_an_expiry_that_escalates_takes_the_same_steps_as_without_a_calendar(
    steps: tuple[EscalationStep, ...], lasts: int
) -> None:
    terms = ApprovalTerms(expires_in_ms=lasts * MS, on_expiry="escalate", escalations=steps)
    within = within_hours(terms, "always")
    assert within.hours is not None
    clock = within.hours.open
    unrolled = replace(within, expires_in_ms=clock.expires_in_ms, hours=None)
    assert _course(terms) == _course(unrolled)


def _course(terms: ApprovalTerms) -> list[tuple[int, int, str]]:
    """What time does to a request: when, how many steps are taken, and its status."""
    lasts = terms.expires_in_ms
    request = ApprovalRequest(
        id="a1", call_id="", name="", agent="", arguments="", args_digest="", terms=terms,
        requested_at_ms=0, expires_at_ms=lasts,
    )  # fmt: skip
    found: list[tuple[int, int, str]] = []
    while request.status == "pending" and (at_ms := votes.deadline_ms(request)) is not None:
        request = votes.aged(request, at_ms)
        found.append((at_ms, request.escalated, request.status))
    return found


def test_the_course_of_a_request_is_said_in_hours_of_the_calendar() -> None:
    policy = ApprovalPolicy(
        audience="support",
        expires_in=8 * HOUR,
        escalate=[Escalation(after=4 * HOUR, to="leads")],
        within="support-hours",
    )
    assert course(policy.terms()) == (
        "the group leads too after 4h of support-hours, rejected after 8h of support-hours"
    )


# --- By the clock ----------------------------------------------------------------------------------


def test_durations_end_by_the_clock_when_the_hours_are_over() -> None:
    open_ = Durations(expires_in_ms=4 * MS, escalations_ms=(MS, 3 * MS), remind_in_ms=90 * 60_000)
    clock = clock_durations(OFFICE, open_, FRIDAY_MS, FRIDAY_MS)
    assert clock.expires_in_ms == at(3, 11)
    assert clock.escalations_ms == (at(0, 16), at(3, 10))
    assert clock.remind_in_ms == at(0, 16.5)
    later = clock_durations(OFFICE, open_, FRIDAY_MS, FRIDAY_MS + at(0, 16.5))
    assert (later.remind_in_ms, later.expires_in_ms) == (at(3, 10), clock.expires_in_ms)
    missed = clock_durations(OFFICE, open_, FRIDAY_MS, FRIDAY_MS + at(4, 9))
    assert missed.remind_in_ms == at(4, 9.5), "several that were missed are one"


def test_what_counts_later_than_now_begins_then() -> None:
    open_ = Durations(remind_in_ms=MS)
    assert clock_durations(OFFICE, open_, FRIDAY_MS, 0).remind_in_ms == at(0, 16)
    assert clock_durations(OFFICE, Durations(), FRIDAY_MS, 0) == Durations()
    with pytest.raises(UserError, match="do not end within three years"):
        clock_durations(OFFICE, Durations(expires_in_ms=10**12), FRIDAY_MS, 0)


@given(st.integers(1, 10**9), st.integers(0, 10**9), st.integers(1, 10**8))
def test_a_calendar_that_is_always_open_changes_nothing(
    lasts: int, waited: int, every: int
) -> None:
    open_ = Durations(expires_in_ms=lasts, escalations_ms=(lasts,), remind_in_ms=every)
    clock = clock_durations(ALWAYS, open_, FRIDAY_MS, FRIDAY_MS + waited)
    assert (clock.expires_in_ms, clock.escalations_ms) == (lasts, (lasts,))
    assert clock.remind_in_ms == (waited // every + 1) * every


# --- Workers and files -----------------------------------------------------------------------------


def clerk(policy: ApprovalPolicy) -> Registry:
    @function_tool(needs_approval=policy)
    def refund() -> str:
        """Refund."""
        return "paid"

    return Registry([Agent[Any](name="Clerk", tools=[refund])])


def test_a_worker_needs_the_calendars_of_its_policies() -> None:
    named = clerk(ApprovalPolicy(expires_in=HOUR, within="support-hours"))
    with pytest.raises(UserError) as caught:
        check_calendars(named, None, {"suport-hours": OFFICE})
    assert "agent 'Clerk', tool 'refund': There is no calendar 'support-hours'" in str(caught.value)
    assert "Did you mean 'suport-hours'?" in str(caught.value)
    check_calendars(named, None, {"support-hours": OFFICE})
    check_calendars(named, ApprovalFile("a.toml", FILE.partition("[tool")[0]), {})
    own = clerk(ApprovalPolicy(expires_in=HOUR, within=OFFICE))
    check_calendars(own, None, {})
    assert calendars_of(own) == {"support-hours": OFFICE}
    in_tier = ApprovalPolicy(when=lambda c, a, i: True, expires_in=HOUR, within="nights")
    with pytest.raises(UserError, match="no calendar 'nights'"):
        check_calendars(clerk(ApprovalPolicy(tiers=[in_tier])), None, {})
    with pytest.raises(UserError, match="do not end within three years"):
        check_calendars(clerk(ApprovalPolicy(expires_in=9_999 * HOUR, within=OFFICE)), None, {})


def test_the_operators_file_has_calendars_and_says_which_counts() -> None:
    file = ApprovalFile("approvals.toml", FILE)
    calendar = file.calendars["support-hours"]
    assert calendar.is_open(datetime(2026, 12, 24, 10, tzinfo=UTC))
    assert not calendar.is_open(datetime(2026, 12, 25, 10, tzinfo=UTC))
    (table,) = file.tables("tool", "Clerk", "refund")
    assert table.changed(ApprovalPolicy()).calendar_name == "support-hours"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[calendar]\nzone = 'UTC'", "2:1: 'zone' stands directly under [calendar]"),
        ("[calendar.x]\nzone = 'UTC'", "1:1: [calendar.x] needs hours."),
        ("[calendar.x]", "1:1: [calendar.x] needs zone and hours."),
        ("[calendar.x]\nzones = 'UTC'", "2:1: unknown key 'zones'. Did you mean 'zone'?"),
        (
            "[calendar.x]\nzone = 'Mars'\nhours = {mon = '9:00-17:00'}",
            "2:1: zone: this process knows",
        ),
        ("[calendar.x]\nzone = 'UTC'\nhours = {}", "3:1: hours has no hours"),
        ("[calendar.x]\nzone = 'UTC'\nhours = {mon = '9'}", "3:1: hours: mon: '9' are no hours"),
        (
            "[calendar.x]\nzone='UTC'\nhours={mon='9:00-17:00'}\nholidays=[2026-12-25T00:00:00]",
            "4:1: holidays: datetime.datetime(2026, 12, 25, 0, 0) is a time",
        ),
        (
            "[calendar.\"<b>\"]\nzone = 'UTC'\nhours = {mon = '9:00-17:00'}",
            "must be the name of a calendar",
        ),
        (
            "[tool.refund]\nexpires_in = '1h'\nwithin = 5",
            "3:1: within must be the name of a calendar",
        ),
    ],
)
def test_a_mistake_in_a_calendar_of_the_file_has_its_place(text: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        ApprovalFile("approvals.toml", text)
    assert said in caught.value.message


def test_a_calendar_of_the_file_that_the_environment_names(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "approvals.toml"
    place.write_text(FILE)
    monkeypatch.setenv("OUTLAST_APPROVALS", str(place))
    assert calendar_of_file("support-hours").zone == "Europe/Berlin"
    with pytest.raises(UserError, match="There is no calendar 'nights' here"):
        calendar_of_file("nights")
    monkeypatch.delenv("OUTLAST_APPROVALS")
    with pytest.raises(UserError, match="There is: none"):
        calendar_of_file("support-hours")


def test_a_table_with_other_hours_loosens_where_calls_run_or_people_join() -> None:
    before = ApprovalPolicy(
        expires_in=HOUR, on_expiry="approve", unverified="allow", within="support-hours"
    )
    nights = replace(before, within="nights")
    assert "within" in loosened(before, nights)
    assert "within" in loosened(before, replace(before, within=None))
    assert "within" not in loosened(replace(before, within=None), before)
    calm = replace(before, on_expiry="reject")
    assert "within" not in loosened(calm, replace(calm, within="nights"))
    leads = replace(
        calm, audience=Audience(groups=["a"]), escalate=[Escalation(after=HOUR / 2, to="b")]
    )
    assert "within" in loosened(leads, replace(leads, within="nights"))


# --- Waits of tools --------------------------------------------------------------------------------


def test_a_wait_counts_hours_from_its_first_time_on() -> None:
    waits = Waits(calendar=lambda name: {"support-hours": OFFICE}[name])
    first = waits.counted("courier", 4 * HOUR, "support-hours")
    assert first is not None
    due = OFFICE.after(now(), 4 * HOUR)
    assert abs(now() + first - due) < timedelta(minutes=1)
    again = Waits(done=dict(waits.done), calendar=waits.calendar)
    assert again.counted("courier", 4 * HOUR, "support-hours") == first
    forged = Waits(done=dict.fromkeys(waits.done, "soon"), calendar=waits.calendar)
    assert forged.counted("courier", 4 * HOUR, "support-hours") is not None
    assert Waits().counted("courier", HOUR, None) == HOUR
    assert Waits().counted("courier", None, None) is None
    assert Waits().counted("courier", HOUR, ALWAYS) == HOUR


@pytest.mark.parametrize(
    ("timeout", "within", "said"),
    [
        (None, "support-hours", "within= says which hours of timeout= count"),
        (HOUR, "support-hours", "There is no calendar 'support-hours' here"),
        (HOUR, "a\nb", "must be the name of a calendar"),
        (-HOUR, ALWAYS, "must be longer than zero"),
        (99_999 * HOUR, OFFICE, "do not end within three years"),
    ],
)
def test_a_wait_whose_hours_mean_nothing_is_refused(timeout: Any, within: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        Waits().counted("courier", timeout, within)


def test_times_are_compared_in_utc() -> None:
    assert time_of(FRIDAY_MS) == FRIDAY
