"""Finding the Temporal server, and what our runs need of it.

Owns: connecting as Temporal's own environment configuration says, and the search attributes. Must
not know: how a server is started.
"""

import re
from typing import Any

from temporalio.client import Client
from temporalio.envconfig import ClientConfig
from temporalio.service import RPCError

from outlast.agents.errors import ServerUnavailable, UserError
from outlast.agents.logs import get_logger
from outlast.client.codecs import configured_converter
from outlast.contract import names
from outlast.ports.interpreter_end import wait_for_native_threads
from outlast.visibility.search_attributes import ensure_search_attributes

logger = get_logger(__name__)

DEFAULT_ADDRESS = "localhost:7233"


def is_configured() -> bool:
    """Whether the environment or the profile file says where a server is.

    Raises:
        UserError: the configuration cannot be read.
    """
    return bool(_configuration())


async def connect(address: str | None = None, namespace: str | None = None) -> Client:
    """Connect to a Temporal server.

    Args:
        address: host and port; default: what `TEMPORAL_ADDRESS` or the profile file says, or
            else `localhost:7233`.
        namespace: default: what the configuration says, or else `default`.

    Raises:
        ServerUnavailable: nobody answers there.
        UserError: the configuration cannot be read, or OUTLAST_CODEC names no codec.
    """
    options = _configuration()
    if address is not None:
        options["target_host"] = address
    options.setdefault("target_host", DEFAULT_ADDRESS)
    if namespace is not None:
        options["namespace"] = namespace
    if (converter := configured_converter()) is not None:
        options["data_converter"] = converter
    wait_for_native_threads()
    try:
        return await Client.connect(**options)
    except (RuntimeError, RPCError, ValueError) as error:
        raise ServerUnavailable(
            f"No Temporal server answers at {options['target_host']}: {_reason(error)}. Start one "
            "with `outlast dev`, or say where yours is with TEMPORAL_ADDRESS."
        ) from None


async def add_search_attributes(client: Client) -> bool:
    """Add the search attributes of our runs to the namespace, where they are missing.

    Returns:
        Whether they can be used. False where the server does not let us add them; runs then work
        without being searchable by agent and status.
    """
    try:
        await ensure_search_attributes(client, names.SEARCH_ATTRIBUTES)
    except (RPCError, UserError) as error:
        logger.warning(
            "Runs will not be searchable by agent and status: the search attributes %s are "
            "missing and cannot be added (%s). Ask an operator to run `temporal operator "
            "search-attribute create`.",
            ", ".join(names.SEARCH_ATTRIBUTES),
            error,
        )
        return False
    return True


def _reason(error: Exception) -> str:
    """Return what the engine's core says of a failed connection, without its own type names."""
    said = str(error)
    found: list[str] = re.findall(r'(?:message|error): "([^"]+)"', said)
    return found[-1] if found else said.rstrip(".")


def _configuration() -> dict[str, Any]:
    try:
        return dict(ClientConfig.load_client_connect_config())
    except Exception as error:  # noqa: BLE001  the core has its own kinds, for each one way to be wrong
        raise UserError(
            f"Temporal's client configuration cannot be read: {error}. It is what the environment "
            "(TEMPORAL_...) and the profile file say."
        ) from None
