"""Scopes: which runs somebody may see, by whose they are, who works in them, and who decides."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from outlast.contract import names
from outlast.contract.searchability import searchable
from outlast.temporal.visibility.queries import equals, is_any_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RunScope:
    """Some runs: those that fit every kind of name that the scope has.

    Attributes:
        tenants: the tenants to which a run belongs; empty for any, and for none.
        agents: the agents that have the conversation; empty for any.
        teams: the groups who may decide what a run waits for; empty for any.
    """

    tenants: frozenset[str] = frozenset()
    agents: frozenset[str] = frozenset()
    teams: frozenset[str] = frozenset()

    def covers(
        self, *, tenant: str, agent: str, people: Collection[str] = (), is_nested: bool = False
    ) -> bool:
        """Whether a run is one of them.

        A nested run has an agent and requests of its own, and is seen with the run above it. So a
        scope of agents or teams covers no nested run.

        Args:
            tenant: the tenant of the run, as the server lists it; empty for none.
            agent: its active agent, as the server lists it.
            people: the groups and people who may decide what it waits for.
            is_nested: whether it is nested in another run.
        """
        if is_nested and (self.agents or self.teams):
            return False
        return (
            (not self.tenants or tenant in map(searchable, self.tenants))
            and (not self.agents or agent in map(searchable, self.agents))
            and (not self.teams or not set(map(searchable, self.teams)).isdisjoint(people))
        )

    def query(self) -> str | None:
        """Return a condition that all of them meet, or None; `covers` is stricter."""
        terms = (
            _one_of(names.ATTRIBUTE_TENANT, self.tenants),
            _one_of(names.ATTRIBUTE_AGENT, self.agents),
            _one_of(names.ATTRIBUTE_GROUPS, self.teams, is_list=True),
        )
        return " AND ".join(term for term in terms if term is not None) or None


Scopes = Sequence[RunScope]
"""The runs of any of some scopes; of no scope at all, every run."""

EVERYTHING: Final[tuple[RunScope, ...]] = ()


def scopes_query(scopes: Scopes) -> str | None:
    """Return a condition that every run of the scopes meets, or None."""
    terms = [one.query() for one in scopes]
    if not terms or None in terms:
        return None
    return f"({' OR '.join(f'({term})' for term in terms)})"


def any_covers(
    scopes: Scopes,
    *,
    tenant: str,
    agent: str,
    people: Collection[str] = (),
    is_nested: bool = False,
) -> bool:
    """Whether a run is one of those of the scopes."""
    return not scopes or any(
        one.covers(tenant=tenant, agent=agent, people=people, is_nested=is_nested) for one in scopes
    )


def _one_of(attribute: str, wanted: frozenset[str], *, is_list: bool = False) -> str | None:
    if not wanted:
        return None
    texts = sorted(map(searchable, wanted))
    if len(texts) == 1 and not is_list:
        return equals(attribute, texts[0])
    return is_any_of(attribute, texts)
