"""`outlast doctor --security`: weaknesses of an installation, and their fixes.

A check is a row of `CHECKS`; it reads a `Situation` and changes nothing.
"""

import os
import re
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, asdict, dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import unquote, urlsplit

from outlast.agents.approvals.policy import ApprovalPolicy, policy_of
from outlast.agents.approvals.policy_file import (
    ENVIRONMENT_VARIABLE as APPROVALS_VARIABLE,
)
from outlast.agents.approvals.policy_file import ApprovalFile, ApprovalPoint
from outlast.agents.config.secret_settings import is_secret_name, is_secret_text
from outlast.agents.context.wait_urls import UNSIGNED_VARIABLE
from outlast.agents.errors import UserError
from outlast.agents.hosts import is_this_machine
from outlast.agents.tools.hosted import HostedMCPTool
from outlast.agents.tools.local import LocalTool
from outlast.cli.desk_options import API_KEYS_VARIABLE, EVERYBODY
from outlast.cli.keys import FILE_VARIABLE
from outlast.client.transport.codecs import CODEC_VARIABLE, load_converter
from outlast.contract.identity import (
    KEY_VARIABLE,
    PUBLIC_KEYS_VARIABLE,
    IdentityKeyError,
    keys_from_environment,
)
from outlast.contract.policies import ARCHIVE_VARIABLE
from outlast.dev.data_dir import default_data_dir

if TYPE_CHECKING:
    from temporalio.converter import PayloadCodec

    from outlast.agents.agent import Agent

COMPOSE_FILES: Final = (
    "compose.yaml",
    "compose.yml",
    "docker-compose.yaml",
    "docker-compose.yml",
)
"""What Docker Compose reads where nobody names a file."""

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_KEY_FILES: Final = (".env", ".env.*", "*.pem", "*.key", "keys.toml", "*.keys.toml")
_SECRET_HEADER: Final = re.compile(r"authorization|cookie|[_-]key|token", re.IGNORECASE)
DELIVERY_KEYS_VARIABLE: Final = "OUTLAST_DELIVERY_KEYS"
SESSIONS_VARIABLE: Final = "OUTLAST_SESSIONS"
BLOBS_VARIABLE: Final = "OUTLAST_BLOB_STORE"
CONTENT_VARIABLE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_KEY_PATH: Final = re.compile(
    r"(?:_KEY_PATH|(?<!PUBLIC)_KEYS?_FILE|_(?:SECRET|PASSWORD|TOKEN)_FILE|_KEYS|_CONFIG_FILE|_CREDENTIALS)$"
)
_FILE_MAY_BE_NAMED: Final = frozenset(
    {
        "OPENAI_API_KEY",
        "OUTLAST_CONVERSATION_KEY",
        DELIVERY_KEYS_VARIABLE,
        "OUTLAST_DESK_KEY",
        "OUTLAST_IDENTITY_KEY",
        "OUTLAST_OIDC_CLIENT_SECRET",
    }
)
"""Secrets that outlast also reads from the file that the variable with `_FILE` names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weakness:
    """Something that makes an attack easier."""

    what: str
    detail: str
    fix: str


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What the checks read.

    Attributes:
        environment: the variables that a worker here would have.
        folder: the folder whose compose file and key files are checked.
        data_dir: the folder of the embedded server.
        connection: the settings of the connection to Temporal; `target_host` is absent where none
            is named, so that scripts use the embedded server.
        config: the arguments of the `AgentWorker`; None without a target.
    """

    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    folder: Path = field(default_factory=Path)
    data_dir: Path | None = None
    connection: Mapping[str, Any] = field(default_factory=dict[str, Any])
    config: Mapping[str, Any] | None = None
    approvals: Path | None = None

    @property
    def server(self) -> str | None:
        """The server that is named; None for an embedded one."""
        return self.connection.get("target_host")

    @cached_property
    def compose(self) -> Path | None:
        """The compose file of the folder."""
        found = (self.folder / name for name in COMPOSE_FILES)
        return next((path for path in found if path.is_file()), None)

    @cached_property
    def approvals_file(self) -> Path | None:
        """The file of the operators' policies: that of the command, the target or the worker."""
        place = self.approvals or (self.config or {}).get("approvals")
        place = place or self.environment.get(APPROVALS_VARIABLE)
        return Path(place) if isinstance(place, str | Path) and str(place) else None

    @cached_property
    def policies(self) -> ApprovalFile | None:
        """The operators' policies."""
        place: Any = self.approvals_file or (self.config or {}).get("approvals")
        return None if place is None else ApprovalFile.load(place)

    def stores(self) -> Iterator[tuple[str, str | Path]]:
        """Yield what keeps histories and content, with a directory or a URL."""
        archive, blobs = ((self.config or {}).get(one) for one in ("archive", "blob_store"))
        found = (
            ("the archive", getattr(archive, "store", archive), ARCHIVE_VARIABLE),
            ("the blob store", blobs, BLOBS_VARIABLE),
        )
        for what, given, variable in found:
            place = getattr(given, "directory", given) or self.environment.get(variable)
            if not isinstance(place, str | Path) or not str(place):
                continue
            is_file = isinstance(place, str) and place.startswith("file:")
            yield what, Path(unquote(urlsplit(str(place)).path)) if is_file else place

    @cached_property
    def points(self) -> tuple[ApprovalPoint, ...]:
        """Everything that a policy may be about on the worker."""
        from outlast.agents.approval_points import approval_points
        from outlast.agents.registry import Registry

        return (
            () if self.config is None else approval_points(Registry(self.config["agents"])).points
        )

    def agents(self) -> "Iterator[Agent[Any]]":
        """Yield the agents of the worker, and those that they hand over to; none without a target."""
        from outlast.agents.registry import Registry

        if self.config is not None:
            registry = Registry(self.config["agents"])
            yield from map(registry.agent, registry.names)

    def policies_in_force(self) -> Iterator[tuple[ApprovalPoint, ApprovalPolicy]]:
        """Yield what needs approval, with the policy that the code and the operators make."""
        for point in self.points:
            file = self.policies
            policy = policy_of(point.setting if file is None else file.needs_approval(point))
            if policy is not None:
                yield point, policy


def _open_files(situation: Situation) -> Iterator[Weakness]:
    folder = situation.data_dir
    with suppress(UserError):  # `outlast doctor` says why there is none
        folder = folder or default_data_dir()
    named = situation.environment.get(SESSIONS_VARIABLE, "").split(os.pathsep)
    sessions = [*(situation.config or {}).get("sessions", ()), *filter(None, named)]
    for paths, what, holds, mode in (
        ([folder] if folder else [], "the data folder", "holds runs", "700"),
        (_key_files(situation), "the file", "may hold keys", "600"),
        (map(Path, sessions), "the sessions in", "are conversations", "go="),
        *(
            ([Path(place)], f"{what} in", "holds conversations", "go=")
            for what, place in situation.stores()
            if not urlsplit(str(place)).scheme
        ),
    ):
        for path in paths:
            if problem := _readable(path):
                yield Weakness(
                    what=f"{what} {path}",
                    detail=f"{holds}, and {problem}",
                    fix=f"chmod {mode} {path}",
                )
    approvals = situation.approvals_file
    if approvals is not None and approvals.is_file():
        mode_of = stat.S_IMODE(approvals.stat().st_mode)
        if mode_of & (stat.S_IWGRP | stat.S_IWOTH):
            yield Weakness(
                what=f"the policies in {approvals}",
                detail=f"say who decides, and its mode {mode_of:04o} lets others write them",
                fix=f"chmod go-w {approvals}",
            )


def _key_files(situation: Situation) -> Iterable[Path]:
    named = [
        Path(value)
        for name, value in situation.environment.items()
        if value and _KEY_PATH.search(name)
    ]
    kept = [path for form in _KEY_FILES for path in sorted(situation.folder.glob(form))]
    return [path for path in dict.fromkeys([*named, *kept]) if path.is_file()]


def _readable(path: Path) -> str | None:
    try:
        found = path.stat()
    except OSError:
        return None
    # A mounted secret belongs to root, and is readable by the group of the container.
    is_ours = found.st_uid == os.geteuid()
    others = found.st_mode & (_OTHERS if is_ours else stat.S_IRWXO | stat.S_IWGRP)
    return f"its mode {stat.S_IMODE(found.st_mode):04o} lets others in" if others else None


def _keys_in_environment(situation: Situation) -> Iterator[Weakness]:
    for name, value in sorted(situation.environment.items()):
        is_key = name == DELIVERY_KEYS_VARIABLE or (
            not _KEY_PATH.search(name) and _is_secret(name, value)
        )
        if value and is_key:
            yield Weakness(
                what=f"the variable {name}",
                detail="is a secret that every tool of the worker, and every program that a tool "
                "starts, can read",
                fix=f"mount it as a file, name the file in {name}_FILE, and unset the variable"
                if name in _FILE_MAY_BE_NAMED
                else "mount it as a file that your program reads, and unset the variable",
            )


def _keys_for_several(situation: Situation) -> Iterator[Weakness]:
    """Find keys that are used for more than one thing: whoever gets one of these gets all."""
    names: dict[str, list[str]] = {}
    for name, value in sorted(situation.environment.items()):
        if name.startswith("OUTLAST_") and name.endswith(("_KEY", "_KEYS", "_SECRET")):
            for key in filter(None, map(str.strip, value.split(","))):
                names.setdefault(key, []).append(name)
    for shared in sorted({tuple(dict.fromkeys(one)) for one in names.values()}):
        if len(shared) > 1:
            yield Weakness(
                what=f"the key of {' and '.join(shared)}",
                detail="is one and the same: whoever has it for one has it for the other",
                fix="make a key of its own for each, such as with `openssl rand -base64 32`",
            )


def _is_secret(name: str, value: str) -> bool:
    return (
        is_secret_name(name)
        or (name.startswith("OUTLAST_") and name.endswith("_KEY"))
        or (name.endswith("_HEADERS") and bool(_SECRET_HEADER.search(value)))
        or name.endswith(("_TOKEN", "_PASSWORD", "_SECRET"))
        or is_secret_text(value)
    )


def _keys_without_scope(situation: Situation) -> Iterator[Weakness]:
    for entry in situation.environment.get(API_KEYS_VARIABLE, "").split(","):
        name = entry.partition("=")[0].strip()
        if name:
            yield Weakness(
                what=f"the API key {name!r:.80}",
                detail=f"is in {API_KEYS_VARIABLE}, and has no scope: it reads every conversation, "
                "and writes to it",
                fix=f"make one with `outlast keys add {name} --may ...`, and take it out of the "
                "variable",
            )
    path = situation.environment.get(FILE_VARIABLE, "").strip()
    if not path:
        return
    from outlast.serve.keys import read_keys

    for key in read_keys(Path(path)):
        if key.scope.is_broad:
            yield Weakness(
                what=f"the API key {key.name!r:.80} in {path}",
                detail="is for the conversations of everybody",
                fix="make it again without --all, or with --tenant or --agent",
            )


def _without_tls(situation: Situation) -> Iterator[Weakness]:
    address = situation.server
    if address is None or is_this_machine(address.rpartition(":")[0].strip("[]")):
        return
    tls = situation.connection.get("tls")
    if not tls and (tls is False or not situation.connection.get("api_key")):
        yield Weakness(
            what=f"the connection to {address}",
            detail="has no TLS: whoever is on the way reads and changes what runs do",
            fix="set TEMPORAL_TLS=true, and TEMPORAL_TLS_CLIENT_CERT_PATH and _KEY_PATH for mTLS",
        )


def _plain_addresses(situation: Situation) -> Iterator[Weakness]:
    """Find addresses outside of this machine to which something goes without TLS."""
    for name, value in sorted(situation.environment.items()):
        if not name.upper().endswith("_PROXY") and _is_plain(value):
            yield _plain(f"the address in {name}", f"give {name} an https:// address")
    if situation.environment.get("AWS_ALLOW_HTTP", "").lower() in {"true", "1"}:
        yield _plain("the bucket, by AWS_ALLOW_HTTP,", "unset AWS_ALLOW_HTTP")
    for agent in situation.agents():
        for server in agent.mcp_servers:
            if _is_plain(getattr(server, "params", {}).get("url")):
                yield _plain(f"the MCP server {server.name!r:.200}", "give it an https:// address")
        for tool in agent.tools:
            if isinstance(tool, HostedMCPTool) and _is_plain(tool.tool_config.get("server_url")):
                yield _plain(f"the tool {tool.name!r:.200}", "give it an https:// server_url")


def _plain(what: str, fix: str) -> Weakness:
    detail = "is used without TLS: whoever is on the way reads and changes what is sent"
    return Weakness(what=what, detail=detail, fix=fix)


def _is_plain(address: object) -> bool:
    try:
        parts = urlsplit(address) if isinstance(address, str) else None
        return (
            parts is not None
            and parts.scheme == "http"
            and bool(parts.hostname)
            and not is_this_machine(parts.hostname or "")
        )
    except ValueError:
        return False


def _traces(situation: Situation) -> Iterator[Weakness]:
    if situation.environment.get(CONTENT_VARIABLE, "").strip().lower() == "true":
        yield Weakness(
            what=f"the variable {CONTENT_VARIABLE}",
            detail="puts messages, arguments and outputs into spans: whoever reads traces reads "
            "conversations",
            fix="unset it, or send traces to where conversations may be",
        )


def _shells(situation: Situation) -> Iterator[Weakness]:
    """Find tools that run a model's commands on the worker, unconfined and without approval."""
    for what, tool in _tools(situation):
        executor: Any = getattr(tool, "executor", None)
        if not isinstance(tool, LocalTool) or executor is None:
            continue
        is_confined = getattr(getattr(executor, "__self__", executor), "is_confined", False)
        if not is_confined and tool.needs_approval is False:
            yield Weakness(
                what=what,
                detail="runs commands of the model with everything that the worker has, and "
                "nobody is asked",
                fix="give it a ConfinedShell, or needs_approval=",
            )


def _hosted_tools(situation: Situation) -> Iterator[Weakness]:
    for what, tool in _tools(situation):
        if isinstance(tool, HostedMCPTool):
            wanted: Any = tool.tool_config.get("require_approval")
            if wanted == "never" or (isinstance(wanted, dict) and "never" in wanted):
                yield Weakness(
                    what=what,
                    detail="lets the provider call tools of a server without a person, also "
                    "those that it adds",
                    fix='set "require_approval": "always", and allowed_tools',
                )


def _tools(situation: Situation) -> Iterator[tuple[str, Any]]:
    """Yield the tools of the worker's agents, each with the words that name it."""
    for agent in situation.agents():
        for tool in agent.tools:
            yield f"agent {agent.name!r:.200}, tool {tool.name!r:.200}", tool


def _without_codec(situation: Situation) -> Iterator[Weakness]:
    codec = _codec(situation)
    for what, place in situation.stores():
        if codec is None and urlsplit(str(place)).scheme and what == "the archive":
            yield Weakness(
                what=f"{what} in {place}",
                detail="keeps histories that are not encrypted, where others run the storage",
                fix=f"set {CODEC_VARIABLE}=outlast.encryption:codec, and give it a file of keys",
            )
    if situation.server is None:
        return  # the embedded server's data are in the data folder
    if codec is None:
        yield Weakness(
            what="the payloads of runs",
            detail="are not encrypted: the server, its database and its backups can be read",
            fix=f"set {CODEC_VARIABLE}=outlast.encryption:codec, and give it a file of keys",
        )
    elif getattr(codec, "accepts_plain", False):
        yield Weakness(
            what="the payload codec",
            detail="also accepts payloads that are not encrypted",
            fix="remove accept_plain when the runs from before have ended",
        )


def _codec(situation: Situation) -> "PayloadCodec | None":
    if codec := (situation.config or {}).get("codec"):
        return codec
    name = situation.environment.get(CODEC_VARIABLE)
    return load_converter(name).payload_codec if name else None


def _notifiers(situation: Situation) -> Iterator[Weakness]:
    for notifier in (situation.config or {}).get("notifiers", ()):
        mails = getattr(notifier, "security", None) == "none"
        if mails and not is_this_machine(str(getattr(notifier, "host", ""))):
            yield Weakness(
                what=f"the notifier {_named(notifier)}",
                detail="sends requests and arguments by mail without encryption",
                fix="set security='starttls' or 'tls'",
            )
        url, what = getattr(notifier, "url", None), f"the notifier {_named(notifier)}"
        if not isinstance(url, str):
            continue
        host = re.sub(r"^\w+://(?:[^/@]*@)?|[:/].*$", "", url)
        if url.lower().startswith("http:") and not is_this_machine(host):
            yield Weakness(
                what=what,
                detail="sends requests and arguments over http, where they can be read",
                fix="give it an https:// address",
            )
        if getattr(notifier, "allow_private", False) and not is_this_machine(host):
            yield Weakness(
                what=what,
                detail="has allow_private=True: its address may lead into your network",
                fix="set allow_private=False, unless the receiver is inside of your network",
            )


def _named(notifier: object) -> str:
    name = getattr(notifier, "name", None)
    return repr(name) if isinstance(name, str) and name else type(notifier).__name__


def _policies(situation: Situation) -> Iterator[Weakness]:
    for point, policy in situation.policies_in_force():
        if any(
            one.risk_of(point.effect) == "high" and one.audience is None
            for one in (policy, *policy.tiers)
        ):
            yield Weakness(
                what=point.title,
                detail="has high risk, and anybody may decide about it",
                fix="set audience= in its ApprovalPolicy",
            )
        # Low risk is not signed by default, which nobody said in so many words.
        if any(one.unverified == "allow" for one in (policy, *policy.tiers)):
            yield Weakness(
                what=point.title,
                detail="counts decisions of people who did not prove who they are",
                fix="leave unverified= out of its ApprovalPolicy, and give clients a key",
            )


def _unproven(situation: Situation) -> Iterator[Weakness]:
    """Yield the policies that need proof which a worker here could not check, or could forge."""
    try:
        keys = keys_from_environment(situation.environment)
    except IdentityKeyError as error:
        yield Weakness(what="the identity key", detail=f"is unusable: {error}", fix="make another")
        return
    proven = [
        point.title
        for point, policy in situation.policies_in_force()
        if not all(one.allows_unverified(point.effect) for one in (policy, *policy.tiers))
    ]
    if proven and not keys and situation.server is not None:
        yield Weakness(
            what=proven[0],
            detail="needs proof of who decides, and the worker has no identity key to check it with",
            fix=f"make keys with `outlast identity new`, and set {PUBLIC_KEYS_VARIABLE} on workers",
        )
    if proven and keys.signing is not None:
        yield Weakness(
            what=proven[0],
            detail="needs proof of who decides, and the worker's own key can sign it",
            fix=f"set {PUBLIC_KEYS_VARIABLE} on workers instead of {KEY_VARIABLE}",
        )


def _unsigned_notes(situation: Situation) -> Iterator[Weakness]:
    if situation.environment.get(UNSIGNED_VARIABLE, "").strip():
        yield Weakness(
            what=f"the variable {UNSIGNED_VARIABLE}",
            detail="lets tools read what anybody with the server has noted in their place",
            fix="unset it as soon as the calls have ended that waited before workers had keys",
        )


def _loosening_tables(situation: Situation) -> Iterator[Weakness]:
    file = situation.policies
    if file is None:
        return
    found: dict[tuple[str, str], None] = {}
    for point in situation.points:
        for change in file.changes(point):
            for text in change.loosened.values():
                found[change.table.title, f"{point.title}: {text}"] = None
    for title, text in found:
        yield Weakness(
            what=f"{title} in {file.source}",
            detail=f"loosens the code's policy of {text}",
            fix="remove what loosens, or change the policy in the code, where it is reviewed",
        )
    for group in sorted(file.loosening):
        yield Weakness(
            what=f"[group.{group}] in {file.source}",
            detail=f"lets {', '.join(file.groups[group])} decide by their names",
            fix="let the identity of each of them name the group, and remove the table",
        )


def _unlisted_tools(situation: Situation) -> Iterator[Weakness]:
    """Find MCP servers of which some tools need an approval, and those that it adds need none."""
    from outlast.agents.mcp.approval import ApprovalByName

    found: dict[str, None] = {}
    for agent in situation.agents():
        for server in agent.mcp_servers:
            rule = server.approval
            if isinstance(rule, ApprovalByName) and any(rule.named.values()) and not rule.unlisted:
                found[server.name] = None
    for server in found:
        yield Weakness(
            what=f"the MCP server {server!r:.200}",
            detail="runs tools that it adds or renames without a person, since require_approval names "
            "its tools one by one",
            fix="give a tool an ApprovalPolicy, which then asks about unlisted tools, too, or set "
            "require_approval=True",
        )


_PASSWORD: Final = re.compile(
    r"PASSWORD|PASSWD|PWD\b|SECRET|_PASS\b|^PGPASS|API_KEYS?$|_TOKEN$"
    r"|^OUTLAST_(?:IDENTITY|DESK|CONVERSATION|DELIVERY)_KEYS?$"
)
_REFERENCE: Final = re.compile(r"\$\{(?P<name>\w+)(?::?-(?P<default>[^}]*)|[^}]*)\}")


def _compose_content(situation: Situation) -> Any:
    if situation.compose is None:
        return {}
    import yaml

    text = situation.compose.read_text(encoding="utf-8", errors="replace")
    try:
        # It makes nothing but dicts, lists and texts, and no number of minutes of `22:22`.
        return yaml.load(text, Loader=yaml.BaseLoader) or {}  # noqa: S506
    except yaml.YAMLError as error:
        raise UserError(f"{situation.compose} is not valid YAML: {error}") from None


def _compose_ports(situation: Situation) -> Iterator[Weakness]:
    services: dict[str, Any] = _compose_content(situation).get("services") or {}
    for name, service in services.items():
        ports: list[Any] = service.get("ports") or [] if service else []
        for published in filter(None, map(_published_everywhere, ports)):
            yield Weakness(
                what=f"port {published} of {name} in {situation.compose}",
                detail="is published on all addresses of the machine, past its firewall",
                fix=f'write "127.0.0.1:{published}:..." (host_ip: 127.0.0.1 in the long form)',
            )


def _published_everywhere(entry: Any) -> str | None:
    """Return a port that an entry publishes on all addresses; None if it does not."""
    if isinstance(entry, dict):
        fields = cast("dict[str, str]", entry)
        address, published = fields.get("host_ip", ""), fields.get("published")
    else:
        written = _REFERENCE.sub(lambda one: one["default"] or "", str(entry))
        host, _, ports = re.sub(r"/\w+$", "", written).rpartition(":")
        if not host:
            return f"{ports}, which gets a port of the machine,"
        address, _, published = host.rpartition(":")
    return None if is_this_machine(address.strip("[]")) else published


def _compose_passwords(situation: Situation) -> Iterator[Weakness]:
    for name, value in _variables(_compose_content(situation)):
        default = _REFERENCE.fullmatch(value)
        if default is None and value and "$" not in value:
            how = "is written in the file"
        elif default is not None and default["default"]:
            how = "has a default that everybody knows"
        else:
            continue
        yield Weakness(
            what=f"{name} in {situation.compose}",
            detail=how,
            fix=f"write ${{{default['name'] if default else name}:?}}, and set it outside of the "
            "file",
        )


def _compose_commands(situation: Situation) -> Iterator[Weakness]:
    """Find services that let everybody decide, or that have a server for development."""
    services: dict[str, Any] = _compose_content(situation).get("services") or {}
    for name, service in services.items():
        words = _words_of(service)
        where = f"{name} in {situation.compose}"
        for role in _roles(words):
            group, _, rights = role.partition("=")
            if group == EVERYBODY and re.search(r"\b(?:decider|operator)\b", rights):
                yield Weakness(
                    what=f"--role {role!r:.80} of {where}",
                    detail="lets everybody who can log in do more than watch",
                    fix="name the groups that decide and operate",
                )
        if {"outlast", "dev"} <= {one.rpartition("/")[2] for one in words[:4]}:
            yield Weakness(
                what=f"`outlast dev` of {where}",
                detail="has a server without a password, for one person's machine",
                fix="use a Temporal server, `outlast worker` and `outlast serve`",
            )


def _words_of(service: Any) -> list[str]:
    """Return the words of a service's command."""
    words: list[str] = []
    fields = cast("dict[str, Any]", service) if isinstance(service, dict) else {}
    for part in ("entrypoint", "command"):
        given: Any = fields.get(part)
        if isinstance(given, str):
            try:
                words += shlex.split(given)
            except ValueError:
                continue
        elif isinstance(given, list):
            words += map(str, cast("list[Any]", given))
    return words


def _roles(words: list[str]) -> Iterator[str]:
    for at, word in enumerate(words):
        option, equals, value = word.partition("=")
        if option == "--role":
            yield value if equals else "".join(words[at + 1 : at + 2])


def _variables(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the passwords below a value, written as `NAME: text` or as `- NAME=text`."""
    is_named = isinstance(value, dict)
    inner = cast("dict[str, Any]", value).items() if is_named else (("", one) for one in value)
    for key, one in inner:
        if not isinstance(one, str):
            yield from _variables(one)
            continue
        name, _, text = (key, "", one) if is_named else one.partition("=")
        if name.isupper() and _PASSWORD.search(name):
            yield name, text


@dataclass(frozen=True, slots=True)
class Check:
    """One row: something that is checked."""

    name: str
    fine: str
    find: Callable[[Situation], Iterable[Weakness]]
    _: KW_ONLY
    needs_target: bool = False


CHECKS: Final = (
    Check("open-files", "others read neither data nor key files", _open_files),
    Check("environment", "no keys in the environment", _keys_in_environment),
    Check("own-keys", "each key is for one thing", _keys_for_several),
    Check(
        "api-keys",
        "each API key is for its own conversations, or for some tenants or agents",
        _keys_without_scope,
    ),
    Check("tls", "no connection without TLS leaves this machine", _without_tls),
    Check("addresses", "no address outside of this machine is used without TLS", _plain_addresses),
    Check("traces", "spans have no content", _traces),
    Check("codec", "payloads are encrypted, or stay here", _without_codec),
    Check(
        "notifiers",
        "notices are encrypted and stay outside of your network",
        _notifiers,
        needs_target=True,
    ),
    Check(
        "policies",
        "high risk has an audience, and people prove who they are",
        _policies,
        needs_target=True,
    ),
    Check(
        "identity",
        "the worker checks who decides, and cannot sign itself",
        _unproven,
        needs_target=True,
    ),
    Check("notes", "notes without a proof are not taken where there are keys", _unsigned_notes),
    Check(
        "loosening",
        "no table of the operators loosens the code's policies",
        _loosening_tables,
        needs_target=True,
    ),
    Check(
        "mcp-tools",
        "no MCP server adds a tool that runs without a person, where others need one",
        _unlisted_tools,
        needs_target=True,
    ),
    Check(
        "hosted-tools",
        "no provider calls tools of an MCP server without a person",
        _hosted_tools,
        needs_target=True,
    ),
    Check(
        "shells",
        "commands of models are confined, or approved by people",
        _shells,
        needs_target=True,
    ),
    Check("ports", "compose publishes ports on this machine only", _compose_ports),
    Check("passwords", "compose has no known passwords", _compose_passwords),
    Check("commands", "compose lets nobody decide just because they can log in", _compose_commands),
)
"""Every check of `outlast doctor --security`. A new one is a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of one check for one thing."""

    level: str
    check: str
    what: str = ""
    detail: str
    fix: str = ""

    @property
    def title(self) -> str:
        """What was checked, for people."""
        return self.check

    @property
    def sentence(self) -> str:
        """What was found, for people."""
        found = f"{self.what} {self.detail}" if self.what else self.detail
        return f"{found}: {self.fix}" if self.fix else found


def examine(situation: Situation, checks: Iterable[Check] = CHECKS) -> list[Verdict]:
    """Make every check; one that cannot be made is `unknown`, and never fine."""
    verdicts: list[Verdict] = []
    for check in checks:
        made = partial(Verdict, check=check.name)
        if check.needs_target and situation.config is None:
            fix = "add the target that your worker runs"
            verdicts.append(made(level="unknown", detail="not checked", fix=fix))
            continue
        try:
            found = list(check.find(situation))
        except (UserError, OSError) as error:
            verdicts.append(made(level="unknown", detail=f"could not be checked: {error}"))
            continue
        verdicts += [made(level="weak", **asdict(one)) for one in found] or [
            made(level="ok", detail=check.fine)
        ]
    return verdicts
