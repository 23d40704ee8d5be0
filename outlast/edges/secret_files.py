"""Secrets: in a variable, or in the file that a second variable names.

`OUTLAST_DESK_KEY_FILE=/run/secrets/desk-key` stands for `OUTLAST_DESK_KEY`. A mounted file is no part
of the environment, which every tool of a worker, and every program that a tool starts, can read.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

SUFFIX: Final = "_FILE"


class SecretFileError(ValueError):
    """The file of a secret cannot be used; the message never has any part of it."""


def secret(variable: str, environment: Mapping[str, str] | None = None) -> str:
    """Return a secret of the environment; empty if there is none.

    Args:
        variable: the variable with the secret; with `_FILE` after it, the one with its file.
        environment: the variables; default: those of this process.

    Raises:
        SecretFileError: both variables are set, or the file cannot be read or is empty.
    """
    found = os.environ if environment is None else environment
    name = f"{variable}{SUFFIX}"
    place = found.get(name, "").strip()
    if not place:
        return found.get(variable, "")
    if found.get(variable):
        raise SecretFileError(f"{variable} and {name} are both set. Unset one of them.")
    try:
        text = Path(place).read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        raise SecretFileError(f"The file of {name}, {place}, is no text.") from None
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise SecretFileError(f"The file of {name} cannot be read: {place}: {why}.") from None
    if not text:
        raise SecretFileError(f"The file of {name}, {place}, is empty.")
    return text
