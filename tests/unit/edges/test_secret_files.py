"""A secret comes from a variable or from a file, and no message has any part of it."""

from pathlib import Path
from typing import Any

import pytest

from outlast.agents.context import wait_urls
from outlast.agents.errors import UserError
from outlast.agents.secrets import secret
from outlast.contract.identity import (
    IdentityKeyError,
    keys_from_environment,
    new_key_pair,
    new_shared_key,
)
from outlast.models.openai.provider import OpenAIProvider
from outlast.serve import staff_sessions, tokens


def test_a_variable_or_the_file_that_another_names(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("s3cret\n")
    named = {"KEY_FILE": f"{tmp_path}/key"}

    assert secret("KEY", {}) == ""
    assert secret("KEY", {"KEY": " as it is "}) == " as it is "
    assert secret("KEY", named) == secret("KEY", {"KEY": "", **named}) == "s3cret"


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"KEY": "s3cret", "KEY_FILE": "{}/key"}, "KEY and KEY_FILE are both set. Unset one"),
        ({"KEY_FILE": "{}/none"}, "KEY_FILE cannot be read: .*/none: No such file"),
        ({"KEY_FILE": "{}"}, "KEY_FILE cannot be read: .*: Is a directory"),
        ({"KEY_FILE": "{}/empty"}, "The file of KEY_FILE, .*/empty, is empty"),
        ({"KEY_FILE": "{}/bytes"}, "The file of KEY_FILE, .*/bytes, is no text"),
    ],
)
def test_what_cannot_be_used_is_named(
    tmp_path: Path, environment: dict[str, str], words: str
) -> None:
    (tmp_path / "key").write_text("s3cret")
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "bytes").write_bytes(b"s3cret\xff")

    with pytest.raises(UserError, match=words) as told:
        secret("KEY", {name: value.format(tmp_path) for name, value in environment.items()})
    assert "s3cret" not in str(told.value)


def test_every_key_of_a_process_may_be_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private, public = new_key_pair()

    def mount(variable: str, text: str) -> None:
        (tmp_path / variable).write_text(f"{text}\n")
        monkeypatch.delenv(variable, raising=False)
        monkeypatch.setenv(f"{variable}_FILE", str(tmp_path / variable))

    mount("OUTLAST_IDENTITY_KEY", private)
    keys = keys_from_environment()
    assert keys.signing is not None
    assert keys.source == "OUTLAST_IDENTITY_KEY"
    monkeypatch.delenv("OUTLAST_IDENTITY_KEY_FILE")
    mount("OUTLAST_IDENTITY_PUBLIC_KEYS", public)
    assert keys_from_environment().signing is None
    assert keys_from_environment().trusted[0].id == keys.signing.id

    mount("OUTLAST_DESK_KEY", new_shared_key())
    assert staff_sessions.keys_from_environment()
    mount("OUTLAST_CONVERSATION_KEY", new_shared_key())
    assert tokens.tokens_from_environment() is not None
    mount("OUTLAST_DELIVERY_KEYS", new_shared_key())
    assert wait_urls.keys_from_environment() is not None
    mount("OPENAI_API_KEY", "sk-of-a-file")
    provider: Any = OpenAIProvider()
    assert provider.get_model("gpt-5")._connection._access().api_key == "sk-of-a-file"


def test_a_missing_file_is_no_missing_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTLAST_IDENTITY_PUBLIC_KEYS_FILE", "/nowhere/key")
    with pytest.raises(IdentityKeyError, match="cannot be read: /nowhere/key"):
        keys_from_environment()
