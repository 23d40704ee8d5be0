"""Items as rows of text."""

import logging

import pytest
from pydantic import BaseModel

from outlast.agents.errors import UserError
from outlast.sessions.rows import read_rows, write_row


class Said(BaseModel):
    role: str
    content: str
    status: str | None = None


def test_a_row_is_ascii_and_comes_back() -> None:
    item = {"role": "user", "content": "Grüße \ud83e 🦊\x00"}
    row = write_row(item)
    assert row.isascii()
    assert "\x00" not in row
    assert read_rows([row], session_id="a") == [item]


def test_a_row_may_keep_its_letters_as_far_as_a_database_can() -> None:
    item = {"role": "user", "content": "Grüße 🦊\x00"}
    row = write_row(item, ensure_ascii=False)
    assert "Grüße 🦊" in row
    assert "\x00" not in row
    assert read_rows([row], session_id="a") == [item]
    assert write_row({"content": "ü\ud83e"}, ensure_ascii=False).isascii()


def test_a_model_is_written_as_what_was_set_of_it() -> None:
    assert write_row(Said(role="user", content="hi")) == '{"role":"user","content":"hi"}'


@pytest.mark.parametrize("item", ["hi", None, ["hi"], {"content": {1, 2}}])
def test_what_is_no_json_object_is_refused(item: object) -> None:
    with pytest.raises(UserError, match="add_items"):
        write_row(item)


def test_a_damaged_row_is_left_out_and_named(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="outlast"):
        assert read_rows(['{"a":1}', "x" * 900, "3"], session_id="support-7") == [{"a": 1}]
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert all("'support-7'" in record.getMessage() for record in caplog.records)
    assert all(len(record.getMessage()) < 200 for record in caplog.records)
