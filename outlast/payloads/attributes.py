"""The search attributes that a run starts with."""

from typing import Any, Final

from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from outlast.contract import names
from outlast.contract.searchability import searchable

TENANT: Final = SearchAttributeKey.for_keyword(names.ATTRIBUTE_TENANT)


def first_attributes(agent: str, tenant: str = "") -> TypedSearchAttributes:
    """Return the attributes of a new run, which its workflow then need not write.

    Args:
        agent: the name of the run's agent.
        tenant: the name of the run's tenant; empty for none.
    """
    pairs: list[SearchAttributePair[Any]] = [
        SearchAttributePair(
            SearchAttributeKey.for_keyword(names.ATTRIBUTE_AGENT), searchable(agent)
        ),
        SearchAttributePair(SearchAttributeKey.for_int(names.ATTRIBUTE_APPROVALS), 0),
    ]
    if tenant:
        pairs.append(SearchAttributePair(TENANT, searchable(tenant)))
    return TypedSearchAttributes(pairs)
