"""The component of Kubernetes that adds search: rendered over an overlay, valid, and confined."""

import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.checks import parse
from tests.deploy.test_kubernetes import KUBERNETES, PLACE, pytestmark, render

__all__ = ("pytestmark",)


def with_search() -> list[dict[str, Any]]:
    """Return the manifests of the overlay for one's own cluster, with search."""
    with tempfile.TemporaryDirectory(dir=PLACE) as folder:
        Path(folder, "kustomization.yaml").write_text(
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
            "resources: [../overlays/self-hosted]\ncomponents: [../components/search]\n"
        )
        return render(Path(folder))


def test_search_is_a_role_of_its_own_and_the_desks_read_its_index() -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="`make deploy-tools` installs it")
    found = with_search()
    for one in found:
        validate.validate(one, KUBERNETES, strict=True)
    pods = {
        one["metadata"]["name"]: one["spec"]["template"]["spec"]
        for one in found
        if one["kind"] == "Deployment"
    }
    [search], [desk] = pods["search"]["containers"], pods["desk"]["containers"]
    parse(search["args"])
    assert search["securityContext"] == desk["securityContext"]
    assert pods["search"]["securityContext"] == pods["desk"]["securityContext"]
    for name, secret in (("search", "search"), ("desk", "search-reader")):
        [mounted] = [one for one in pods[name]["volumes"] if one["name"] == "search"]
        assert mounted["secret"] == {"secretName": secret, "defaultMode": 0o440}
        given = {one["name"]: one["value"] for one in pods[name]["containers"][0]["env"]}
        assert given["OUTLAST_SEARCH_INDEX_FILE"] == "/etc/search/index"
    assert not any("search" in str(pod) for name, pod in pods.items() if name.startswith("worker"))
