"""The identity keys of a process: those of its environment, or of the embedded server's project."""

import asyncio
import json
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from outlast.agents.errors import UserError, as_user_error
from outlast.agents.hosts import is_same_address, is_this_machine
from outlast.contract.identity import (
    NO_KEYS,
    IdentityKeyError,
    IdentityKeys,
    keys_from_environment,
    new_shared_key,
    read_keys,
)
from outlast.contract.names import IDENTITY_DIR

KEY_FILE: Final = "identity.key"
"""The file with the key of a project: its command line, clients and workers use it."""

_SERVER_FILE: Final = "server.json"
_RESTART_SECONDS: Final = 15.0  # an embedded server has its address within this
_LOOK_SECONDS: Final = 0.05

_REFUSED: Final = frozenset(
    {RPCStatusCode.NOT_FOUND, RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNIMPLEMENTED}
)
"""The errors of servers that describe their namespaces to nobody, or not to this client."""

_of_clients: WeakKeyDictionary[Client, IdentityKeys] = WeakKeyDictionary()


async def identity_keys(client: Any) -> IdentityKeys:
    """Return the keys of this process for a client's server.

    Those of the environment come first. Without them, a client of an embedded server uses the key
    of the project that the server belongs to, if this user owns it.

    Raises:
        UserError: a key is unusable, or others can read it.
        RPCError: the server does not answer now.
    """
    with as_user_error(IdentityKeyError):
        keys = keys_from_environment()
    if keys or not isinstance(client, Client):
        return keys
    known = _of_clients.get(client)
    if known is None:
        folder = await _project_of(client)
        if folder is None:  # not remembered: a server that is starting has not said it yet
            return NO_KEYS
        known = _of_clients[client] = project_keys(folder)
    return known


def project_keys(folder: Path) -> IdentityKeys:
    """Return the keys of a project, made on the first call.

    Raises:
        UserError: the file belongs to somebody else, others can read it, or it has no key.
    """
    path = folder / KEY_FILE
    _make(path)
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except OSError as error:
        raise UserError(f"The identity key {path} cannot be read: {error.strerror}.") from None
    with os.fdopen(descriptor, encoding="utf-8") as file:
        _check_owner(path, os.fstat(descriptor))
        text = file.read().strip()
    try:
        return IdentityKeys(read_keys(text), str(path))
    except IdentityKeyError as error:
        raise UserError(f"The identity key {path} is unusable: {error} Remove the file.") from None


def _make(path: Path) -> None:
    """Make a key if there is none; of two processes at the same time, one makes it."""
    if path.exists():
        return
    draft = path.with_name(f".{KEY_FILE}.{os.getpid()}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(new_shared_key() + "\n")
        os.link(draft, path)  # fails if another process was first
    except FileExistsError:
        pass
    except OSError as error:
        raise UserError(f"No identity key can be made at {path}: {error.strerror}.") from None
    finally:
        draft.unlink(missing_ok=True)


def _check_owner(path: Path, found: os.stat_result) -> None:
    if not hasattr(os, "getuid"):
        return
    if found.st_uid != os.getuid():
        raise UserError(f"The identity key {path} belongs to another user. Remove it.")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise UserError(
            f"Others can read the identity key {path}. Make a new one: remove the file, and "
            "restart the workers of the project."
        )


async def _project_of(client: Client) -> Path | None:
    """Return the data directory of the embedded server that a client is connected to.

    The server names it, and a file there, which only this user can have written, names the server:
    so no other server gets signatures that are made with the project's key.
    """
    address = client.service_client.config.target_host
    if not is_this_machine(address.rpartition(":")[0].strip("[]")):
        return None
    try:
        described = await client.workflow_service.describe_namespace(
            DescribeNamespaceRequest(namespace=client.namespace)
        )
    except RPCError as error:
        if error.status in _REFUSED:
            return None
        raise
    named = described.namespace_info.data.get(IDENTITY_DIR, "")
    if not named:
        return None
    await _restarted(Path(named))
    return Path(named) if _serves(Path(named), address) else None


async def _restarted(folder: Path) -> None:
    """Wait while a server has started again and its address is not written down yet."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_RESTART_SECONDS):
            while _lacks_address(folder):  # noqa: ASYNC110  another process writes it
                await asyncio.sleep(_LOOK_SECONDS)


def _lacks_address(folder: Path) -> bool:
    return folder.is_dir() and not (folder / _SERVER_FILE).exists()


def _serves(folder: Path, address: str) -> bool:
    """Whether a data directory of this user says that its server has an address."""
    path = folder / _SERVER_FILE
    try:
        if hasattr(os, "getuid") and path.stat().st_uid != os.getuid():
            return False
        served: object = json.loads(path.read_text(encoding="utf-8")).get("address")
        return isinstance(served, str) and is_same_address(served, address)
    except (OSError, ValueError, AttributeError):
        return False
