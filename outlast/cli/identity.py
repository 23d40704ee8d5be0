"""`outlast identity`: makes identity keys, and shows which ones a command uses."""

import asyncio
from typing import Annotated, Any

import typer

from outlast.cli import options, server, terminal
from outlast.contract.identity import (
    KEY_VARIABLE,
    PUBLIC_KEYS_VARIABLE,
    IdentityKeyError,
    IdentityKeys,
    new_key_pair,
    new_shared_key,
)


def new(
    shared: Annotated[
        bool,
        typer.Option(
            "--shared", help="Make one secret for clients and workers, instead of a pair of keys."
        ),
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Make a new identity key: a private one for clients, and its public one for workers."""
    from outlast.agents.errors import UserError

    if shared:
        made = {KEY_VARIABLE: new_shared_key()}
    else:
        try:
            private, public = new_key_pair()
        except IdentityKeyError as error:
            raise UserError(f"{error} Or make a shared secret: --shared.") from None
        made = {KEY_VARIABLE: private, PUBLIC_KEYS_VARIABLE: public}
    if as_json:
        terminal.print_json(made)
        return
    places = {
        KEY_VARIABLE: "clients and workers" if shared else "where people decide, never on workers",
        PUBLIC_KEYS_VARIABLE: "workers",
    }
    for name, key in made.items():
        terminal.say(terminal.out(), f"# {places[name]}")
        terminal.say(terminal.out(), f"{name}={key}")


def show(
    address: options.Address = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """Show which identity keys this command would use, by their ids."""
    keys = asyncio.run(_keys(address, namespace))
    signing = keys.signing
    shown: dict[str, Any] = {
        "source": keys.source or None,
        "signs_with": signing.id if signing is not None else None,
        "trusts": [key.id for key in keys.trusted],
    }
    if as_json:
        terminal.print_json(shown)
        return
    if not keys:
        terminal.say(
            terminal.out(),
            "No identity key: nothing that you decide is proven. Make one with `outlast identity "
            "new`; the embedded server of `outlast dev` brings its own.",
        )
        return
    signs = f"signs with the key {signing.id}" if signing is not None else "cannot sign"
    terminal.say(terminal.out(), f"Keys of {keys.source}: {signs}.")


async def _keys(address: str | None, namespace: str | None) -> IdentityKeys:
    from outlast.proofs import identity_keys

    connection = await server.connect(address, namespace)
    return await identity_keys(connection.client)
