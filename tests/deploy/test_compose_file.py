"""What the compose file promises, without running it: its form, who reaches whom, and who has which key."""

import json
import re
from typing import Any

import pytest
import yaml

from outlast.agents.hosts import is_this_machine
from outlast.cli.supervisor import DEFAULT_GRACE_SECONDS
from outlast.serve.http_server import SHUTDOWN_SECONDS
from tests.deploy.checks import parse, problems
from tests.deploy.containers import COMPOSE, compose_file, filled, seconds_of

FILE = yaml.safe_load(filled(COMPOSE.read_text(encoding="utf-8"), {}))
SERVICES: dict[str, Any] = FILE["services"]
ROLES = {name: one for name, one in SERVICES.items() if one.get("image") == "outlast-desk"}


def mounted(name: str) -> dict[str, str]:
    """Return the volumes of a service with their modes."""
    parts = [str(one).split(":") for one in SERVICES[name].get("volumes", ())]
    return {source: (mode or ["rw"])[0] for source, _, *mode in parts}


def reachable(name: str) -> set[str]:
    """Return the services that a program in a container can open a connection to."""

    def networks(one: str) -> set[str]:
        mode = SERVICES[one].get("network_mode", "")
        if mode.startswith("service:"):  # it has the address of another
            return networks(mode.removeprefix("service:"))
        return set() if mode == "none" else set(SERVICES[one]["networks"])

    return {one for one in SERVICES if one != name and networks(one) & networks(name)}


@pytest.mark.installed
def test_it_has_the_form_of_a_compose_file() -> None:
    schemas = pytest.importorskip("check_jsonschema.builtin_schemas", reason="`make deploy`")
    from jsonschema import Draft7Validator

    schema = schemas.get_builtin_schema("vendor.compose-spec")
    assert problems(Draft7Validator(schema), compose_file()) == []


def test_a_worker_reaches_neither_the_desk_nor_the_login_nor_the_database() -> None:
    """Its tools run what a model chose, and at the provider anybody may be anybody."""
    others = {"archiver", "cli", "collector", "search"}
    assert reachable("worker") == {"temporal", "scripted-model", *others}
    assert reachable("desk") == {"temporal", "login", "desk-behind-proxy", "proxy"}
    assert reachable("postgres") == {"schema", "temporal"}
    assert reachable("prometheus") == {"monitor", "namespace", "temporal", "ui"}
    assert reachable("keys") == set()


def test_whatever_is_published_is_on_the_loopback_address() -> None:
    published = [str(port) for one in SERVICES.values() for port in one.get("ports", ())]
    hosts = {port.rpartition(":")[0].rpartition(":")[0] for port in published}
    assert hosts == {"127.0.0.1"}
    assert all(map(is_this_machine, hosts))


def test_only_the_desk_behind_a_proxy_believes_headers_and_nobody_else_reaches_it() -> None:
    behind = SERVICES["desk-behind-proxy"]["command"]
    assert not [word for word in behind if word.startswith("--host")]  # the loopback address
    assert SERVICES["proxy"]["network_mode"] == "service:desk-behind-proxy"
    assert not [word for word in SERVICES["desk"]["command"] if "proxy" in word]


def test_each_key_is_in_a_file_of_the_role_that_needs_it() -> None:
    desks = {"desk", "desk-behind-proxy"}
    assert {name for name in SERVICES if "desk-keys" in mounted(name)} == {"keys", *desks}
    assert {name for name in SERVICES if "worker-keys" in mounted(name)} == {"keys", "worker"}
    archive = {name: mode for name in SERVICES if (mode := mounted(name).get("archive"))}
    readers = dict.fromkeys(("cli", "monitor", "search", *desks), "ro")
    assert archive == {"archiver": "rw", **readers}
    index = {name: mode for name in SERVICES if (mode := mounted(name).get("search"))}
    assert index == {"search": "rw", "cli": "ro", **dict.fromkeys(desks, "ro")}
    for name in desks | {"worker"}:
        for variable in SERVICES[name]["environment"]:
            # What a shell may give it: the key of the models, and of the provider.
            assert not re.fullmatch(r"OUTLAST_\w+_KEYS?", variable), (name, variable)


@pytest.mark.parametrize("name", sorted(ROLES))
def test_each_role_is_confined(name: str) -> None:
    role = ROLES[name]
    assert role["read_only"]
    assert role["tmpfs"] == ["/tmp"]
    assert role["cap_drop"] == ["ALL"]
    assert role["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in role
    if "entrypoint" not in role:  # the image's, which is `outlast`
        parse(role["command"])


def test_each_role_that_stays_has_a_health_check_and_the_time_to_stop() -> None:
    staying = {name for name, one in ROLES.items() if one["restart"] == "unless-stopped"}
    desks = {"desk", "desk-behind-proxy"}
    assert staying == {"archiver", "monitor", "scripted-model", "search", "worker", *desks}
    assert all("healthcheck" in ROLES[name] for name in staying)
    assert seconds_of(SERVICES["worker"]["stop_grace_period"]) > DEFAULT_GRACE_SECONDS
    assert seconds_of(SERVICES["desk"]["stop_grace_period"]) > SHUTDOWN_SECONDS


def test_the_people_of_the_login_may_do_what_the_desk_says() -> None:
    people = [
        json.loads(word.removeprefix("--user-claims="))
        for word in SERVICES["login"]["command"]
        if word.startswith("--user-claims=")
    ]
    groups = {group for one in people for group in one["groups"]}
    for name in ("desk", "desk-behind-proxy"):
        roles = [one for one in SERVICES[name]["command"] if one.startswith("--role=")]
        assert {one.split("=")[1] for one in roles} == groups
