"""A notification whose every text is hostile, and a plain one."""

from dataclasses import replace

from outlast.ports.notifier import Notification

HOSTILE = (
    "<!channel> <@U1> <https://evil.example|Approve> &amp; *bold* `code` ```\n"
    "</script><script>alert(1)</script>\r\nBcc: all@example.com\x00\u202e\ud800'\""
)

CREATED = Notification(
    id="support-42/a1/created/1@1000",
    event="created",
    at_ms=1_000_000,
    run_id="support-42",
    execution="e-1",
    request_id="a1",
    requested_at_ms=1_000_000,
    status="pending",
    kind="tool",
    agent="Billing",
    handoff_path=("Triage", "Billing"),
    name="refund",
    arguments='{"order": "A-17", "amount": 250}',
    args_digest="d" * 64,
    digest="c" * 64,
    reason="over 100 €",
    effect="irreversible",
    risk="high",
    subjects=("ann",),
    groups=("billing",),
    quorum=2,
    allow=("approve", "edit", "reject", "respond"),
    due_at_ms=1_800_000_000_000,
    url="https://temporal.example/namespaces/default/workflows/support-42",
    commands=("outlast approve support-42 a1", "outlast reject support-42 a1"),
)

NASTY = replace(
    CREATED,
    id=HOSTILE,
    by=HOSTILE,
    run_id=HOSTILE,
    request_id=HOSTILE,
    agent=HOSTILE,
    handoff_path=(HOSTILE, HOSTILE),
    name=HOSTILE,
    arguments=HOSTILE,
    reason=HOSTILE,
    effect=HOSTILE,
    subjects=(HOSTILE,),
    groups=(HOSTILE,),
    message=HOSTILE,
    commands=(HOSTILE,),
)

LONG = replace(
    CREATED,
    agent="A" * 10_000,
    name="n" * 10_000,
    arguments='{"text": "' + "<" * 100_000 + '"}',
    reason="r" * 100_000,
    subjects=tuple(f"person {at}" for at in range(5_000)),
    message="m" * 100_000,
)
