"""The search attributes that a run starts with."""

from collections.abc import Sequence
from typing import Any, Final, Protocol, runtime_checkable

from temporalio.client import Client
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from outlast.contract import names
from outlast.contract.records import RunInput, customer_of
from outlast.contract.searchability import searchable

TENANT: Final = SearchAttributeKey.for_keyword(names.ATTRIBUTE_TENANT)
CUSTOMER: Final = SearchAttributeKey.for_keyword(names.ATTRIBUTE_CUSTOMER)


def first_attributes(agent: str, tenant: str = "", customer: str = "") -> TypedSearchAttributes:
    """Return the attributes of a new run, which its workflow then need not write.

    Args:
        agent: the name of the run's agent.
        tenant: the name of the run's tenant; empty for none.
        customer: what the run's customer is listed as; empty for none.
    """
    pairs: list[SearchAttributePair[Any]] = [
        SearchAttributePair(
            SearchAttributeKey.for_keyword(names.ATTRIBUTE_AGENT), searchable(agent)
        ),
        SearchAttributePair(SearchAttributeKey.for_int(names.ATTRIBUTE_APPROVALS), 0),
    ]
    if tenant:
        pairs.append(SearchAttributePair(TENANT, searchable(tenant)))
    if customer:
        pairs.append(SearchAttributePair(CUSTOMER, searchable(customer)))
    return TypedSearchAttributes(pairs)


@runtime_checkable
class FindingCodec(Protocol):
    """A payload codec under which customers can be found, though nobody reads who they are."""

    def digests_of(self, text: str) -> Sequence[str]:
        """Return a keyed digest of a text for each key, the current key's first."""
        ...


def listed_as(client: Client, customer: str) -> tuple[str, ...]:
    """Return what a customer is listed as in searches, what new runs have first.

    Search attributes are readable where contents are encrypted. With a codec, a customer is listed
    as a keyed digest; with one that has none, runs are not listed by customer.
    """
    codec = client.data_converter.payload_codec
    if codec is None:
        return (searchable(customer),)
    return tuple(codec.digests_of(customer)) if isinstance(codec, FindingCodec) else ()


def listed_customer(client: Client, record: RunInput) -> str:
    """Return what a new run's customer is listed as; empty for none."""
    customer = customer_of(record.settings)
    return next(iter(listed_as(client, customer.id)), "") if customer.id else ""
