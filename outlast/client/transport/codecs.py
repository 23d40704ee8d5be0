"""Loads the payload codec `MODULE:NAME` that `--codec` or `OUTLAST_CODEC` names."""

import os
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from temporalio.converter import DataConverter, PayloadCodec

from outlast.agents.errors import UserError

CODEC_VARIABLE: Final = "OUTLAST_CODEC"


def configured_converter() -> DataConverter | None:
    """Return the data converter that the environment names, or None."""
    target = os.environ.get(CODEC_VARIABLE, "")
    return load_converter(target) if target else None


def load_converter(target: str) -> DataConverter:
    """Return the data converter at an address, `MODULE:NAME`, also of the current directory.

    The name is that of a `PayloadCodec`, of a `DataConverter`, or of a function that makes one.
    """
    module_name, _, name = target.partition(":")
    if not module_name or not name:
        raise UserError(
            f"The codec {target!r} must be written as MODULE:NAME, such as `my_app.security:codec`."
        )
    here = str(Path.cwd())
    if "" not in sys.path and here not in sys.path:
        sys.path.append(here)
    try:
        found: Any = getattr(import_module(module_name), name)
        if callable(found):
            found = found()
    except Exception as error:  # importing and making it run user code
        raise UserError(
            f"The codec {target!r} cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    if isinstance(found, DataConverter):
        return found
    if not isinstance(found, PayloadCodec):
        raise UserError(
            f"The codec {target!r} is a {type(found).__name__}: name a PayloadCodec, a "
            "DataConverter, or a function that makes one."
        )
    return replace(DataConverter.default, payload_codec=found)
