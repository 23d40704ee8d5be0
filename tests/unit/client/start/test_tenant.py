import math
from typing import Any

import pytest

from outlast import Tenant, UserError
from outlast.client.start.tenant import as_tenant


def test_a_name_is_a_tenant_of_weight_one() -> None:
    assert as_tenant("acme") == Tenant("acme", weight=1.0)
    assert as_tenant(Tenant("acme", weight=5)) == Tenant("acme", 5)
    assert as_tenant(None) is None


def test_names_have_at_most_64_bytes_not_characters() -> None:
    assert Tenant("é" * 32).name == "é" * 32
    with pytest.raises(UserError, match="has 66 bytes, but Temporal takes 64"):
        Tenant("é" * 33)


@pytest.mark.parametrize("name", ["", " ", None, 3, b"acme"])
def test_a_name_is_text(name: Any) -> None:
    with pytest.raises(UserError, match="name must be a non-empty string"):
        Tenant(name)


def test_a_name_that_cannot_be_sent_is_refused() -> None:
    with pytest.raises(UserError, match=r"cannot be printed, such as a line break\. Remove it"):
        Tenant("\ud800")


@pytest.mark.parametrize("weight", [0.001, 1, 1000.0])
def test_weights_have_bounds(weight: float) -> None:
    assert Tenant("acme", weight).weight == weight


@pytest.mark.parametrize("weight", [0, 0.0009, 1000.1, -1, math.nan, math.inf, True, "2", None])
def test_other_weights_are_refused(weight: Any) -> None:
    with pytest.raises(UserError, match=r"weight must be a number from 0\.001 to 1000, not"):
        Tenant("acme", weight)
