"""`outlast keys`: makes, lists, replaces and revokes the API keys of programs."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from outlast.agents.errors import UserError
from outlast.cli import options, terminal
from outlast.cli.described import described
from outlast.cli.durations import coming_time
from outlast.edges.rendering import named

if TYPE_CHECKING:
    from outlast.serve.access import Action
    from outlast.serve.keys import ApiKey

FILE_VARIABLE: Final = "OUTLAST_API_KEYS_FILE"
EVERYTHING: Final = "*"
"""What stands for every action in `--may`, and for every wait in `--wait`."""

KeyFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--file",
        metavar="FILE",
        help=f"The file of keys, which `outlast serve` reads. Default: {FILE_VARIABLE}.",
        show_default=False,
    ),
]
Name: TypeAlias = Annotated[
    str, typer.Argument(metavar="NAME", help="The program's name.", show_default=False)
]
Names: TypeAlias = list[str] | None


def key_file() -> Path | None:
    """Return the file of keys that the environment names."""
    named = os.environ.get(FILE_VARIABLE, "").strip()
    return Path(named) if named else None


@described
def add(
    name: Name,
    may: Annotated[list[str], typer.Option(show_default=False)],
    agent: Names = None,
    tenant: Names = None,
    all_conversations: bool = False,
    wait: Names = None,
    expires: str | None = None,
    file: KeyFile = None,
    as_json: options.AsJson = False,
) -> None:
    """Make an API key, and print it once: the file has only its digest.

    Command line:
        may (ACTION): What it is for: start_run, read_messages, send_message, withdraw_message,
            view_run, mint_token, cancel, finish_wait, or * for all of them. Repeatable.
        agent: An agent of its conversations; default: any. Repeatable.
        tenant: A tenant of its conversations; default: any. Repeatable.
        all_conversations (--all): For all these conversations, not only those that it began.
        wait: A wait that it may finish, by its name, or * for any. Repeatable.
        expires (TIME): When it ends: a time, or such as 90d.
    """
    from outlast.serve.keys import ApiKey, check_new, new_key, read_keys, write_keys

    path = _path(file)
    check_new(path, name)
    keys = read_keys(path)
    _check_name(name)
    _check_named({"--agent": agent, "--tenant": tenant, "--wait": wait})
    actions = _actions(may, has_waits=bool(wait))
    key, digest = new_key()
    made = ApiKey(
        name=name,
        digest=digest,
        actions=actions,
        agents=tuple(agent or ()),
        tenants=tuple(tenant or ()),
        conversations="all" if all_conversations else "own",
        waits=tuple(wait or ()),
        expires=_time(expires, "--expires"),
    )
    write_keys(path, [*keys, made])
    _print_key(made, key, path, as_json=as_json)


def list_keys(file: KeyFile = None, as_json: options.AsJson = False) -> None:
    """List the API keys, and what each is for."""
    from outlast.serve.keys import read_keys

    keys = read_keys(_path(file))
    if as_json:
        terminal.print_json([_record(one) for one in keys])
        return
    if not keys:
        terminal.say(terminal.out(), "No API keys. Make one with `outlast keys add`.")
    for one in keys:
        terminal.say(terminal.out(), (named(one.name), "bold"), ": ", _words(one))


@described
def rotate(
    name: Name,
    overlap: str | None = None,
    file: KeyFile = None,
    as_json: options.AsJson = False,
) -> None:
    """Replace an API key by a new one with the same scope; the old one ends at once.

    Command line:
        overlap (TIME): Until when the old key counts too: 2h.
    """
    from outlast.serve.keys import OldDigest, new_key, write_keys

    path = _path(file)
    keys, old = _named(path, name)
    key, digest = new_key()
    until = _time(overlap, "--overlap")
    kept = () if until is None else (OldDigest(digest=old.digest, until=until),)
    made = old.model_copy(update={"digest": digest, "old": kept})
    write_keys(path, [made if one.name == name else one for one in keys])
    _print_key(made, key, path, as_json=as_json)


def revoke(name: Name, file: KeyFile = None, as_json: options.AsJson = False) -> None:
    """End an API key at once. What its program began goes on."""
    from outlast.serve.keys import write_keys

    path = _path(file)
    keys, _ = _named(path, name)
    write_keys(path, [one for one in keys if one.name != name])
    if as_json:
        terminal.print_json({"name": name, "file": str(path)})
        return
    terminal.say(terminal.out(), "The key ", (name, "bold"), " does not count any more.")


def _actions(may: list[str], *, has_waits: bool) -> "tuple[Action, ...]":
    """Return what a key is for.

    Raises:
        UserError: no key is for one of them, or its waits are missing.
    """
    from outlast.serve.keys import ACTIONS

    if unknown := next((one for one in may if one not in {*ACTIONS, EVERYTHING}), None):
        raise UserError(f"No API key is for {unknown!r:.40}. Actions: {', '.join(ACTIONS)}, or *.")
    actions: list[Action] = [one for one in ACTIONS if may.count(one) or EVERYTHING in may]
    if has_waits != ("finish_wait" in actions):
        raise UserError(
            "--wait belongs to --may finish_wait."
            if has_waits
            else "Name the waits that the key may finish: --wait NAME, or --wait '*'."
        )
    return tuple(actions)


def _path(file: Path | None) -> Path:
    path = file or key_file()
    if path is None:
        raise UserError(f"Name the file of keys: --file keys.json, or set {FILE_VARIABLE}.")
    return path


def _named(path: Path, name: str) -> "tuple[tuple[ApiKey, ...], ApiKey]":
    from outlast.serve.keys import read_keys

    keys = read_keys(path)
    found = next((one for one in keys if one.name == name), None)
    if found is None:
        names = ", ".join(one.name for one in keys) or "none"
        raise UserError(f"{path} has no key {name!r:.80}. Keys: {names}.")
    return keys, found


def _check_name(name: str) -> None:
    from outlast.serve.keys import LONGEST_NAME

    if not name.strip() or name != name.strip() or not name.isprintable():
        raise UserError(f"A key needs a name that can be printed, such as shop, not {name!r:.80}.")
    if len(name) > LONGEST_NAME:
        raise UserError(f"The name of a key has at most {LONGEST_NAME} characters.")


def _check_named(scope: dict[str, Names]) -> None:
    """Refuse an empty name in a scope, such as that of a variable that is not set."""
    for option, names in scope.items():
        if not all(one.strip() for one in names or ()):
            raise UserError(f"{option} has an empty name. Name one, or leave {option} out for any.")


def _time(text: str | None, option: str) -> datetime | None:
    if text is None:
        return None
    now = datetime.now(UTC)  # noqa: TID251  for what the option means
    found = coming_time(text, option, now)
    found = found if found.tzinfo is not None else found.astimezone()
    if found <= now:
        raise UserError(f"{option} {text!r:.80} is over already.")
    return found


def _print_key(made: "ApiKey", key: str, path: Path, *, as_json: bool) -> None:
    if as_json:
        terminal.print_json({**_record(made), "key": key, "file": str(path)})
        return
    terminal.say(terminal.err(), (named(made.name), "bold"), ": ", _words(made))
    terminal.say(terminal.err(), "This is the key. It is shown once; the file has its digest.")
    terminal.say_text(terminal.out(), key)


def _record(one: "ApiKey") -> dict[str, Any]:
    record = one.model_dump(mode="json", exclude={"digest", "old"})
    return {**record, "old_until": max((old.until.isoformat() for old in one.old), default=None)}


def _words(one: "ApiKey") -> str:
    whose = "all conversations" if one.conversations == "all" else "the conversations that it began"
    parts = [", ".join(one.actions), f"for {whose}"]
    for word, names in (("agent", one.agents), ("tenant", one.tenants), ("wait", one.waits)):
        if names:
            parts.append(f"{word} {', '.join(names)}")
    if one.expires is not None:
        parts.append(f"until {one.expires:%Y-%m-%d %H:%M %Z}")
    return "; ".join(parts)
