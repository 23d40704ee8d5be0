"""Usage as programs read it and add it up."""

from typing import Any

from openai.types.completion_usage import CompletionTokensDetails, PromptTokensDetails
from openai.types.responses.response_usage import InputTokensDetails as ProvidersDetails

from outlast.agents.usage import (
    RequestUsage,
    Usage,
    plain_usage,
)
from outlast.loop import values
from outlast.loop.values import InputTokensDetails, OutputTokensDetails

ONE = values.Usage(
    requests=1,
    input_tokens=10,
    output_tokens=5,
    total_tokens=15,
    cached_tokens=4,
    reasoning_tokens=2,
    cache_write_tokens=1,
)
FREE = values.Usage(requests=1)


def test_what_a_run_has_counted_is_shown_with_its_details() -> None:
    usage = Usage.of(ONE.plus(ONE), [ONE, ONE])
    assert (usage.requests, usage.input_tokens, usage.output_tokens) == (2, 20, 10)
    assert usage.total_tokens == 30
    assert usage.input_tokens_details.cached_tokens == usage.cached_tokens == 8
    assert usage.input_tokens_details.cache_write_tokens == usage.cache_write_tokens == 2
    assert usage.output_tokens_details.reasoning_tokens == usage.reasoning_tokens == 4
    entry = RequestUsage(
        input_tokens=10,
        output_tokens=5,
        total_tokens=15,
        input_tokens_details=InputTokensDetails(cached_tokens=4, cache_write_tokens=1),
        output_tokens_details=OutputTokensDetails(reasoning_tokens=2),
    )
    assert usage.request_usage_entries == [entry, entry]


def test_a_usage_that_is_one_already_is_left_alone() -> None:
    usage = Usage(requests=1)
    assert Usage.of(usage) is usage


def test_requests_that_cost_nothing_are_no_entries() -> None:
    assert Usage.of(FREE, [FREE]).request_usage_entries == []
    usage = Usage()
    usage.add(FREE)
    assert (usage.requests, usage.request_usage_entries) == (1, [])


def test_usage_is_added_up_over_runs() -> None:
    usage = Usage()
    usage.add(Usage.of(ONE))  # of one request, which becomes an entry
    usage.add(Usage.of(ONE.plus(ONE), [ONE, ONE]))
    assert plain_usage(usage) == ONE.plus(ONE).plus(ONE)
    assert [one.total_tokens for one in usage.request_usage_entries] == [15, 15, 15]


def test_the_sums_go_back_to_the_run() -> None:
    assert plain_usage(Usage.of(ONE)) == ONE
    assert plain_usage(ONE) is ONE


def test_a_models_own_details_are_understood() -> None:
    details = ProvidersDetails(cached_tokens=3, cache_write_tokens=0)
    assert plain_usage(Usage(requests=1, input_tokens_details=details)).cached_tokens == 3  # pyright: ignore[reportArgumentType]  as programs write it


def test_what_a_provider_does_not_tell_counts_as_nothing() -> None:
    unknown: Any = None
    nothing = Usage(input_tokens_details=unknown, output_tokens_details=unknown)
    untold: Any = (PromptTokensDetails(), CompletionTokensDetails())
    some = Usage(
        requests=1, input_tokens=3, input_tokens_details=untold[0], output_tokens_details=untold[1]
    )
    nothing.add(some)
    assert (nothing.cached_tokens, nothing.reasoning_tokens) == (0, 0)
    assert plain_usage(some) == values.Usage(requests=1, input_tokens=3)


def test_details_may_be_dicts_as_providers_send_them() -> None:
    sent: Any = ({"cached_tokens": 3, "cache_write_tokens": 1}, {"reasoning_tokens": 2})
    usage = Usage(requests=1, input_tokens_details=sent[0], output_tokens_details=sent[1])
    assert (usage.cached_tokens, usage.cache_write_tokens, usage.reasoning_tokens) == (3, 1, 2)
    untold: Any = {"cached_tokens": None}
    assert Usage(input_tokens_details=untold).cached_tokens == 0


def test_what_was_added_does_not_change_with_its_source() -> None:
    source, total = Usage.of(ONE, [ONE]), Usage()
    total.add(source)
    source.request_usage_entries[0].input_tokens = 999
    assert total.request_usage_entries[0].input_tokens == 10
