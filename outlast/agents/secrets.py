"""Secrets of the environment, and of the files that it names."""

from collections.abc import Mapping

from outlast.agents.errors import as_user_error
from outlast.edges import secret_files
from outlast.edges.secret_files import SecretFileError


def secret(variable: str, environment: Mapping[str, str] | None = None) -> str:
    """Return a secret; empty if there is none. See `outlast.edges.secret_files.secret`.

    Raises:
        UserError: both variables are set, or the file cannot be read or is empty.
    """
    with as_user_error(SecretFileError):
        return secret_files.secret(variable, environment)
