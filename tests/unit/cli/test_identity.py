"""`outlast identity`: keys for clients and workers."""

import json

import pytest
from temporalio.client import Client

from outlast.contract.identity import keys_from_environment
from tests.unit.cli.conftest import Invoke


async def test_a_new_pair_signs_and_checks(cli: Invoke) -> None:
    made = json.loads((await cli("identity", "new", "--json")).stdout)
    client = keys_from_environment({"OUTLAST_IDENTITY_KEY": made["OUTLAST_IDENTITY_KEY"]})
    worker = keys_from_environment(
        {"OUTLAST_IDENTITY_PUBLIC_KEYS": made["OUTLAST_IDENTITY_PUBLIC_KEYS"]}
    )
    assert client.signing is not None
    assert worker.signing is None
    assert worker.trusted[0].id == client.signing.id


async def test_each_key_says_where_it_belongs(cli: Invoke) -> None:
    lines = (await cli("identity", "new")).stdout.splitlines()
    assert lines[0] == "# where people decide, never on workers"
    assert lines[1].startswith("OUTLAST_IDENTITY_KEY=ed25519:")
    assert lines[2] == "# workers"
    assert lines[3].startswith("OUTLAST_IDENTITY_PUBLIC_KEYS=ed25519:")
    shared = (await cli("identity", "new", "--shared")).stdout
    assert shared.startswith("# clients and workers\nOUTLAST_IDENTITY_KEY=")


async def test_a_command_says_which_keys_it_uses(
    cli: Invoke, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the embedded server, that of its directory, without any configuration."""
    address = client.service_client.config.target_host
    shown = json.loads((await cli("identity", "show", "--address", address, "--json")).stdout)
    assert shown["source"].endswith("identity.key")
    assert shown["trusts"] == [shown["signs_with"]]

    public = json.loads((await cli("identity", "new", "--json")).stdout)
    monkeypatch.setenv("OUTLAST_IDENTITY_PUBLIC_KEYS", public["OUTLAST_IDENTITY_PUBLIC_KEYS"])
    words = (await cli("identity", "show", "--address", address)).stdout
    assert words == "Keys of OUTLAST_IDENTITY_PUBLIC_KEYS: cannot sign.\n"
