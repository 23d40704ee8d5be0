"""Messages in Slack: posted once, found again, rewritten, and harmless whatever they show."""

import json
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.agents.errors import UserError
from outlast.edges.rendering import json_text
from outlast.loop.notices import NoticeEvent
from outlast.notifications import slack_blocks, texts
from outlast.notifications.requests import RequestRef
from outlast.notifications.slack_blocks import escaped, read_value
from outlast.notifications.slack_notifier import SlackNotifier
from outlast.ports.notifier import (
    DigestNotice,
    Notification,
    NotifierRejected,
    NotifierUnavailable,
)
from tests.hostile_text import assert_visible
from tests.unit.notifications.hostile import CREATED, HOSTILE, LONG, NASTY
from tests.unit.notifications.slack_server import BOT, CHANNEL, Slack, slack_server

DECIDED = replace(
    CREATED,
    id="support-42/a1/decided/1@1000",
    event="decided",
    status="approved",
    by="ann",
    commands=(),
)
REMINDER = replace(CREATED, id="support-42/a1/reminder/1@1000", event="reminder")


@pytest.fixture
async def slack() -> AsyncGenerator[Slack]:
    async with slack_server() as server:
        yield server


def notifier(slack: Slack, **options: Any) -> SlackNotifier:
    """Return a notifier of a process that has just started."""
    return SlackNotifier(BOT, CHANNEL, api_url=slack.url, **options)


def texts_of(value: Any) -> list[str]:
    """Return every text below a value, with the kind of element that holds it."""
    if isinstance(value, list):
        return [text for one in value for text in texts_of(one)]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(value, dict):
        return []
    fields: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
    own = [fields["text"]] if isinstance(fields.get("text"), str) else []
    return own + [text for one in fields.values() for text in texts_of(one)]


def elements(message: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [
        element
        for block in message["blocks"]
        if block["type"] == kind
        for element in block["elements"]
    ]


async def test_a_request_is_a_message_with_buttons(slack: Slack) -> None:
    await notifier(slack).notify(CREATED)
    [message] = slack.messages
    shown = "".join(texts_of(message["blocks"]))
    for text in ("refund", "Billing", "over 100 €", "high", "ann, the group billing", "2027-01-15"):
        assert text in shown
    approve, reject, opens = elements(message, "actions")
    assert (approve["text"]["text"], reject["text"]["text"]) == ("Approve", "Reject")
    assert "confirm" in approve
    assert opens["url"] == CREATED.url
    assert read_value(approve["value"]) == RequestRef(
        run_id="support-42",
        execution="e-1",
        request_id="a1",
        digest="c" * 64,
    )


async def test_buttons_are_those_that_the_request_allows(slack: Slack) -> None:
    await notifier(slack).notify(replace(CREATED, allow=("reject",), url=None, risk="low"))
    [button] = elements(slack.messages[0], "actions")
    assert button["text"]["text"] == "Reject"


async def test_a_run_with_a_very_long_id_is_decided_elsewhere(slack: Slack) -> None:
    await notifier(slack).notify(
        replace(CREATED, run_id="r" * 2_000, url="https://a/" + "b" * 3_000)
    )
    assert elements(slack.messages[0], "actions") == []


async def test_arguments_that_cannot_be_shown_whole_have_no_button(slack: Slack) -> None:
    arguments = json.dumps({"note": "n" * 5_000, "iban": "EVE", "amount": 90_000})
    for event in ("created", "changed"):
        await notifier(slack).notify(replace(CREATED, event=event, arguments=arguments))
    shown = "".join(texts_of(slack.messages[0]["blocks"]))
    assert '"note": "nnn' in shown
    assert '"iban": "EVE",\n  "amount": 90000' in shown
    assert texts.ELSEWHERE in shown
    assert "outlast approve support-42 a1" in shown
    assert [one["text"]["text"] for one in elements(slack.messages[0], "actions")] == [
        "Open the run"
    ]


async def test_a_button_opens_the_request_on_the_desk(slack: Slack) -> None:
    desk = "https://desk.example.com"
    await notifier(slack, link_base=desk).notify(CREATED)
    buttons = {one["text"]["text"]: one for one in elements(slack.messages[0], "actions")}
    assert list(buttons) == ["Approve", "Reject", "Open the request", "Open the run"]
    address = f"{desk}/conversations/support-42/requests/a1?asked={CREATED.requested_at_ms}"
    assert buttons["Open the request"]["url"] == address
    with pytest.raises(UserError, match="must begin with https"):
        notifier(slack, link_base="http://desk.example.com")


async def test_arguments_that_are_decided_need_no_button(slack: Slack) -> None:
    arguments = json.dumps({"note": "n" * 5_000})
    await notifier(slack).notify(replace(CREATED, arguments=arguments))
    await notifier(slack).notify(replace(DECIDED, arguments=arguments))
    assert texts.ELSEWHERE not in "".join(texts_of(slack.messages[0]["blocks"]))


KEYS = st.dictionaries(st.text(max_size=30), st.text() | st.integers(), max_size=60)


@given(fields=KEYS, longest=st.sampled_from([0, 500, 2_000, 3_000, 30_000]))
def test_where_there_is_a_button_every_argument_is_visible(
    fields: dict[str, Any], longest: int
) -> None:
    """Whatever a model writes, and whatever it pads it with."""
    fields = {"note": "n" * longest, **fields, "amount": 90_000}
    content = slack_blocks.message(replace(CREATED, arguments=json.dumps(fields)))
    shown = "".join(texts_of(content["blocks"]))
    if any("value" in one for one in elements(content, "actions")):
        for key, value in fields.items():
            assert json_text(key) in shown
            assert json_text(value) in shown


@pytest.mark.parametrize("notice", [NASTY, LONG], ids=["hostile", "long"])
@pytest.mark.parametrize("event", ["created", "reminder", "decided", "held"])
async def test_text_of_others_is_shown_and_never_markup(
    slack: Slack, notice: Notification, event: NoticeEvent
) -> None:
    """The server refuses whatever is too long, and `<` and `>` where Slack reads markup."""
    await notifier(slack).notify(notice)
    if event == "decided":
        await notifier(slack).notify(replace(notice, event=event, status="rejected"))
    elif event != "created":
        await notifier(slack).notify(replace(notice, event=event))
    assert slack.messages
    for message in slack.messages:
        assert_visible(message["text"])
        for text in texts_of(message["blocks"]):
            assert_visible(text, layout="\n")
        assert not {"section", "context"} & {block["type"] for block in message["blocks"]}
        headers = [one for one in message["blocks"] if one["type"] == "header"]
        assert not any(HOSTILE[:9] in str(one) for one in headers)
    json.dumps(slack.messages).encode()


def test_names_that_pass_for_others_are_visible() -> None:
    twin = "\u0430nn"
    notice = replace(
        CREATED,
        name=twin,
        agent=twin,
        by=twin,
        subjects=(twin,),
        groups=(twin,),
        handoff_path=(twin, "Desk"),
        commands=(),
    )
    pages = json.dumps(
        [
            slack_blocks.message(notice),
            slack_blocks.remark(notice),
            slack_blocks.digest_message([notice]),
            texts.details(notice),
        ],
        ensure_ascii=False,
        default=str,
    )
    assert twin not in pages
    assert pages.count("u0430nn") >= 12


async def test_a_retry_after_a_crash_posts_nothing_twice(slack: Slack) -> None:
    await notifier(slack).notify(CREATED)
    for at in range(5):
        await notifier(slack).notify(replace(CREATED, request_id=f"b{at}", id=f"b{at}"))
    await notifier(slack).notify(replace(CREATED, attempt=2))
    assert len(slack.messages) == 6
    await notifier(slack).notify(replace(REMINDER, attempt=1))
    await notifier(slack).notify(replace(REMINDER, attempt=2))
    assert len(slack.replies_to(slack.messages[0]["ts"])) == 1


async def test_a_first_attempt_costs_one_call(slack: Slack) -> None:
    await notifier(slack).notify(CREATED)
    assert slack.calls == ["chat.postMessage"]


async def test_an_attempt_before_which_nothing_arrived_posts(slack: Slack) -> None:
    await notifier(slack).notify(replace(CREATED, attempt=3))
    assert len(slack.messages) == 1


async def test_the_message_is_rewritten_by_another_process_after_the_decision(
    slack: Slack,
) -> None:
    await notifier(slack).notify(CREATED)
    for at in range(5):
        await notifier(slack).notify(replace(CREATED, request_id=f"b{at}", id=f"b{at}"))
    await notifier(slack).notify(DECIDED)
    assert len(slack.messages) == 6
    message = slack.messages[0]
    assert message["text"] == "Approved: refund"
    assert [one["text"]["text"] for one in elements(message, "actions")] == ["Open the run"]
    await notifier(slack).notify(replace(DECIDED, attempt=2))
    assert len(slack.messages) == 6


async def test_the_process_that_posted_needs_no_history(slack: Slack) -> None:
    one = notifier(slack)
    await one.notify(CREATED)
    await one.notify(DECIDED)
    assert slack.calls == ["chat.postMessage", "chat.update"]


@pytest.mark.parametrize(
    ("event", "status", "title"),
    [
        ("decided", "edited", "Approved with changes"),
        ("decided", "rejected", "Rejected"),
        ("decided", "responded", "Answered by a person"),
        ("expired", "expired", "Nobody decided in time"),
        ("cancelled", "cancelled", "A decision is no longer needed"),
    ],
)
async def test_every_end_has_its_words(
    slack: Slack, event: NoticeEvent, status: str, title: str
) -> None:
    await notifier(slack).notify(CREATED)
    await notifier(slack).notify(replace(DECIDED, event=event, status=status))
    assert slack.messages[0]["text"] == f"{title}: refund"


async def test_the_end_of_a_request_that_was_never_posted_is_nothing(slack: Slack) -> None:
    await notifier(slack).notify(DECIDED)
    assert slack.messages == []


async def test_a_reminder_is_a_reply_that_the_channel_sees(slack: Slack) -> None:
    await notifier(slack).notify(CREATED)
    await notifier(slack).notify(REMINDER)
    [reply] = slack.replies_to(slack.roots[0]["ts"])
    assert reply["reply_broadcast"] is True
    assert reply["text"] == "Reminder: a decision is still needed: refund"


async def test_changed_arguments_come_with_new_buttons(slack: Slack) -> None:
    await notifier(slack).notify(CREATED)
    changed = replace(CREATED, id="x", event="changed", digest="e" * 64, by="bob")
    await notifier(slack).notify(changed)
    value = read_value(elements(slack.roots[0], "actions")[0]["value"])
    assert value is not None
    assert value.digest == "e" * 64
    assert len(slack.replies_to(slack.roots[0]["ts"])) == 1


async def test_a_reminder_without_a_message_is_a_message(slack: Slack) -> None:
    await notifier(slack).notify(REMINDER)
    assert elements(slack.roots[0], "actions")


async def test_a_takeover_is_posted_once(slack: Slack) -> None:
    held = Notification(id="r/held/1@9", event="held", at_ms=9_000, run_id="r", by="ann")
    await notifier(slack).notify(held)
    await notifier(slack).notify(replace(held, attempt=2))
    assert [one["text"] for one in slack.messages] == ["A person has taken a conversation over"]


async def test_a_reset_run_has_a_message_of_its_own(slack: Slack) -> None:
    await notifier(slack).notify(CREATED)
    again = replace(CREATED, requested_at_ms=CREATED.requested_at_ms + 1, attempt=2)
    await notifier(slack).notify(again)
    assert len(slack.messages) == 2


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        ("ratelimited", "ratelimited"),
        ("not_in_channel", "Invite the app into the channel"),
        ("missing_scope", r"lacks a permission\. Needed: chat:write"),
        ("invalid_auth", "The token is wrong"),
        (503, "status 503"),
        (429, "status 429"),
        (200, "did not answer with JSON"),
    ],
)
async def test_what_passes_or_can_be_repaired_is_tried_again(
    slack: Slack, error: str | int, problem: str
) -> None:
    slack.errors["chat.postMessage"] = [error]
    with pytest.raises(NotifierUnavailable, match=problem) as raised:
        await notifier(slack).notify(CREATED)
    assert BOT not in str(raised.value)
    wait = timedelta(seconds=3) if error in {429, 503} else None
    assert raised.value.retry_after == wait
    await notifier(slack).notify(replace(CREATED, attempt=2))
    assert len(slack.messages) == 1


async def test_what_slack_refuses_for_good_is_not_tried_again(slack: Slack) -> None:
    slack.errors["chat.postMessage"] = ["invalid_blocks"]
    with pytest.raises(NotifierRejected, match="invalid_blocks"):
        await notifier(slack).notify(CREATED)


async def test_a_digest_is_one_message(slack: Slack) -> None:
    pending = (*(replace(CREATED, request_id=f"a{at}") for at in range(30)), NASTY)
    await notifier(slack).notify_digest(DigestNotice(id="d", at_ms=1, pending=pending))
    [message] = slack.messages
    assert message["text"] == "31 requests wait for a decision"
    assert "11 more" in "".join(texts_of(message["blocks"]))


@pytest.mark.parametrize("channel", ["#billing", "billing", "", "c0123", None])
def test_a_channel_is_named_by_its_id(channel: Any) -> None:
    with pytest.raises(UserError, match="channel= must be the id of a channel"):
        SlackNotifier(BOT, channel)


@pytest.mark.parametrize("token", ["", None, "Bearer x", "xöxb"])
def test_a_token_is_one_of_slack(token: Any) -> None:
    with pytest.raises(UserError, match="token= must be a token of Slack"):
        SlackNotifier(token, CHANNEL)


@pytest.mark.parametrize("value", [None, 5, "", "{", "[]", '{"run": "r"}', "[" * 100_000])
def test_a_foreign_value_of_a_button_is_none_of_ours(value: Any) -> None:
    assert read_value(value) is None


def test_markup_is_escaped_once() -> None:
    assert escaped("<!here> & <a|b>") == "&lt;!here&gt; &amp; &lt;a|b&gt;"
