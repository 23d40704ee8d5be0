"""The cost of runs."""

from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import genai_prices
import pytest
from genai_prices.data_snapshot import get_snapshot
from hypothesis import given
from hypothesis import strategies as st

from outlast import Agent
from outlast.agents.errors import UserError
from outlast.loop.state import Compacted, Compaction, LoopState, Response
from outlast.loop.values import ModelUse, Usage
from outlast.pricing import Cost, ListPrice, Price, Pricing, dollars
from outlast.testing import ScriptedModel, run_in_memory
from outlast.views.run import snapshot_of

MILLION = 1_000_000
PRICING = Pricing(
    {
        "small": Price(Decimal(1), Decimal(2)),
        "big": Price(Decimal(10), Decimal(20), cached_input=Decimal(1)),
        "big-2025-08-07": Price(Decimal(100), Decimal(200)),
    }
)


def response(model: str, given: int, cached: int = 0, written: int = 0) -> Response:
    usage = Usage(
        requests=1,
        input_tokens=given,
        output_tokens=written,
        total_tokens=given + written,
        cached_tokens=cached,
    )
    return Response(turn=1, model=model, usage=usage)


def run(*responses: Response, more: int = 0) -> LoopState:
    total = sum(one.usage.total_tokens for one in responses) + more
    return LoopState(responses=responses, usage=Usage(total_tokens=total))


def test_a_call_costs_its_tokens_and_cached_ones_less() -> None:
    state = run(
        response("small", MILLION, cached=MILLION, written=MILLION),
        response("big", 2 * MILLION, cached=MILLION),
    )
    assert PRICING.cost_of(snapshot_of(state)).total == Decimal(3) + Decimal(11)


@pytest.mark.parametrize(
    ("model", "price"),
    [
        ("openai/small", 1),
        ("litellm/openai/small", 1),
        ("small-2025-01-02", 1),
        ("big-2025-08-07", 100),
        ("small-2025", None),
        ("smaller", None),
        ("", None),
    ],
)
def test_a_dated_or_routed_model_has_the_price_of_its_name(model: str, price: int | None) -> None:
    found = PRICING.price(model)
    assert (found.input if isinstance(found, Price) else found) == price


def test_what_has_no_price_is_said() -> None:
    cost = PRICING.cost_of(
        snapshot_of(run(response("small", MILLION), response("mine", 5), response("", 1)))
    )
    assert (cost.usd, cost.unknown_models) == (Decimal(1), ("", "mine"))
    assert (cost.total, cost.is_whole) == (None, False)
    assert cost.problem == (
        "price unknown for model mine: 5 tokens; price unknown for the default model: 1 token"
    )
    assert str(cost) == f"$1.00; {cost.problem}"
    unknown = PRICING.cost_of(snapshot_of(run(response("mine", 5), response("mine", 7))))
    assert str(unknown) == "price unknown for model mine: 12 tokens"
    assert str(PRICING.cost_of(snapshot_of(run(response("small", 100))))) == "$0.0001"
    assert PRICING.cost_of(snapshot_of(run(response("small", 5), more=7))).unknown_models == (
        "nested runs",
    )


def recorded(agent: str, model: str, micros: int | None, tokens: int = 10) -> Response:
    usage = Usage(
        requests=1, total_tokens=tokens, cost_micros=micros or 0, priced=int(micros is not None)
    )
    return Response(turn=1, agent=agent, model=model, usage=usage)


def state_of(*responses: Response, nested: tuple[ModelUse, ...] = ()) -> LoopState:
    usage = Usage()
    for one in (*responses, *nested):
        usage = usage.plus(one.usage)
    return LoopState(responses=responses, nested_uses=nested, usage=usage)


def test_a_run_costs_what_its_workers_have_recorded() -> None:
    nested = ModelUse(agent="Lawyer", model="big", usage=Usage(requests=2, cost_micros=9, priced=2))
    state = state_of(
        recorded("Triage", "gpt-5", 1), recorded("Billing", "gpt-5", 2), nested=(nested,)
    )
    cost = Cost.of_state(snapshot_of(state))
    assert (cost.usd, cost.problem, cost.calls) == (Decimal("0.000012"), "", 4)
    agents = {name: one.usd * MILLION for name, one in cost.by_agent.items()}
    assert agents == {"Lawyer": 9, "Billing": 2, "Triage": 1}
    assert {name: one.usd * MILLION for name, one in cost.by_model.items()} == {
        "big": 9,
        "gpt-5": 3,
    }


def test_a_call_without_a_recorded_cost_is_named_and_no_0() -> None:
    state = state_of(
        recorded("Triage", "mine", 5), recorded("Triage", "mine", None), recorded("A", "m", None, 0)
    )
    cost = Cost.of_state(snapshot_of(state))
    assert (cost.usd, cost.total) == (Decimal("0.000005"), None)
    assert (
        cost.problem
        == "price unknown for model mine: 10 tokens; no tokens reported by model m: 1 call"
    )
    assert len(cost.by_model["mine"].parts) == 2


def test_the_name_of_a_model_moves_no_terminal() -> None:
    problem = Cost.of_state(
        snapshot_of(state_of(recorded("A", "evil\x1b[2J\n\u202e", None)))
    ).problem
    assert problem.isprintable()
    assert "\\u001b" in problem


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xy"), st.integers(0, 10**13))))
def test_the_amounts_that_people_read_add_up(calls: list[tuple[str, str, int]]) -> None:
    state = state_of(*(recorded(agent, model, micros) for agent, model, micros in calls))
    cost = Cost.of_state(snapshot_of(state))

    def read(amount: Decimal) -> Decimal:
        return Decimal(dollars(amount).replace("$", "").replace(",", ""))

    for parts in (cost.by_agent, cost.by_model):
        assert sum(read(one.usd) for one in parts.values()) == read(cost.usd)


@pytest.mark.parametrize(
    ("usd", "shown"),
    [
        ("0", "$0.00"),
        ("0.0000001", "$0.00"),
        ("0.000001", "$0.000001"),
        ("0.0042", "$0.0042"),
        ("1234.5", "$1,234.50"),
        ("12.345678", "$12.345678"),
    ],
)
def test_an_amount_has_the_places_that_it_needs(usd: str, shown: str) -> None:
    assert dollars(Decimal(usd)) == shown


def test_summaries_of_a_long_conversation_cost_too() -> None:
    made = Compacted(at_ms=1, entries=5, place=4, model="big", usage=response("", MILLION).usage)
    by_a_function = replace(made, model="", usage=Usage())
    state = run(response("small", MILLION))
    used = state.usage.plus(made.usage)
    state = replace(state, usage=used, compaction=Compaction(made=(made, by_a_function)))
    big = PRICING.cost_of(snapshot_of(run(response("big", MILLION)))).usd
    assert PRICING.cost_of(snapshot_of(state)).total == Decimal(1) + big


async def test_a_result_has_a_cost() -> None:
    agent = Agent(name="Helper", model="small")
    result = await run_in_memory(agent, "Hi", model=ScriptedModel("Hello."))
    cost = PRICING.cost_of(result)
    assert result.usage.total_tokens > 0
    assert cost.unknown_models == ()
    assert cost.usd > 0
    assert result.cost.problem.startswith("price unknown for model small: ")


@pytest.mark.parametrize(
    "model", ["gpt-5", "gpt-5-2025-08-07", "openai/gpt-5", "litellm/openai/gpt-5", "mine/gpt-5"]
)
def test_a_list_price_is_found_by_the_name_of_the_model(model: str) -> None:
    usage = Usage(input_tokens=2_000, cached_tokens=1_000, output_tokens=1_000)
    price = Pricing().price(model)
    assert price is not None
    assert price.cost(usage) == (Decimal("1.25") + Decimal("0.125") + Decimal(10)) / 1_000


def test_list_prices_that_are_remembered_are_those_of_the_package() -> None:
    usage = Usage(input_tokens=250_001, cached_tokens=33_333, output_tokens=7_777)
    tokens = genai_prices.Usage(input_tokens=250_001, cache_read_tokens=33_333, output_tokens=7_777)
    compared = 0
    # Pyright would take 45 s to infer what the module with the data holds.
    for provider in get_snapshot().providers:
        for model in provider.models[::10]:
            with suppress(LookupError):  # some have other names for calls
                listed = genai_prices.calc_price(tokens, model.id, provider_id=provider.id)
                assert ListPrice(model.id, provider.id).cost(usage) == listed.total_price
                compared += 1
    assert compared > 50


def test_a_file_overrides_the_list_prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OUTLAST_PRICES", raising=False)
    listed = Pricing.load()
    assert listed.price("gpt-5") == ListPrice("gpt-5", None)
    (tmp_path / "outlast-prices.toml").write_text('["gpt-5"]\ninput = 1\noutput = 2.5\n')
    assert Pricing.load().price("gpt-5") == Price(Decimal(1), Decimal("2.5"))
    assert Pricing.load().price("gpt-4o") == listed.price("gpt-4o")
    other = tmp_path / "other.toml"
    other.write_text("[mine]\ninput = 0\noutput = 0\n")
    monkeypatch.setenv("OUTLAST_PRICES", str(other))
    assert Pricing.load().price("mine") == Price(Decimal(0), Decimal(0))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[m]\ninput = 1\nouptut = 2\n", "model 'm': unknown field 'ouptut'. The fields are"),
        ("[m]\ninput = 1\n", "model 'm': output is missing"),
        ("[m]\ninput = '1'\noutput = 1\n", "model 'm': input = '1' is not a price"),
        ("[m]\ninput = -1\noutput = 1\n", "input = -1 is not a price"),
        ("[m]\ninput = nan\noutput = 1\n", "input = nan is not a price"),
        ("[m]\ninput = true\noutput = 1\n", "input = True is not a price"),
        ("m = 3\n", r"model 'm': write \['m'\] and below it"),
        ("[m\n", r"prices.toml is not valid TOML: .*line 1"),
    ],
)
def test_a_table_with_a_mistake_is_refused_with_the_place(
    tmp_path: Path, text: str, problem: str
) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(text)
    with pytest.raises(UserError, match=problem):
        Pricing.load(path)


def test_a_table_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"missing\.toml cannot be read: No such file"):
        Pricing.load(tmp_path / "missing.toml")
