"""The search attributes that a run starts with."""

from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from outlast.contract import names
from outlast.contract.searchability import searchable


def first_attributes(agent: str) -> TypedSearchAttributes:
    """Return the attributes of a new run, which its workflow then need not write."""
    return TypedSearchAttributes(
        [
            SearchAttributePair(
                SearchAttributeKey.for_keyword(names.ATTRIBUTE_AGENT), searchable(agent)
            ),
            SearchAttributePair(SearchAttributeKey.for_int(names.ATTRIBUTE_APPROVALS), 0),
        ]
    )
