"""`outlast identity`: makes identity keys, and shows which ones a command uses."""

from typing import Any

from outlast.agents.errors import UserError
from outlast.cli import options, terminal
from outlast.cli.caller import Caller, on_server
from outlast.cli.described import described
from outlast.contract.identity import (
    KEY_VARIABLE,
    PUBLIC_KEYS_VARIABLE,
    IdentityKeyError,
    new_key_pair,
    new_shared_key,
)


@described
def new(
    shared: bool = False,
    as_json: options.AsJson = False,
) -> None:
    """Make a new identity key: a private one for clients, and its public one for workers.

    Command line:
        shared: Make one secret for clients and workers, instead of a pair of keys.
    """
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


@on_server
async def show(caller: Caller) -> None:
    """Show which identity keys this command would use, by their ids."""
    from outlast.temporal.proofs import identity_keys

    keys = await identity_keys((await caller.connect()).client)
    signing = keys.signing
    shown: dict[str, Any] = {
        "source": keys.source or None,
        "signs_with": signing.id if signing is not None else None,
        "trusts": [key.id for key in keys.trusted],
    }
    signs = f"signs with the key {signing.id}" if signing is not None else "cannot sign"
    if not keys:
        sentence = (
            "No identity key: nothing that you decide is proven. Make one with `outlast identity "
            "new`; the embedded server of `outlast dev` brings its own."
        )
    else:
        sentence = f"Keys of {keys.source}: {signs}."
    caller.show(shown, sentence)
