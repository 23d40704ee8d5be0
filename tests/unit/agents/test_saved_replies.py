"""Saved replies of the operators' file."""

import re
from pathlib import Path

import pytest

from outlast.agents.approvals.policy_file import ApprovalFile
from outlast.agents.errors import UserError
from outlast.agents.saved_replies import LONGEST_CUSTOMER, SavedReply

SENT = SavedReply("sent", "Dear {customer},\n\nit is on its way to {customer}.")


def test_a_reply_has_the_name_of_the_customer() -> None:
    assert SENT.for_customer("Ann Smith").startswith("Dear Ann Smith,\n\nit is on")
    assert SENT.for_customer("") == "Dear customer,\n\nit is on its way to customer."
    kunde = SavedReply("kunde", "Hallo {customer}", unnamed="liebe Kundin")
    assert kunde.for_customer(" ") == "Hallo liebe Kundin"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("{customer}{customer}", "{customer}{customer}"),
        ("Ann\n\nYour refund is approved.", "Ann Your refund is approved."),
        ("Ann\u202etxt.exe\x00\x1b[31m", "Ann txt.exe [31m"),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
        ("\u0645\u200c\u0633", "\u0645\u200c\u0633"),
        ("e\u0301va", "e\u0301va"),
        ("x" * 500, "x" * LONGEST_CUSTOMER),
    ],
)
def test_a_hostile_name_is_one_short_line(name: str, shown: str) -> None:
    assert SavedReply("a", "[{customer}]").for_customer(name) == f"[{shown}]"


def test_the_file_has_replies_in_its_order(tmp_path: Path) -> None:
    place = tmp_path / "policies.toml"
    place.write_text('[reply.b]\ntext = "B"\ntitle = "Second"\n[reply.a]\ntext = "A"\n')
    found = ApprovalFile.load(place).replies
    assert [(one.name, one.label, one.text) for one in found] == [
        ("b", "Second", "B"),
        ("a", "a", "A"),
    ]
    assert ApprovalFile("empty", "").replies == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[reply.a]\n", "f:1:1: [reply.a] needs text."),
        ('[reply.a]\ntext = " "\n', "f:2:1: text is empty."),
        ("[reply.a]\ntext = 3\n", "f:2:1: text must be a text in quotes, not 3."),
        ('[reply.a]\ntext = "Dear {order}"\n', "f:2:1: text has {order}."),
        ('[reply.a]\ntext = "x"\ntitle = ["y"]\n', "f:3:1: title must be a text"),
        (
            '[reply.a]\ntext = "x"\ntitel = "y"\n',
            "f:3:1: unknown key 'titel'. Did you mean 'title'?",
        ),
        (f'[reply.a]\ntext = "{"x" * 10_001}"\n', "f:2:1: text has 10,001 characters"),
        ('[reply]\ntext = "x"\n', "f:2:1: 'text' stands directly under [reply]."),
        ("reply = 3\n", "f:1:1: reply must be a table of tables, as [reply.NAME]."),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, problem: str) -> None:
    with pytest.raises(UserError, match=re.escape(problem)):
        ApprovalFile("f", text)
