"""Tenants: the owners of runs where many customers share the workers."""

from dataclasses import dataclass
from typing import Final, cast

from outlast.agents.checks import check_printable
from outlast.agents.errors import UserError

LONGEST_NAME_BYTES: Final = 64
WEIGHTS: Final = (0.001, 1000.0)
"""The server's bounds of a fairness key and of its weight."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """The customer or team that a run belongs to, and its share of busy workers.

    Where tasks wait for workers, tenants take turns, so that a tenant with thousands of runs does
    not hold up one with a single run. The server needs `matching.enableFairness`, which
    `outlast dev` and the compose file switch on. Nested runs belong to the tenant of the run above.

    Attributes:
        name: the tenant's id, at most 64 bytes. Operators can read it, and search for
            it, in the Temporal UI.
        weight: its turns in proportion to other tenants, from 0.001 to 1000.
    """

    name: str
    weight: float = 1.0

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check_weight(self.weight)


def as_tenant(tenant: Tenant | str | None) -> Tenant | None:
    """Return the tenant of a run; a name has weight 1.

    Raises:
        UserError: the value is neither, or the name is invalid.
    """
    value = cast("object", tenant)
    if value is None or isinstance(value, Tenant):
        return value
    if isinstance(value, str):
        return Tenant(value)
    raise UserError(f"tenant= must be a string or a Tenant, not {value!r}.")


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name.strip():
        raise UserError(f"A tenant's name must be a non-empty string, not {name!r}.")
    check_printable("The tenant's name", name)
    size = len(name.encode())
    if size > LONGEST_NAME_BYTES:
        raise UserError(
            f"The tenant's name {name!r} has {size} bytes, but Temporal takes "
            f"{LONGEST_NAME_BYTES}. Use a shorter id, such as a digest of the name."
        )


def _check_weight(weight: object) -> None:
    least, most = WEIGHTS
    number = weight if isinstance(weight, int | float) and not isinstance(weight, bool) else 0
    if not least <= number <= most:  # nor is NaN
        raise UserError(
            f"A tenant's weight must be a number from {least:g} to {most:g}, not {weight!r}."
        )
