"""The codec that encrypts payloads: keys, rotation, and everything that is refused."""

import base64
import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from temporalio.api.common.v1 import Payload

from outlast.agents.errors import UserError
from outlast.client.transport.codecs import load_converter
from outlast.encryption import (
    ENCODING,
    FORMAT,
    KEY_BYTES,
    KEY_ID,
    KEYS_VARIABLE,
    EncryptionCodec,
)
from outlast.temporal.payloads.readable import UndecodablePayload

OLD, NEW = os.urandom(KEY_BYTES), os.urandom(KEY_BYTES)
PLAIN = Payload(metadata={"encoding": b"json/plain", "messageType": b"x"}, data=b'"secret-words"')


def codec_of(current: str = "new", **options: Any) -> EncryptionCodec:
    return EncryptionCodec({"old": OLD, "new": NEW}, current, **options)


async def encrypted(codec: EncryptionCodec, payload: Payload = PLAIN) -> Payload:
    (only,) = await codec.encode([payload])
    return only


async def decrypted(codec: EncryptionCodec, payload: Payload) -> Payload:
    (only,) = await codec.decode([payload])
    return only


@given(data=st.binary(), metadata=st.dictionaries(st.text(max_size=5), st.binary()))
async def test_a_payload_comes_back_whole(data: bytes, metadata: dict[str, bytes]) -> None:
    codec, payload = codec_of(), Payload(metadata=metadata, data=data)
    sealed = await encrypted(codec, payload)
    assert await decrypted(codec, sealed) == payload
    assert len(sealed.data) <= len(payload.SerializeToString()) + 64


async def test_only_the_key_id_and_the_form_are_readable() -> None:
    sealed = await encrypted(codec_of(scope="production"))
    assert dict(sealed.metadata) == {
        "encoding": ENCODING,
        KEY_ID: b"new",
        FORMAT: b"outlast-aes-256-gcm-1",
    }
    written = sealed.SerializeToString()
    for text in (b"secret", b"json/plain", b"messageType", b"production", OLD, NEW):
        assert text not in written


async def test_the_same_payload_never_looks_the_same() -> None:
    codec = codec_of()
    sealed = await codec.encode([PLAIN] * 100)
    assert len({one.data for one in sealed}) == 100
    assert await codec.decode(sealed) == [PLAIN] * 100


async def test_keys_rotate() -> None:
    """Readers first: everybody reads both keys before anybody encrypts with the new one."""
    before = EncryptionCodec({"old": OLD}, "old")
    prepared = EncryptionCodec({"old": OLD, "new": NEW}, "old")
    rotated = EncryptionCodec({"old": OLD, "new": NEW}, "new")
    for writer, reader in itertools.product((before, prepared), (before, prepared, rotated)):
        assert await decrypted(reader, await encrypted(writer)) == PLAIN
    for reader in (prepared, rotated):
        assert await decrypted(reader, await encrypted(rotated)) == PLAIN
    with pytest.raises(UndecodablePayload, match="The key 'new' is not known here"):
        await decrypted(before, await encrypted(rotated))
    with pytest.raises(UndecodablePayload, match="The key 'old' is not known here"):
        await decrypted(EncryptionCodec({"new": NEW}, "new"), await encrypted(before))


def test_digests_need_the_key_and_the_scope() -> None:
    keys = {"a": os.urandom(32), "b": os.urandom(32)}
    both = EncryptionCodec(keys, "b").digests_of("c-17")
    assert len(set(both)) == len(both) == len(keys)
    assert both == EncryptionCodec(keys, "b").digests_of("c-17"), "the same each time"
    assert EncryptionCodec({"a": keys["a"]}, "a").digests_of("c-17") == both[1:], "current first"
    others = [
        EncryptionCodec(keys, "b").digests_of("c-18"),
        EncryptionCodec(keys, "b", scope="test").digests_of("c-17"),
        EncryptionCodec({"b": os.urandom(32)}, "b").digests_of("c-17"),
    ]
    assert not set(both) & {one for digests in others for one in digests}
    assert all(len(one) == 32 and "c-17" not in one for one in both)
    plain = EncryptionCodec(keys, "b", accept_plain=True).digests_of("c-17")
    assert plain == [*both, "c-17"], "runs from before the encryption are found, too"


async def test_every_changed_bit_is_found() -> None:
    codec, sealed = codec_of(), await encrypted(codec_of())
    for at in range(0, len(sealed.data) * 8, 7):
        changed = bytearray(sealed.data)
        changed[at // 8] ^= 1 << at % 8
        with pytest.raises(UndecodablePayload):
            await decrypted(codec, Payload(metadata=dict(sealed.metadata), data=bytes(changed)))
    for length in (0, 1, 31, 47, 48, len(sealed.data) - 1):
        with pytest.raises(UndecodablePayload):
            await decrypted(
                codec, Payload(metadata=dict(sealed.metadata), data=sealed.data[:length])
            )


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({KEY_ID: b"old"}, "damaged"),
        ({KEY_ID: b"other"}, "not known"),
        ({KEY_ID: b"\xff"}, "not known"),
        ({KEY_ID: b""}, "not known"),
        ({FORMAT: b"outlast-aes-256-gcm-2"}, "another codec"),
        ({FORMAT: b""}, "another codec"),
        ({"encoding": b"json/plain"}, "not encrypted"),
    ],
)
async def test_changed_metadata_is_refused(changes: dict[str, bytes], says: str) -> None:
    sealed = await encrypted(codec_of())
    metadata = {**sealed.metadata, **changes}
    with pytest.raises(UndecodablePayload, match=says):
        await decrypted(codec_of(), Payload(metadata=metadata, data=sealed.data))


async def test_two_ids_of_one_key_are_not_exchanged() -> None:
    codec = EncryptionCodec({"a": OLD, "b": OLD}, "a")
    sealed = await encrypted(codec)
    sealed.metadata[KEY_ID] = b"b"
    with pytest.raises(UndecodablePayload):
        await decrypted(codec, sealed)


async def test_a_payload_of_another_scope_is_refused() -> None:
    staging, production = codec_of(scope="staging"), codec_of(scope="production")
    sealed = await encrypted(staging)
    assert await decrypted(staging, sealed) == PLAIN
    for other in (production, codec_of()):
        with pytest.raises(UndecodablePayload, match="of another scope"):
            await decrypted(other, sealed)


async def test_plain_payloads_are_read_only_where_that_is_wanted() -> None:
    with pytest.raises(UndecodablePayload, match="not encrypted"):
        await decrypted(codec_of(), PLAIN)
    lenient = codec_of(accept_plain=True)
    assert await decrypted(lenient, PLAIN) == PLAIN
    sealed = await encrypted(lenient)
    sealed.data = sealed.data[:-1]
    with pytest.raises(UndecodablePayload, match="damaged"):
        await decrypted(lenient, sealed)


@pytest.mark.parametrize(
    ("keys", "current", "says"),
    [
        ({}, "a", "there is no such key. The ids of the keys are none"),
        ({"a": OLD}, "b", "The ids of the keys are a"),
        ({"a": b"short"}, "a", "must be 32 random bytes"),
        ({"a": "no base64!"}, "a", "must be 32 random bytes"),
        ({"a": base64.b64encode(OLD[:16]).decode()}, "a", "must be 32 random bytes"),
        ({"a": 5}, "a", "must be 32 random bytes"),
        ({"a b": OLD}, "a b", "the key id 'a b' must be"),
        ({"": OLD}, "", "the key id '' must be"),
        ({"ä": OLD}, "ä", "the key id 'ä' must be"),
    ],
)
def test_mistakes_are_refused(keys: dict[str, Any], current: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        EncryptionCodec(keys, current)


def key_file(folder: Path, text: str | None = None, mode: int = 0o600) -> Path:
    path = folder / "keys.toml"
    keys = "".join(
        f'"{name}" = "{base64.b64encode(key).decode()}"\n'
        for name, key in (("2026-05", OLD), ("2026-11", NEW))
    )
    path.write_text(text or f'current = "2026-11"\nscope = "s"\n\n[keys]\n{keys}')
    path.chmod(mode)
    return path


async def test_keys_are_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEYS_VARIABLE, str(key_file(tmp_path)))
    codec = load_converter("outlast.encryption:codec").payload_codec
    assert isinstance(codec, EncryptionCodec)
    sealed = await encrypted(codec)
    assert sealed.metadata[KEY_ID] == b"2026-11"
    same = EncryptionCodec({"2026-11": base64.b64encode(NEW).decode()}, "2026-11", scope="s")
    assert await decrypted(same, sealed) == PLAIN


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644, 0o666])
def test_a_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(UserError, match=f"has the mode {mode:04o}.*chmod 600"):
        EncryptionCodec.from_file(key_file(tmp_path, mode=mode))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_mounted_secret_may_be_readable_by_its_group(tmp_path: Path) -> None:
    path = key_file(tmp_path, mode=0o440)
    os.chown(path, 12345, 12345)
    EncryptionCodec.from_file(path)
    path.chmod(0o460)
    with pytest.raises(UserError, match="0460"):
        EncryptionCodec.from_file(path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("current = ", "it is no TOML"),
        ("[keys]", "lacks current"),
        ('current = "a"', "lacks keys"),
        ('current = "a"\nkey = 1\n[keys]', "has an invalid 'key'"),
        ('current = "a"\nscope = 1\n[keys]', "has an invalid 'scope'"),
        ('current = "a"\naccept_plain = "no"\n[keys]', "has an invalid 'accept_plain'"),
        ('current = "a"\n[keys]\na = "c2hvcnQ="', "must be 32 random bytes"),
    ],
)
def test_a_file_that_says_something_else_is_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        EncryptionCodec.from_file(key_file(tmp_path, text))


def test_a_missing_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"absent cannot be read: No such file"):
        EncryptionCodec.from_file(tmp_path / "absent")
    monkeypatch.delenv(KEYS_VARIABLE, raising=False)
    with pytest.raises(UserError, match="OUTLAST_ENCRYPTION_KEYS is unset"):
        load_converter("outlast.encryption:codec")


def test_no_message_repeats_a_key(tmp_path: Path) -> None:
    secret = base64.b64encode(OLD[:24]).decode()
    for text in (f'current = "a"\n[keys]\na = "{secret}"', f'current = "a\n[keys]\na = "{secret}"'):
        with pytest.raises(UserError) as caught:
            EncryptionCodec.from_file(key_file(tmp_path, text))
        assert secret not in str(caught.value)


def test_without_the_package_the_extra_is_named() -> None:
    program = "import sys; sys.modules['cryptography.exceptions'] = None\nimport outlast.encryption"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert "pip install 'outlast[encrypt]'" in done.stderr
