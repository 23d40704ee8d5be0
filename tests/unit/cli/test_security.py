"""`outlast doctor --security`: a sound installation is fine, and each planted weakness is found."""

import base64
import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outlast import Agent, ApprovalPolicy, Audience, HostedMCPTool, function_tool
from outlast.cli.security import CHECKS, Check, Situation, Verdict, Weakness, examine
from outlast.contract.identity import new_key_pair
from outlast.encryption import EncryptionCodec
from outlast.extensions.machine.confined_shell import ConfinedShell
from outlast.extensions.machine.shell import LocalShellTool, ShellTool
from outlast.mcp import MCPServerStdio, MCPServerStreamableHttp
from outlast.notifications import MailNotifier, Recipient, Webhook
from outlast.serve.keys import ApiKey, write_keys
from tests.unit.cli.conftest import Invoke

SECRET = "a-secret-of-the-receiver"
KEYS = {"k": os.urandom(32)}
SOUND_COMPOSE = """\
services:
  db:
    environment:
      POSTGRES_PASSWORD: ${POSTGRES_PASSWORD:?}
      PGDATA: /data  # PASSWORD: here
  ui:
    ports:
      - "127.0.0.1:8080:8080"
      - target: 80
        host_ip: 127.0.0.1
        published: "8081"
      - "[::1]:8082:8082"
      - "${BIND:-127.0.0.1}:8083:8083"
  other:
    ports: ["127.0.0.1:8084:8084"]
"""


def desk(policy: ApprovalPolicy) -> Agent[Any]:
    @function_tool(needs_approval=policy, effect="irreversible")
    async def refund(euros: int) -> str:
        return "paid"

    return Agent(name="Desk", tools=[refund])


PRIVATE_KEY, PUBLIC_KEY = new_key_pair()
SOUND_POLICY = ApprovalPolicy(risk="high", audience=Audience(groups=["billing"]), quorum=2)


@pytest.fixture
def sound(tmp_path: Path) -> Situation:
    """Return an installation without a weakness."""
    data_dir = tmp_path / "data"
    data_dir.mkdir(mode=0o700)
    (tmp_path / "docker-compose.yml").write_text(SOUND_COMPOSE)
    (tmp_path / ".env").touch(mode=0o600)
    sessions = tmp_path / "sessions.db"
    sessions.touch(mode=0o600)
    approvals = tmp_path / "approvals.toml"
    approvals.write_text("[tool.refund]\nquorum = 3\n")
    return Situation(
        environment={
            "PATH": "/bin",
            "TEMPORAL_ADDRESS": "temporal.example.com:7233",
            "OUTLAST_IDENTITY_PUBLIC_KEYS": PUBLIC_KEY,
        },
        folder=tmp_path,
        data_dir=data_dir,
        connection={"target_host": "temporal.example.com:7233", "tls": True},
        config={
            "agents": [desk(SOUND_POLICY)],
            "codec": EncryptionCodec(KEYS, "k"),
            "notifiers": [Webhook("https://example.com/hook", SECRET, allow_private=False)],
            "sessions": [sessions],
        },
        approvals=approvals,
    )


def config(**changes: Any) -> Callable[[Situation], Situation]:
    return lambda sound: replace(sound, config={**(sound.config or {}), **changes})


def policy(**changes: Any) -> Callable[[Situation], Situation]:
    return config(agents=[desk(replace(SOUND_POLICY, **changes))])


def serving(require_approval: Any) -> Callable[[Situation], Situation]:
    def change(sound: Situation) -> Situation:
        server = MCPServerStdio({"command": "bank"}, name="bank", require_approval=require_approval)
        agent = desk(SOUND_POLICY).clone(mcp_servers=[server])
        return replace(sound, config={**(sound.config or {}), "agents": [agent]})

    return change


def environment(**variables: str) -> Callable[[Situation], Situation]:
    return lambda sound: replace(sound, environment={**sound.environment, **variables})


def mode(name: str, bits: int) -> Callable[[Situation], Situation]:
    def change(sound: Situation) -> Situation:
        path = sound.folder / name
        path.touch()
        path.chmod(bits)
        return sound

    return change


def connection(**changes: Any) -> Callable[[Situation], Situation]:
    return lambda sound: replace(sound, connection={**sound.connection, **changes})


def compose(before: str, after: str) -> Callable[[Situation], Situation]:
    def change(sound: Situation) -> Situation:
        assert before in SOUND_COMPOSE
        (sound.folder / "docker-compose.yml").write_text(SOUND_COMPOSE.replace(before, after))
        return sound

    return change


def table(text: str) -> Callable[[Situation], Situation]:
    def change(sound: Situation) -> Situation:
        assert sound.approvals is not None
        sound.approvals.write_text(text)
        return sound

    return change


def key_path(sound: Situation) -> Situation:
    path = sound.folder / "client"
    path.touch(mode=0o600)
    path.chmod(0o644)
    return environment(TEMPORAL_TLS_CLIENT_KEY_PATH=str(path))(sound)


def signing_worker(sound: Situation) -> Situation:
    """A worker whose key is in a file, so that only what it can do is wrong."""
    return environment(OUTLAST_IDENTITY_KEY=PRIVATE_KEY)(sound)


def broad_key(sound: Situation) -> Situation:
    path = sound.folder / "api.json"
    narrow = ApiKey(name="own", digest="0" * 64, actions=("view_run",))
    broad = narrow.model_copy(update={"name": "all", "conversations": "all"})
    of_acme = broad.model_copy(update={"name": "acme", "tenants": ("acme",)})
    write_keys(path, [narrow, broad, of_acme])
    return environment(OUTLAST_API_KEYS_FILE=str(path))(sound)


def mail(**options: Any) -> MailNotifier:
    to = [Recipient(subject="ann", address="ann@example.com")]
    return MailNotifier("smtp.example.com", sender="desk@example.com", to=to, **options)


def webhook(url: str, **options: Any) -> Callable[[Situation], Situation]:
    return config(notifiers=[Webhook(url, SECRET, name="ops", **options)])


def opened(variable: str, bits: int) -> Callable[[Situation], Situation]:
    """A directory of conversations that a variable names, with a mode."""

    def change(sound: Situation) -> Situation:
        place = sound.folder / "kept"
        place.mkdir()
        place.chmod(bits)
        return environment(**{variable: str(place)})(sound)

    return change


def sessions_of_a_variable(sound: Situation) -> Situation:
    return environment(OUTLAST_SESSIONS=str(sound.folder / "old.db"))(mode("old.db", 0o644)(sound))


def operators_of_a_variable(sound: Situation) -> Situation:
    loose = table("[tool.refund]\nquorum = 1\nloosens = true\n")(sound)
    return replace(environment(OUTLAST_APPROVALS=str(loose.approvals))(loose), approvals=None)


def archive_in_a_bucket(sound: Situation) -> Situation:
    bare = config(codec=None, archive="s3://bucket/archive")(sound)
    return replace(bare, connection={})


def having(*tools: Any, **options: Any) -> Callable[[Situation], Situation]:
    agent = desk(SOUND_POLICY)
    return config(agents=[agent.clone(tools=[*agent.tools, *tools], **options)])


def hosted(**settings: Any) -> Callable[[Situation], Situation]:
    place = {"server_url": "https://bank.example.com", "require_approval": "always"}
    given: Any = {"type": "mcp", "server_label": "bank", **place, **settings}
    return having(HostedMCPTool(given))


def bank_at(url: str) -> Callable[[Situation], Situation]:
    server = MCPServerStreamableHttp({"url": url}, name="bank", require_approval=True)
    return having(mcp_servers=[server])


def command(text: str) -> Callable[[Situation], Situation]:
    ports = '    ports: ["127.0.0.1:8084:8084"]\n'
    return compose(ports, f"{ports}    command: {text}\n")


PLANTED: list[tuple[str, Callable[[Situation], Situation], str]] = [
    ("open-files", mode("data", 0o755), r"the data folder \S+/data holds runs.*mode 0755"),
    ("open-files", mode("data", 0o770), r"the data folder .*mode 0770"),
    ("open-files", mode(".env", 0o644), r"the file \S+/\.env .*mode 0644.*chmod 600"),
    ("open-files", mode(".env.production", 0o640), r"the file \S+/\.env\.production"),
    ("open-files", mode("server.pem", 0o604), r"the file \S+/server\.pem"),
    ("open-files", mode("keys.toml", 0o644), r"the file \S+/keys\.toml"),
    ("open-files", mode("sessions.db", 0o644), r"the sessions in \S+/sessions\.db"),
    ("open-files", key_path, r"the file \S+/client .*mode 0644"),
    ("open-files", opened("OUTLAST_ARCHIVE", 0o755), r"the archive in \S+/kept holds.*mode 0755"),
    ("open-files", opened("OUTLAST_BLOB_STORE", 0o707), r"the blob store in \S+/kept .*mode 0707"),
    ("open-files", sessions_of_a_variable, r"the sessions in \S+/old\.db"),
    ("open-files", mode("approvals.toml", 0o646), r"the policies in .*0646 lets others write them"),
    *(
        ("environment", environment(**{name: "x"}), f"the variable {name} is a secret")
        for name in (
            "OUTLAST_DESK_KEY", "OUTLAST_CONVERSATION_KEY", "OUTLAST_DELIVERY_KEYS",
            "OPENAI_API_KEY", "TEMPORAL_API_KEY", "AWS_SECRET_ACCESS_KEY", "OUTLAST_IDENTITY_KEY",
            "DATABASE_PASSWORD", "SLACK_BOT_TOKEN", "GITHUB_TOKEN",
        )
    ),
    (
        "environment",
        environment(DATABASE_URL="postgresql://shop:hunter2@db/shop"),
        "the variable DATABASE_URL is a secret",
    ),
    (
        "notes",
        environment(OUTLAST_UNSIGNED_NOTES="accept"),
        r"the variable OUTLAST_UNSIGNED_NOTES.*unset it",
    ),
    (
        "environment",
        environment(OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer x"),
        "the variable OTEL_EXPORTER_OTLP_HEADERS is a secret",
    ),
    (
        "own-keys",
        environment(OUTLAST_DESK_KEY="k", OUTLAST_CONVERSATION_KEY="j,k"),
        "the key of OUTLAST_CONVERSATION_KEY and OUTLAST_DESK_KEY is one and the same",
    ),
    *(
        ("addresses", environment(**{name: f"http://{name}.example.com/x"}), f"address in {name} is")
        for name in (
            "OUTLAST_DELIVERY_URL", "OUTLAST_DESK_URL", "OUTLAST_OIDC_ISSUER", "OPENAI_BASE_URL",
            "OTEL_EXPORTER_OTLP_ENDPOINT", "AWS_ENDPOINT_URL",
        )
    ),
    ("addresses", environment(AWS_ALLOW_HTTP="true"), "the bucket, by AWS_ALLOW_HTTP, is used with"),
    ("addresses", bank_at("http://bank.example.com/mcp"), "the MCP server 'bank' is used without"),
    ("addresses", hosted(server_url="http://bank.example.com"), "'hosted_mcp_bank' is used without"),
    (
        "traces",
        environment(OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT="True"),
        "puts messages, arguments and outputs into spans",
    ),
    ("codec", archive_in_a_bucket, "the archive in s3://bucket/archive keeps .*not encrypted"),
    ("hosted-tools", hosted(require_approval="never"), "'hosted_mcp_bank' lets the provider call"),
    (
        "hosted-tools",
        hosted(require_approval={"never": {"tool_names": ["find"]}}),
        "'hosted_mcp_bank' lets the provider call",
    ),
    ("shells", having(ShellTool(lambda _: "")), "'Desk', tool 'shell' runs commands of the model"),
    ("shells", having(LocalShellTool(lambda _: "")), "'local_shell' runs commands of the model"),
    (
        "notifiers",
        config(notifiers=[mail(security="none")]),
        "the notifier 'mail' sends requests and arguments by mail without encryption",
    ),
    ("loosening", operators_of_a_variable, r"\[tool\.refund\] in"),
    (
        "identity",
        environment(OUTLAST_IDENTITY_PUBLIC_KEYS=f"ed25519:{'A' * 43}="),
        "the identity key is unusable: .* is a placeholder, for which anybody could sign",
    ),
    (
        "identity",
        environment(OUTLAST_IDENTITY_KEY=PUBLIC_KEY),
        "the identity key is unusable: .* have the same key",
    ),
    (
        "commands",
        command("outlast serve --host 0.0.0.0 --role '*=viewer,decider'"),
        r"--role '\*=viewer,decider' of other .* lets everybody who can log in do more than watch",
    ),
    ("commands", command('["/bin/outlast", "serve", "--role=*=operator"]'), r"--role '\*=operator'"),
    ("commands", command("outlast dev desk.py"), "`outlast dev` of other .* without a password"),
    ("passwords", compose("PGDATA: /data", "OUTLAST_API_KEYS: crm=x"), "OUTLAST_API_KEYS .*written"),
    ("passwords", compose("PGDATA: /data", "OUTLAST_DESK_KEY: x"), "OUTLAST_DESK_KEY .*written"),
    (
        "api-keys",
        environment(OUTLAST_API_KEYS="crm=abc, shop=def"),
        r"the API key 'crm' is in OUTLAST_API_KEYS.*outlast keys add crm",
    ),
    ("api-keys", broad_key, r"the API key 'all' in \S+/api.json is for the conversations of every"),
    ("tls", connection(tls=None), r"temporal\.example\.com:7233 has no TLS"),
    ("tls", connection(tls=False, api_key="k"), "has no TLS"),
    ("codec", config(codec=None), "payloads of runs are not encrypted"),
    (
        "codec",
        config(codec=EncryptionCodec(KEYS, "k", accept_plain=True)),
        "also accepts payloads that are not encrypted",
    ),
    ("notifiers", webhook("http://example.com/hook", allow_private=False), "'ops' .*over http"),
    ("notifiers", webhook("https://example.com/hook"), "'ops' has allow_private=True"),
    ("policies", policy(audience=None), "'refund' has high risk, and anybody may decide"),
    (
        "policies",
        table('[[tool.refund.tiers]]\nwhen = "euros > 5"\nunverified = "allow"\n[tool.refund]\nloosens = true\n'),
        "'refund' counts decisions of people who did not prove",
    ),
    ("policies", policy(unverified="allow"), "'refund' counts decisions of people who did not prove"),
    (
        "policies",
        table('[tool.refund]\nrisk = "low"\nunverified = "allow"\nloosens = true\n'),
        "'refund' counts decisions",
    ),
    (
        "identity",
        environment(OUTLAST_IDENTITY_PUBLIC_KEYS=""),
        "'refund' .*no identity key to check it with.*OUTLAST_IDENTITY_PUBLIC_KEYS",
    ),
    ("identity", signing_worker, "'refund' .*the worker's own key can sign it"),
    ("identity", environment(OUTLAST_IDENTITY_PUBLIC_KEYS="x"), "the identity key is unusable"),
    ("loosening", table("[tool.refund]\nquorum = 1\nloosens = true\n"), r"\[tool\.refund\] in"),
    ("loosening", table("[tool.refund]\nneeds_approval = false\nloosens = true\n"), "nobody is asked"),
    ("ports", compose('"127.0.0.1:8080:8080"', '"8080:8080"'), "port 8080 of ui in"),
    ("ports", compose('"127.0.0.1:8080:8080"', "0.0.0.0:8080:8080"), "port 8080"),
    ("ports", compose('"127.0.0.1:8080:8080"', '"192.168.1.2:8080:8080/tcp"'), "port 8080"),
    ("ports", compose('"127.0.0.1:8080:8080"', '"8080"'), "port 8080, which gets"),
    ("ports", compose('"127.0.0.1:8080:8080"', '"9000-9005:9000-9005"'), "port 9000-9005"),
    ("ports", compose('"[::1]:8082:8082"', '"[::]:8082:8082"'), "port 8082"),
    ("ports", compose("        host_ip: 127.0.0.1\n", ""), "port 8081"),
    ("ports", compose("host_ip: 127.0.0.1", "host_ip: 0.0.0.0"), "port 8081"),
    ("ports", compose("${BIND:-127.0.0.1}", "${BIND:-0.0.0.0}"), "port 8083"),
    ("loosening", table("[group.billing]\nsubjects = ['ann']\nloosens = true\n"), "lets ann decide"),
    ("mcp-tools", serving({"transfer": "always"}), "'bank' .*adds or renames"),
    ("mcp-tools", serving({"always": {"tool_names": ["transfer"]}}), "'bank' .*adds or renames"),
    ("ports", compose('["127.0.0.1:8084', '["8084'), "port 8084"),
    ("passwords", compose("${POSTGRES_PASSWORD:?}", "temporal"), "POSTGRES_PASSWORD .*written"),
    ("passwords", compose("${POSTGRES_PASSWORD:?}", "${P:-temporal}"), r"default.*\$\{P:\?\}"),
    (
        "passwords",
        compose(
            "POSTGRES_PASSWORD: ${POSTGRES_PASSWORD:?}\n      PGDATA: /data",
            '- "POSTGRES_PWD=temporal"',
        ),
        "POSTGRES_PWD .*written",
    ),
]  # fmt: skip


def test_a_sound_installation_is_fine(sound: Situation) -> None:
    verdicts = examine(sound)
    assert [(one.check, one.level, one.detail) for one in verdicts] == [
        (check.name, "ok", check.fine) for check in CHECKS
    ]


@pytest.mark.parametrize(
    ("check", "plant", "says"), PLANTED, ids=[f"{one[0]}-{at}" for at, one in enumerate(PLANTED)]
)
def test_a_planted_weakness_is_found(
    sound: Situation, check: str, plant: Callable[[Situation], Situation], says: str
) -> None:
    weak = [one for one in examine(plant(sound)) if one.level != "ok"]
    assert weak
    found = [one for one in weak if re.search(says, f"{one.what} {one.detail}: {one.fix}")]
    assert len(found) == 1, weak
    assert (found[0].level, found[0].check) == ("weak", check)
    assert found[0].fix


def test_every_check_has_a_planted_weakness_and_a_place_in_the_guide() -> None:
    names = [check.name for check in CHECKS]
    assert {check for check, *_ in PLANTED} == set(names)
    guide = Path(__file__).parents[3] / "docs" / "how-to" / "hardening.md"
    assert re.findall(r"^\| `([a-z-]+)` \|", guide.read_text(), re.MULTILINE) == names


NOTHING = "nothing in a configuration says it"
ROWS: dict[str, tuple[str, ...] | str] = {
    "a customer": "ids are as long as the program that starts runs makes them",
    "a model, or whoever steers it": ("shells", "policies", "hosted-tools"),
    "an MCP server": ("mcp-tools", "hosted-tools", "addresses"),
    "an agent of somebody else that a tool asks": "its address is in the code of the tool",
    "an agent of somebody else with an API key": ("api-keys",),
    "a partner, or whoever has the API key of one": ("api-keys", "open-files", "passwords"),
    "a colleague who may see the runs of another tenant, agent or team": ("commands",),
    "whoever sends a body: a front end, a webhook, a server that answers, a file": NOTHING,
    "whoever reaches the desk, and is slow on purpose": NOTHING,
    "whoever writes a file that a colleague opens": NOTHING,
    "a customer whose id somebody else has later": NOTHING,
    "another tenant": NOTHING,
    "another tenant whose runs share a process": NOTHING,
    "a page of another site, or somebody with a copied cookie": ("environment", "own-keys"),
    "a page of another site that shows the desk in a frame, opens it in a window, or links to what"
    " a customer sent": NOTHING,
    "somebody with the Temporal server or its UI": ("policies", "identity", "ports", "tls"),
    "somebody with the database of the server": ("codec", "passwords"),
    "somebody with the bucket of the archive or of large content": ("codec", "addresses"),
    "somebody who may also write there, or restores a backup": ("open-files",),
    "a system with the address of a wait or webhook": ("addresses", "environment"),
    "whoever reads traces and metrics": ("traces", "addresses"),
    "whoever reads gauges of `outlast monitor`": NOTHING,
    "whoever reads logs": NOTHING,
    "whoever makes a fork": NOTHING,
    "a colleague who may decide something else": ("policies", "loosening", "open-files"),
    "who has an identity key that is being replaced, or knows a public one": ("identity",),
    "another user of the machine": ("open-files",),
    "a Slack user of another workspace, or who has kept a signed request of Slack": (
        "environment",
    ),
    "who has an old mail or button": ("notifiers",),
    "who observes": NOTHING,
}
"""What doctor finds of what each actor needs, or why it cannot find anything."""


def test_each_actor_of_the_threat_model_has_checks_or_a_reason() -> None:
    text = (Path(__file__).parents[3] / "docs" / "concepts" / "threat-model.md").read_text()
    actors = re.findall(r"^\| (?!actor|--)([^|]+) \|", text, re.MULTILINE)
    assert [re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", one) for one in actors] == [*ROWS]
    planted = {check for check, *_ in PLANTED}
    for checks in ROWS.values():
        assert isinstance(checks, str) or set(checks) <= planted


FINE: list[Callable[[Situation], Situation]] = [
    environment(HTTP_PROXY="http://proxy.example.com:3128"),
    environment(OPENAI_BASE_URL="http://127.0.0.1:11434/v1"),
    environment(OPENAI_BASE_URL="http://[::1"),
    environment(OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT="false"),
    environment(OTEL_EXPORTER_OTLP_HEADERS="x-team=shop"),
    environment(OUTLAST_ARCHIVE="s3://bucket/archive"),
    opened("OUTLAST_ARCHIVE", 0o700),
    hosted(),
    bank_at("http://localhost:8000/mcp"),
    having(ShellTool(lambda _: "", needs_approval=SOUND_POLICY)),
    having(ShellTool(ConfinedShell("/tmp", ["ls"]))),
    config(notifiers=[mail(security="tls")]),
    command("outlast serve --role '*=viewer' --role support=decider"),
    command("outlast worker desk.py"),
    command('"outlast serve \'"'),
]


@pytest.mark.parametrize("change", FINE, ids=map(str, range(len(FINE))))
def test_what_is_sound_is_no_weakness(
    sound: Situation, change: Callable[[Situation], Situation]
) -> None:
    assert [one for one in examine(change(sound)) if one.level != "ok"] == []


def test_secrets_themselves_are_not_shown(sound: Situation) -> None:
    planted = environment(OPENAI_API_KEY="sk-very-secret")(sound)
    planted = compose("${POSTGRES_PASSWORD:?}", "hunter2")(planted)
    shown = repr(examine(planted))
    assert "sk-very-secret" not in shown
    assert "hunter2" not in shown


@pytest.mark.parametrize(
    "server", [{}, {"target_host": "localhost:7233"}, {"target_host": "[::1]:7"}]
)
def test_this_machine_needs_no_tls(sound: Situation, server: dict[str, str]) -> None:
    verdicts = examine(replace(sound, connection=server))
    assert all(one.level == "ok" for one in verdicts)


def test_an_api_key_brings_tls_and_an_embedded_server_needs_no_codec(sound: Situation) -> None:
    keyed = connection(tls=None, api_key="k")(sound)
    assert all(one.level == "ok" for one in examine(keyed))
    embedded = replace(config(codec=None)(sound), connection={})
    assert all(one.level == "ok" for one in examine(embedded))


def test_a_mounted_secret_is_no_weakness(sound: Situation) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    mode("keys.toml", 0o440)(sound)
    os.chown(sound.folder / "keys.toml", 12345, 12345)
    assert all(one.level == "ok" for one in examine(sound))


@pytest.mark.parametrize(
    "setting", [None, True, {"find": "never"}, {"transfer": SOUND_POLICY, "find": "never"}]
)
def test_a_server_whose_tools_all_ask_or_of_which_none_does_is_fine(
    sound: Situation, setting: Any
) -> None:
    assert all(one.level == "ok" for one in examine(serving(setting)(sound)))


def test_what_cannot_be_checked_is_never_fine(sound: Situation) -> None:
    levels = {one.check: one.level for one in examine(replace(sound, config=None))}
    assert {name for name, level in levels.items() if level == "unknown"} == {
        check.name for check in CHECKS if check.needs_target
    }
    broken = table("[tool.refund")(sound)
    assert {one.check for one in examine(broken) if one.level == "unknown"} == {
        "policies",
        "identity",
        "loosening",
    }


def test_a_check_is_a_row(sound: Situation) -> None:
    def find(_: Situation) -> list[Weakness]:
        return [Weakness(what="the key", detail="is old", fix="rotate it")]

    assert examine(sound, [Check(name="age", fine="new", find=find)]) == [
        Verdict(level="weak", check="age", what="the key", detail="is old", fix="rotate it")
    ]


TARGET = """\
from outlast import Agent, ApprovalPolicy, function_tool

@function_tool(needs_approval=ApprovalPolicy(risk="high"))
async def refund(euros: int) -> str:
    return "paid"

agents = [Agent(name="Desk", tools=[refund])]
"""


async def test_the_command_finds_them_where_the_worker_runs(
    cli: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if re.search("KEY|TOKEN|SECRET|PASS", name)]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OUTLAST_DATA_DIR", str(tmp_path / "data"))
    (tmp_path / "data").mkdir(mode=0o755)
    (tmp_path / "data").chmod(0o755)
    (tmp_path / "target_of_security.py").write_text(TARGET)
    keys = tmp_path / "keys.toml"
    keys.touch(mode=0o600)
    keys.write_text(f'current = "k"\n[keys]\nk = "{base64.b64encode(KEYS["k"]).decode()}"\n')
    monkeypatch.setenv("OUTLAST_ENCRYPTION_KEYS", str(keys))
    monkeypatch.setenv("OUTLAST_CODEC", "outlast.encryption:codec")
    command = ("doctor", "--security", "target_of_security.py", "--address", "10.1.2.3:7233")
    done = await cli(*command, "--json")
    assert done.exit_code == 1
    weak = {one["check"] for one in json.loads(done.stdout) if one["level"] == "weak"}
    assert weak == {"open-files", "tls", "policies", "identity"}
    shown = await cli(*command)
    assert shown.exit_code == 1
    assert re.search(r"weak +policies +agent 'Desk', tool 'refund' has high risk", shown.stdout)

    (tmp_path / "data").chmod(0o700)
    done = await cli("doctor", "--security", "--address", "127.0.0.1:7233")
    assert done.exit_code == 0
    assert re.search(r"unknown +policies +not checked: add the target", done.stdout)


async def test_a_target_for_the_check_of_a_worker_is_a_mistake(cli: Invoke) -> None:
    done = await cli("doctor", "desk.py", "--worker")
    assert done.exit_code == 2
    assert "`outlast doctor --worker` takes no target" in done.stderr
