"""Connects to the Temporal server, and adds the search attributes of runs."""

import re
from datetime import timedelta
from importlib.util import find_spec
from typing import Any, Final, Protocol, TypeVar

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.envconfig import ClientConfig
from temporalio.service import GrpcCompression, KeepAliveConfig, RPCError, RPCStatusCode

from outlast.agents.errors import ServerUnavailable, UserError
from outlast.agents.hosts import is_same_address, is_this_machine
from outlast.agents.logs import get_logger
from outlast.blobs import use_local_store
from outlast.client.transport.codecs import configured_converter
from outlast.contract import names
from outlast.edges.interpreter_end import wait_for_native_threads
from outlast.edges.lazy import load
from outlast.temporal.payloads.key_order import in_key_order
from outlast.temporal.visibility.search_attributes import ensure_search_attributes

T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)

logger: Final = get_logger(__name__)

DEFAULT_ADDRESS = "localhost:7233"

CONNECT_TIMEOUT: Final = timedelta(seconds=5)
"""How long one attempt to connect may take.

Without a limit, the kernel waits twice as long before each further packet of an attempt, and a
connection comes back up to a minute after the network does.
"""

KEEP_ALIVE: Final = KeepAliveConfig(interval_millis=15_000, timeout_millis=10_000)
"""A connection that says nothing for 25 seconds is given up: by default, the SDK takes 45.

Servers refuse clients that ask more often than every ten seconds.
"""


def is_configured() -> bool:
    """Whether the environment or the profile file names a server."""
    return bool(configuration())


async def connect(address: str | None = None, namespace: str | None = None) -> Client:
    """Connect to the Temporal server that `Runner.run` would use, if it runs.

    On the project's own server, large content is in the project's folder, and what people do is
    signed with the project's key.

    Args:
        address: host and port; default: `TEMPORAL_ADDRESS`, the profile file, the project's own
            server, at whichever port it runs, or `localhost:7233`.
        namespace: default: the configured namespace, that of the project's server, or `default`.

    Raises:
        ServerUnavailable: no server answers at the address; or none is named, the project's own
            does not run, and the one at the default address belongs to another project.
        UserError: the configuration cannot be read, or OUTLAST_CODEC names no codec.
    """
    options = configuration()
    if address is not None:
        options["target_host"] = address
    is_named = bool(options)
    own = _own_server(options.get("target_host", DEFAULT_ADDRESS) if is_named else None)
    if own is not None:  # as the server writes it: the name of a host may mean several
        options["target_host"] = own.address
        options.setdefault("namespace", own.namespace)
    options.setdefault("target_host", DEFAULT_ADDRESS)
    if namespace is not None:
        options["namespace"] = namespace
    client = await _connected(options)
    if own is not None:
        use_local_store(client, _of_dev("default_blob_dir"), is_default=True)
    elif not is_named:
        await _check_owner(client)
    return client


class OwnServer(Protocol):
    """The project's own server, as `outlast.dev` describes it."""

    @property
    def address(self) -> str:
        """Host and port."""
        ...

    @property
    def ui_url(self) -> str | None:
        """The URL of its web UI."""
        ...

    @property
    def namespace(self) -> str:
        """The namespace that it was started with."""
        ...


def own_server_of(client: Client) -> OwnServer | None:
    """Return the project's own server, if a client is connected to it."""
    return _own_server(client.service_client.config.target_host)


def _own_server(address: str | None) -> OwnServer | None:
    """Return the project's own server if it runs, at this address or, for None, at any.

    There is none on Windows, where clients work without what servers of outlast need.
    """
    if find_spec("fcntl") is None or (address is not None and not _is_here(address)):
        return None
    server: OwnServer | None = _of_dev("running_server", _of_dev("default_data_dir"))
    if server is None or address is None or is_same_address(address, server.address):
        return server
    return None


async def _check_owner(client: Client) -> None:
    """Refuse the server of another project, which has other runs and agents.

    Raises:
        ServerUnavailable: the server belongs to another project.
    """
    request = DescribeNamespaceRequest(namespace=client.namespace)
    try:
        described = await client.workflow_service.describe_namespace(request)
    except RPCError:
        return  # what the program does next reports a missing namespace
    owner = described.namespace_info.data.get(names.OWNER_KEY, "")
    if owner:
        where = client.service_client.config.target_host
        own = "this project" if find_spec("fcntl") is None else _of_dev("default_data_dir")
        raise ServerUnavailable(
            f"No Temporal server runs for {own}; the one at {where} belongs to "
            f"{owner}. Start your own with `outlast dev`, or use that one with --address {where}, "
            f"TEMPORAL_ADDRESS={where} or connect({where!r})."
        )


def _of_dev(name: str, *arguments: object) -> Any:
    """Call a function of `outlast.dev.data_dir`."""
    function: Any = load(f"outlast.dev.data_dir:{name}")
    return function(*arguments)


def _is_here(address: str) -> bool:
    return is_this_machine(address.rpartition(":")[0].strip("[]"))


async def _connected(options: dict[str, Any]) -> Client:
    options.setdefault("connect_timeout", CONNECT_TIMEOUT)
    options.setdefault("keep_alive_config", KEEP_ALIVE)
    options["data_converter"] = in_key_order(configured_converter() or DataConverter.default)
    if _is_here(options["target_host"]):
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
    """Starts something, with search attributes or without, and with those of its owners or without."""

    async def __call__(self, *, visibility: bool, owners: bool = True) -> R_co:
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
        lacks_owners = any(one in str(error) for one in names.ATTRIBUTES_OF_OWNERS)
    if lacks_owners:
        # A namespace that an older version set up has all the others.
        try:
            return await start(visibility=True, owners=False)
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
