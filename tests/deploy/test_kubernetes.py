"""The manifests for Kubernetes: rendered as `kubectl apply -k` renders them, and valid.

Kubernetes' own kinds are checked by the schemas of `kubernetes-validate`, KEDA's by those in `keda.json`.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from jsonschema import Draft202012Validator
from temporalio.envconfig import ClientConfig

from outlast.cli.supervisor import DEFAULT_GRACE_SECONDS
from tests.architecture.source import ROOT
from tests.deploy.checks import parse, problems

PLACE: Final = ROOT / "deploy" / "kubernetes"
OVERLAYS: Final = ("self-hosted", "temporal-cloud-mtls", "temporal-cloud-api-key")
GUIDE: Final = ROOT / "docs" / "how-to" / "kubernetes.md"
KUBERNETES: Final = "1.34"
KEDA: Final = json.loads((Path(__file__).with_name("keda.json")).read_text(encoding="utf-8"))[
    "kinds"
]
SCALER: Final = {
    *("endpoint", "namespace", "taskQueue", "queueTypes", "targetQueueSize"),
    *("activationTargetQueueSize", "workerDeploymentName", "workerDeploymentBuildId"),
    *("minConnectTimeout", "unsafeSsl", "tlsServerName"),
}
"""What KEDA 2.21's scaler of Temporal reads of a trigger's metadata, but for what it calls deprecated."""

BUILT: Final = Path(sys.executable).with_name("kustomize")
pytestmark = [
    pytest.mark.installed,
    pytest.mark.skipif(
        shutil.which("kubectl") is None and not BUILT.exists(),
        reason="`make deploy-tools` builds kustomize where kubectl is missing",
    ),
]


def render(folder: Path) -> list[dict[str, Any]]:
    """Return the manifests of a folder, as kubectl has them."""
    tool = [str(BUILT), "build"] if BUILT.exists() else ["kubectl", "kustomize"]
    done = subprocess.run([*tool, str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "deprecated" not in done.stderr
    return list(yaml.safe_load_all(done.stdout))


@cache
def manifests(overlay: str) -> list[dict[str, Any]]:
    return render(PLACE / "overlays" / overlay)


def of_kind(overlay: str, kind: str) -> list[Any]:
    return [one for one in manifests(overlay) if one["kind"] == kind]


def pods(overlay: str) -> Iterator[tuple[str, Any]]:
    """Yield the name of each Deployment, and the spec of its pods."""
    for one in of_kind(overlay, "Deployment"):
        yield one["metadata"]["name"], one["spec"]["template"]["spec"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_manifest_is_valid(overlay: str) -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="`make deploy-tools` installs it")
    for one in manifests(overlay):
        if one["apiVersion"].startswith("keda.sh/"):
            checker = Draft202012Validator(KEDA[one["kind"]])
            assert problems(checker, one["spec"]) == []
        else:
            validate.validate(one, KUBERNETES, strict=True)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_pod_is_confined_and_has_its_limits(overlay: str) -> None:
    names = {name for name, _ in pods(overlay)}
    assert names == {"desk", "archiver", "worker-support-v1"}
    for name, pod in pods(overlay):
        [container] = pod["containers"]
        assert pod["automountServiceAccountToken"] is False, name
        assert pod["securityContext"]["runAsNonRoot"], name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }, name
        assert {"cpu", "memory"} == set(container["resources"]["requests"]), name
        assert {"memory"} == set(container["resources"]["limits"]), name  # CPU is shared out
        assert {"readinessProbe", "livenessProbe"} <= set(container), name
        writable = {one["name"] for one in container["volumeMounts"] if not one.get("readOnly")}
        assert writable == {"tmp"}, name
    grace = {name: pod["terminationGracePeriodSeconds"] for name, pod in pods(overlay)}
    assert grace["worker-support-v1"] > DEFAULT_GRACE_SECONDS + 15


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_secrets_are_files_that_only_their_role_mounts(overlay: str) -> None:
    mounted: dict[str, set[str]] = {}
    for name, pod in pods(overlay):
        [container] = pod["containers"]
        sources = [next(iter(one)) for one in container["envFrom"]]
        assert set(sources) == {"configMapRef"}, name
        assert not [one for one in container.get("env", ()) if "valueFrom" in one], name
        for volume in pod["volumes"]:
            if "secret" in volume:
                assert volume["secret"]["defaultMode"] == 0o440, name
                mounted.setdefault(name, set()).add(volume["secret"]["secretName"])
    connection = {"temporal", "temporal-client"} if "mtls" in overlay else {"temporal"}
    assert mounted == {
        "desk": {"desk-keys", *connection},
        "worker-support-v1": {"worker-keys", *connection},
        "archiver": connection,
    }
    for one in of_kind(overlay, "ConfigMap"):
        for variable in one["data"]:
            assert not re.search(r"(?:_KEYS?|_SECRET|_PASSWORD|_TOKEN)$", variable), variable


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_guide_creates_every_secret_that_is_not_made_here(overlay: str) -> None:
    made = {one["metadata"]["name"] for one in of_kind(overlay, "Secret")}
    text = GUIDE.read_text(encoding="utf-8").replace("\\\n", " ")
    created = re.findall(r"create secret (?:generic|tls) ([\w-]+)(.*)", text)
    keys = {name: set(re.findall(r"--from-file=([\w.-]+)", rest)) for name, rest in created}
    keys |= {"temporal-client": {"tls.crt", "tls.key"}, "desk-tls": {"tls.crt", "tls.key"}}
    config = {one["metadata"]["name"]: one["data"] for one in of_kind(overlay, "ConfigMap")}
    for name, pod in pods(overlay):
        [container] = pod["containers"]
        given = {one["name"]: one.get("value", "") for one in container.get("env", ())}
        for source in container["envFrom"]:
            given = config[source["configMapRef"]["name"]] | given
        for volume in pod["volumes"]:
            secret = volume.get("secret", {}).get("secretName")
            if secret is None or secret in made:
                continue
            assert secret in keys, f"{name}: the guide does not create {secret}"
            [place] = [
                one["mountPath"]
                for one in container["volumeMounts"]
                if one["name"] == volume["name"]
            ]
            read = {
                value.rpartition("/")[2]
                for value in given.values()
                if str(value).startswith(f"{place}/")
            }
            assert read <= keys[secret] | {"temporal.toml"}, f"{name}: {secret} lacks {read}"
    assert {name for name, _ in created} >= {
        "temporal",
        "temporal-client",
        "desk-keys",
        "worker-keys",
    }


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_command_is_one_of_outlast(overlay: str) -> None:
    for name, pod in pods(overlay):
        [container] = pod["containers"]
        assert "command" not in container, name  # the image's own is `outlast`
        parse(container["args"])
        for probe in ("readinessProbe", "livenessProbe"):
            if "exec" in container[probe]:
                assert "outlast doctor --" in " ".join(container[probe]["exec"]["command"]), name


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_what_scales_and_what_is_protected_is_there(overlay: str) -> None:
    labels = {
        one["metadata"]["name"]: one["spec"]["template"]["metadata"]["labels"]
        for one in of_kind(overlay, "Deployment")
    }
    for kind in ("PodDisruptionBudget", "Service", "Deployment"):
        for one in of_kind(overlay, kind):
            selector = one["spec"]["selector"]
            wanted = selector.get("matchLabels", selector)
            chosen = [name for name, has in labels.items() if wanted.items() <= has.items()]
            assert chosen == [one["metadata"]["name"]], (kind, wanted)
    scaled = [
        one["spec"]["scaleTargetRef"]["name"]
        for kind in ("HorizontalPodAutoscaler", "ScaledObject")
        for one in of_kind(overlay, kind)
    ]
    assert sorted(scaled) == ["desk", "worker-support-v1"]  # each by one


@pytest.mark.parametrize("overlay", OVERLAYS[1:])
def test_keda_asks_for_the_version_of_the_worker(overlay: str, tmp_path: Path) -> None:
    [scaled] = of_kind(overlay, "ScaledObject")
    [config] = [one["data"] for one in of_kind(overlay, "ConfigMap") if "TASK_QUEUE" in one["data"]]
    [trigger] = scaled["spec"]["triggers"]
    asked = trigger["metadata"]
    assert set(asked) <= SCALER
    assert asked["taskQueue"] == config["TASK_QUEUE"]
    assert asked["workerDeploymentName"] == config["TEMPORAL_DEPLOYMENT_NAME"]
    assert asked["workerDeploymentBuildId"] == config["TEMPORAL_WORKER_BUILD_ID"]
    [authentication] = of_kind(overlay, "TriggerAuthentication")
    assert trigger["authenticationRef"]["name"] == authentication["metadata"]["name"]
    profile = profile_of(overlay, tmp_path)
    assert (asked["endpoint"], asked["namespace"]) == (profile["target_host"], profile["namespace"])


def profile_of(overlay: str, mounted: Path) -> Any:
    """Return what Temporal's client reads of the profile file, and of the certificates beside it."""
    [place] = (PLACE / "overlays" / overlay).glob("temporal.toml*")
    for name in ("tls.crt", "tls.key"):
        (mounted / name).write_text(name)
    text = place.read_text(encoding="utf-8").replace("/etc/temporal-client", str(mounted))
    (mounted / "temporal.toml").write_text(text)
    return ClientConfig.load_client_connect_config(
        config_file=str(mounted / "temporal.toml"), disable_env=True
    )


def test_temporals_client_reads_the_profile_files(tmp_path: Path) -> None:
    own = profile_of("self-hosted", tmp_path)
    assert own == {"target_host": "temporal-frontend.temporal:7233", "namespace": "default"}
    assert profile_of("temporal-cloud-api-key", tmp_path)["api_key"]
    assert profile_of("temporal-cloud-mtls", tmp_path)["tls"].client_private_key == b"tls.key"


def test_nobody_reaches_a_pod_but_the_ingress_the_desk() -> None:
    policies = {
        one["metadata"]["name"]: one["spec"] for one in of_kind("self-hosted", "NetworkPolicy")
    }
    assert policies["nobody"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    incoming = {name: one for name, one in policies.items() if one.get("ingress")}
    assert list(incoming) == ["desk"]
    assert incoming["desk"]["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "desk"}
    [service] = of_kind("self-hosted", "Service")
    assert service["spec"].get("type", "ClusterIP") == "ClusterIP"
    [out] = [to["ipBlock"] for one in policies["out"]["egress"] for to in one["to"]]
    assert "169.254.0.0/16" in out["except"]


def test_a_second_version_runs_beside_the_first(tmp_path: Path) -> None:
    """As the guide says: copy the folder of a version, and replace v1 by v2."""
    copy = tmp_path / "kubernetes"
    shutil.copytree(PLACE, copy)
    shutil.copytree(copy / "versions/support-v1", copy / "versions/support-v2")
    place = copy / "versions/support-v2/kustomization.yaml"
    place.write_text(
        place.read_text(encoding="utf-8").replace("v1", "v2").replace("v2beta1", "v1beta1")
    )
    overlay = copy / "overlays/self-hosted/kustomization.yaml"
    line = "  - ../../versions/support-v1\n"
    overlay.write_text(overlay.read_text().replace(line, line + line.replace("v1", "v2")))

    found = [one for one in render(overlay.parent) if one["kind"] == "Deployment"]

    workers = {
        one["metadata"]["name"]: one["spec"] for one in found if "worker" in one["metadata"]["name"]
    }
    assert set(workers) == {"worker-support-v1", "worker-support-v2"}
    images = {one["template"]["spec"]["containers"][0]["image"] for one in workers.values()}
    assert images == {"outlast-desk:v1", "outlast-desk:v2"}
    selectors = [one["selector"]["matchLabels"]["outlast.dev/version"] for one in workers.values()]
    assert selectors == ["v1", "v2"]
