"""`outlast worker --deployment --build-id`, and the variables that Temporal's controller sets."""

import pytest
from temporalio.common import VersioningBehavior

from outlast.agents.errors import UserError
from outlast.cli.worker import _deployment_config


def test_a_worker_has_a_version_with_both_names() -> None:
    found = _deployment_config("support", "v2")
    assert found is not None
    assert found.version.to_canonical_string() == "support.v2"
    assert found.use_worker_versioning
    assert found.default_versioning_behavior is VersioningBehavior.PINNED
    assert _deployment_config(None, None) is _deployment_config("", "") is None


@pytest.mark.parametrize("names", [("support", None), ("", "v2")])
def test_half_a_version_is_refused(names: tuple[str | None, str | None]) -> None:
    with pytest.raises(UserError, match="--deployment NAME and --build-id ID"):
        _deployment_config(*names)
