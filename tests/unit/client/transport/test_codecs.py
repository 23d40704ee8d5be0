"""Naming a codec: what is found, and what is said when there is none."""

from pathlib import Path

import pytest
from temporalio.converter import DataConverter

from outlast.agents.errors import UserError
from outlast.client.transport.codecs import configured_converter, load_converter
from tests.workflow.codecs import Sealed

CODEC = Sealed(b"key")
CONVERTER = DataConverter.default
HERE = "tests.unit.client.transport.test_codecs"


def make() -> Sealed:
    return CODEC


@pytest.mark.parametrize("name", ["CODEC", "make"])
def test_a_codec_is_an_object_or_made_by_a_function(name: str) -> None:
    assert load_converter(f"{HERE}:{name}").payload_codec is CODEC


def test_a_whole_converter_may_be_named() -> None:
    assert load_converter(f"{HERE}:CONVERTER") is CONVERTER


def test_a_module_in_the_current_directory_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"from {HERE} import CODEC as sealed\n"
    (tmp_path / "codec_of_this_test.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    assert load_converter("codec_of_this_test:sealed").payload_codec is CODEC


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("codec", "written as MODULE:NAME"),
        ("no.such.module:codec", "ModuleNotFoundError"),
        (f"{HERE}:nothing", "AttributeError"),
        (f"{HERE}:HERE", "is a str: name a PayloadCodec"),
    ],
)
def test_what_is_no_codec_is_refused(target: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        load_converter(target)


def test_the_environment_names_the_codec(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OUTLAST_CODEC", raising=False)
    assert configured_converter() is None
    monkeypatch.setenv("OUTLAST_CODEC", f"{HERE}:CODEC")
    converter = configured_converter()
    assert converter is not None
    assert converter.payload_codec is CODEC
