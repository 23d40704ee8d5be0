"""Connects to the Temporal server, and adds the search attributes of runs."""

import re
from typing import Any, Final, Protocol, TypeVar

from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.envconfig import ClientConfig
from temporalio.service import GrpcCompression, RPCError, RPCStatusCode

from outlast.agents.errors import ServerUnavailable, UserError
from outlast.agents.logs import get_logger
from outlast.client.transport.codecs import configured_converter
from outlast.contract import names
from outlast.hosts import is_this_machine
from outlast.interpreter_end import wait_for_native_threads
from outlast.payloads.key_order import in_key_order
from outlast.visibility.search_attributes import ensure_search_attributes

T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)

logger: Final = get_logger(__name__)

DEFAULT_ADDRESS = "localhost:7233"


def is_configured() -> bool:
    """Whether the environment or the profile file names a server."""
    return bool(configuration())


async def connect(address: str | None = None, namespace: str | None = None) -> Client:
    """Connect to a Temporal server.

    Args:
        address: host and port; default: `TEMPORAL_ADDRESS`, the profile file, or `localhost:7233`.
        namespace: default: the configured namespace, or `default`.

    Raises:
        ServerUnavailable: no server answers at the address.
        UserError: the configuration cannot be read, or OUTLAST_CODEC names no codec.
    """
    options = configuration()
    if address is not None:
        options["target_host"] = address
    options.setdefault("target_host", DEFAULT_ADDRESS)
    if namespace is not None:
        options["namespace"] = namespace
    options["data_converter"] = in_key_order(configured_converter() or DataConverter.default)
    if is_this_machine(options["target_host"].rpartition(":")[0].strip("[]")):
        # Compressing costs a worker a few percent of its CPU, and saves nothing here.
        options["grpc_compression"] = GrpcCompression.NONE
    wait_for_native_threads()
    try:
        return await Client.connect(**options)
    except (RuntimeError, RPCError, ValueError) as error:
        raise ServerUnavailable(
            f"No Temporal server answers at {options['target_host']}: {_reason(error)}. Start one "
            "with `outlast dev`, or set TEMPORAL_ADDRESS to your server's address."
        ) from None


async def add_search_attributes(client: Client) -> bool:
    """Add missing search attributes of runs to the namespace, and return whether they can be used.

    Where the server does not allow them, runs work, but cannot be searched by agent and status.
    """
    try:
        await ensure_search_attributes(client, names.SEARCH_ATTRIBUTES)
    except (RPCError, UserError) as error:
        logger.warning(
            "Runs will not be searchable by agent, status and tenant: some of the search "
            "attributes %s are missing and cannot be added (%s). Ask an operator to run `temporal operator "
            "search-attribute create`.",
            ", ".join(names.SEARCH_ATTRIBUTES),
            error,
        )
        return False
    return True


class Start(Protocol[R_co]):
    """Starts something, with search attributes or without, and with the tenant's or without."""

    async def __call__(self, *, visibility: bool, tenant: bool = True) -> R_co:
        """Start it."""
        ...


async def with_search_attributes(client: Client, start: Start[T]) -> T:
    """Start something with the search attributes of runs, if the namespace can have them."""
    try:
        return await start(visibility=True)
    except RPCError as error:
        if not _lacks_attribute(error):
            raise
        if await add_search_attributes(client):
            return await start(visibility=True)
        lacks_tenant = names.ATTRIBUTE_TENANT in str(error)
    if lacks_tenant:
        # A namespace that an older version set up has all the others.
        try:
            return await start(visibility=True, tenant=False)
        except RPCError as error:
            if not _lacks_attribute(error):
                raise
    return await start(visibility=False)


def _lacks_attribute(error: RPCError) -> bool:
    is_invalid = error.status is RPCStatusCode.INVALID_ARGUMENT
    return is_invalid and "search attribute" in str(error)


def _reason(error: Exception) -> str:
    text = str(error)
    found: list[str] = re.findall(r'(?:message|error): "([^"]+)"', text)
    return found[-1] if found else text.rstrip(".")


def configuration() -> dict[str, Any]:
    """Return the arguments of `Client.connect` that the environment and the profile file name."""
    try:
        return dict(ClientConfig.load_client_connect_config())
    except Exception as error:  # noqa: BLE001  the core raises different types
        raise UserError(
            f"Temporal's client configuration cannot be read: {error}. Check the environment "
            "(TEMPORAL_...) and the profile file."
        ) from None
