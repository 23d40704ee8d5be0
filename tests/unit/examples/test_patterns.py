"""The patterns: each is run as it stands, on a server, and prints what it should.

Only the models are replaced: each agent of a pattern gets a script of its own.
"""

import importlib
import json
import secrets
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from outlast import Agent
from outlast.local.engine import LocalEngine
from outlast.loop.phrases import REJECTED
from outlast.loop.values import JsonObject
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, call, refuse, say
from tests.conformance.views import shapes
from tests.servers import TemporalServer

PATTERNS = Path(__file__).parents[3] / "examples" / "patterns"


class Stage:
    """Runs a pattern with scripted models.

    Attributes:
        models: the model of each agent, by the agent's name.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        self.models: dict[str, ScriptedModel] = {}

    def load(self, pattern: str, **scripts: Any) -> ModuleType:
        """Import a pattern, and give its agents their scripts, by the name of the variable."""
        module = importlib.import_module(f"patterns.{pattern}")
        agents: dict[str, Agent[Any]] = {
            name: one for name, one in vars(module).items() if isinstance(one, Agent)
        }
        assert set(scripts) <= set(agents)
        for name, agent in agents.items():
            model = ScriptedModel(*scripts.get(name, ()))
            self.models[name] = model
            self._monkeypatch.setattr(agent, "model", model)
        return module

    def lines(self) -> list[str]:
        """What was printed since the last look."""
        return self._capsys.readouterr().out.splitlines()

    async def play(self, pattern: str, **scripts: Any) -> list[str]:
        """Run a pattern as it is run from a terminal, and return what it prints."""
        await self.load(pattern, **scripts).main()
        return self.lines()

    def asked(self, agent: str, at: int = -1) -> ModelRequest:
        """What an agent's model was asked."""
        return self.models[agent].requests[at]


@pytest.fixture
async def stage(
    server: TemporalServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> AsyncIterator[Stage]:
    # What a user's environment says; then a program needs nothing but Runner.run.
    monkeypatch.setenv("TEMPORAL_ADDRESS", server.address)
    yield Stage(monkeypatch, capsys)
    await LocalEngine.close_shared()


def answer(**fields: Any) -> list[JsonObject]:
    """An answer of an agent with an output type."""
    return say(json.dumps(fields))


def test_every_pattern_is_run_here_and_listed() -> None:
    patterns = {path.stem for path in PATTERNS.glob("*.py")} - {"__init__"}
    tests = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    untested = {one for one in patterns if not any(test.startswith(one) for test in tests)}
    assert not untested
    listed = (PATTERNS / "README.md").read_text(encoding="utf-8")
    assert not {one for one in patterns if f"| `{one}.py` |" not in listed}


@pytest.mark.parametrize("path", sorted(PATTERNS.glob("*.py")), ids=lambda path: path.stem)
def test_a_pattern_is_read_in_one_look(path: Path) -> None:
    assert path.read_text(encoding="utf-8").count("\n") <= 90


@pytest.mark.smoke
async def test_routing_hands_over_and_stays_with_whoever_took_it(stage: Stage) -> None:
    printed = await stage.play(
        "routing",
        front_desk=[[call("transfer_to_shipping", "c1")]],
        shipping=[
            [call("track_parcel", "c2", order_id="A-17")],
            "It is in Leipzig.",
            [call("transfer_to_billing", "c3")],
        ],
        billing=["One of the two was a reservation."],
    )
    assert printed == [
        "Customer: Where is my order A-17?",
        "Shipping: It is in Leipzig.",
        "Customer: And why was I charged twice?",
        "Billing: One of the two was a reservation.",
    ]
    assert "Where is my order A-17?" in shapes(stage.asked("billing").input)


async def test_agents_as_tools_answer_the_agent_that_asks(stage: Stage) -> None:
    printed = await stage.play(
        "agents_as_tools",
        clerk=[
            [call("ask_policy", "c1", input="Returns after 20 days?")],
            [call("translate", "c2", input="Yes, within 30 days.")],
            "Ja, innerhalb von 30 Tagen.",
        ],
        policy_expert=["30 days."],
        translator=["Ja, innerhalb von 30 Tagen."],
    )
    assert printed == [
        "asked: ask_policy",
        "heard: Our policy says: 30 days.",
        "asked: translate",
        "heard: Ja, innerhalb von 30 Tagen.",
        "reply: Ja, innerhalb von 30 Tagen.",
        "model calls, nested ones too: 5",
    ]
    assert shapes(stage.asked("policy_expert").input) == ["Returns after 20 days?"]


async def test_agents_as_tools_streaming_shows_what_the_nested_agent_does(stage: Stage) -> None:
    printed = await stage.play(
        "agents_as_tools_streaming",
        clerk=[[call("ask_accountant", "c1", input="Ann?")], "Yes, 42 EUR."],
        accountant=[[call("invoices", "n1", customer="Ann")], "Ann owes 42 EUR."],
    )
    assert printed == [
        '[Accountant answers ask_accountant({"input": "Ann?"})]',
        "[Accountant: tool_called]",
        "[Accountant: tool_output]",
        "Ann owes 42 EUR.",
        "[Accountant: message_output_created]",
        "reply: Yes, 42 EUR.",
    ]


async def test_deterministic_flow_goes_through_its_steps_once(stage: Stage) -> None:
    flow = stage.load(
        "deterministic_flow",
        sorter=[answer(topic="damage", has_order_number=True)],
        writer=["we are sory"],
        proofreader=["We are sorry."],
    )
    case = secrets.token_hex(4)
    expected = ["sorted: damage", "reply: We are sorry."]
    await flow.main(case=case)
    assert stage.lines() == expected
    await flow.main(case=case)  # the scripts are at their end: nothing is asked again
    assert stage.lines() == expected


async def test_deterministic_flow_ends_at_the_gate(stage: Stage) -> None:
    flow = stage.load("deterministic_flow", sorter=[answer(topic="other", has_order_number=False)])
    await flow.main("It is broken.", case=secrets.token_hex(4))
    assert stage.lines() == ["sorted: other", "stopped: please tell us your order number."]
    assert stage.models["writer"].calls == 0


async def test_forcing_tool_use_ends_in_four_ways(stage: Stage) -> None:
    look = [call("stock_of", "c1", article="wok")]
    printed = await stage.play(
        "forcing_tool_use",
        go_on=[look, "I am afraid there is none."],
        first_result=[look],
        until_reserved=[look, [call("reserve", "c2", article="kettle")]],
        own_rule=[look],
    )
    assert stage.models["own_rule"].calls == 1
    assert printed == [
        "Go on: I am afraid there is none.",
        "First result: 0",
        "Until reserved: One kettle is reserved until Friday.",
        "Own rule: Sold out.",
    ]
    choices = [one.settings.tool_choice for one in stage.models["go_on"].requests]
    assert choices == ["required", None]


async def test_llm_as_judge_writes_until_it_passes(stage: Stage) -> None:
    printed = await stage.play(
        "llm_as_judge",
        writer=["Sorry.", "Sorry for the delay; you get 5 EUR."],
        judge=[answer(score="improve", advice="Name it."), answer(score="pass", advice="")],
    )
    assert printed == [
        "round 1: improve",
        "round 2: pass",
        "apology: Sorry for the delay; you get 5 EUR.",
    ]
    assert shapes(stage.asked("writer").input)[1:] == ["Sorry.", "Advice: Name it."]


async def test_parallelization_picks_one_of_the_drafts(stage: Stage) -> None:
    def draft(request: ModelRequest) -> list[JsonObject]:
        return say(shapes(request.input)[0].split(".")[0])

    printed = await stage.play("parallelization", drafter=[draft] * 3, picker=["The warm one."])
    assert printed == [
        "brief: Style: brief",
        "warm: Style: warm",
        "formal: Style: formal",
        "picked: The warm one.",
    ]
    assert "- Style: warm\n- Style: formal" in shapes(stage.asked("picker").input)[0]


async def test_input_guardrails_refuse_before_or_beside_the_first_turn(stage: Stage) -> None:
    suspicion = {"wants_others_data": True, "why": "a neighbour"}
    printed = await stage.play(
        "input_guardrails",
        desk=["On Friday.", "He has ordered a wok."],
        watchman=[answer(wants_others_data=False, why=""), answer(**suspicion)],
    )
    assert printed == [
        "answered: On Friday.",
        "refused by no_card_numbers",
        "refused by own_data_only",
    ]
    assert not any("4111" in str(one.input) for one in stage.models["desk"].requests)
    assert not any("4111" in str(one.input) for one in stage.models["watchman"].requests)


async def test_output_guardrails_withhold_an_answer(stage: Stage) -> None:
    printed = await stage.play(
        "output_guardrails",
        desk=[
            answer(thoughts="", text="At 9."),
            answer(thoughts="", text="Call +49 351 1234567."),
        ],
    )
    assert printed == ["answered: At 9.", "withheld, because of ['+49 351 1234567']"]


async def test_tool_guardrails_answer_in_place_of_the_tool_or_end_the_run(stage: Stage) -> None:
    printed = await stage.play(
        "tool_guardrails",
        desk=[
            [call("send_voucher", "c1", amount=50)],
            [call("send_voucher", "c2", amount=20)],
            "You get 20 EUR.",
            [call("read_account", "c3", customer_id="cust-7")],
        ],
    )
    assert printed == [
        "one_voucher_at_most: reject_content",
        "one_voucher_at_most: allow",
        "answered: You get 20 EUR.",
        "ended by no_secrets: {'tool': 'read_account'}",
    ]
    assert "Vouchers are 20 EUR at most." in str(stage.asked("desk", 1).input)


REFUNDS = [
    call("refund", "c1", order_id="A-17", amount=20),
    call("refund", "c2", order_id="A-42", amount=389),
    call("close_account", "c3", customer_id="cust-1001"),
]


@pytest.mark.smoke
async def test_human_in_the_loop_decides_later_from_a_text(stage: Stage) -> None:
    pattern = stage.load("human_in_the_loop", desk=[REFUNDS, "Both are paid."])
    waiting = await pattern.ask()
    assert stage.lines() == [
        'waits: refund {"order_id": "A-42", "amount": 389}',
        'waits: close_account {"customer_id": "cust-1001"}',
    ]
    await LocalEngine.close_shared()  # the process that asked is gone, and its worker
    await pattern.decide(waiting)
    assert stage.lines() == ["answered: Both are paid."]
    outputs = [one["output"] for one in stage.asked("desk").input if "output" in one]
    assert outputs == [
        "20 EUR for A-17 are on their way.",
        "389 EUR for A-42 are on their way.",
        "Only in writing.",
    ]


async def test_human_in_the_loop_asks_again_as_often_as_the_run_does(stage: Stage) -> None:
    again = [call("refund", "c4", order_id="A-43", amount=101)]
    printed = await stage.play("human_in_the_loop", desk=[REFUNDS, again, "All are paid."])
    assert printed[-1] == "answered: All are paid."


@pytest.mark.parametrize(
    ("is_good", "output"),
    [(True, "A-18 goes to Neue Gasse 5."), (False, REJECTED)],
)
async def test_human_in_the_loop_stream_goes_on_where_it_ended(
    stage: Stage,
    is_good: bool,
    output: str,
) -> None:
    change = call("change_address", "c1", order_id="A-18", address="Neue Gasse 5")
    pattern = stage.load("human_in_the_loop_stream", desk=[[change], "Done."])

    def decide(item: Any) -> bool:
        del item
        return is_good

    await pattern.main(is_good=decide)
    assert stage.lines() == [
        "event: tool_called",
        "event: tool_output",
        "event: message_output_created",
        "answered: Done.",
    ]
    assert stage.asked("desk").input[-1]["output"] == output


async def test_human_in_the_loop_stream_asks_on_the_terminal(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    pattern = stage.load("human_in_the_loop_stream")
    questions: list[str] = []

    def type_in(question: str) -> str:
        questions.append(question)
        return " Y"

    monkeypatch.setattr("builtins.input", type_in)
    item = type("Item", (), {"name": "change_address", "arguments": "{}"})()
    assert pattern.ask_on_the_terminal(item)
    assert questions == ["change_address {}: approve? [y/n] "]


async def test_streaming_prints_words_between_the_steps(stage: Stage) -> None:
    printed = await stage.play(
        "streaming", desk=[[call("opening_hours", "c1", day="Sunday")], "No, we are closed."]
    )
    assert printed == [
        "[Information listens]",
        "[calls opening_hours]",
        "[hears: closed]",
        "No, we are closed.",
        "complete: True, model calls: 2",
    ]


@pytest.mark.smoke
async def test_streaming_items_prints_the_steps(stage: Stage) -> None:
    printed = await stage.play(
        "streaming_items",
        desk=[
            [call("find_customer", "c1", name="Mara Lindholm")],
            [call("transfer_to_order_clerk", "c2")],
        ],
        clerk=[[call("open_orders", "c3", customer_id="cust-1001")], "A-18 and A-20."],
    )
    assert printed == [
        "-- Customer desk",
        "calls find_customer",
        "gets cust-1001",
        "Customer desk hands over to Order clerk",
        "-- Order clerk",
        "calls open_orders",
        'gets ["A-18","A-20"]',
        "says A-18 and A-20.",
    ]


async def test_sessions_remember_limit_and_choose(stage: Stage, tmp_path: Path) -> None:
    pattern = stage.load("sessions", desk=["Hi!", "Noted.", "A-17.", "Still A-17.", "A-17 again."])
    await pattern.main(file=tmp_path / "sessions.db")
    assert stage.lines() == [
        "Hello! -> Hi!",
        "My order is A-17. -> Noted.",
        "Which order was it? -> A-17.",
        "with the newest two items: Still A-17.",
        "with a callback: A-17 again.",
        "kept: 10 items",
        "last now: Once more?",
    ]
    shown = [shapes(request.input) for request in stage.models["desk"].requests]
    assert shown[2][:2] == ["Hello!", "Hi!"]
    assert shown[3] == ["Which order was it?", "A-17.", "And now?"]
    assert "Hello!" not in shown[4]
    assert shown[4][-1] == "Once more?"


async def test_handoff_filters_show_less_and_lose_nothing(stage: Stage) -> None:
    check = [call("check_identity", "c1", name="Mara Lindholm")]
    printed = await stage.play(
        "handoff_filters",
        desk=[
            check,
            [call("transfer_to_repairs", "c2")],
            check,
            [call("transfer_to_warranty", "c3")],
            check,
            [call("transfer_to_archive", "c4")],
        ],
        doctor=["Descale it."],
        lawyer=["For two years."],
        archivist=["You were here before."],
    )
    assert printed[::2] == [
        "Repairs: Descale it.",
        "Warranty: For two years.",
        "Archive: You were here before.",
    ]
    assert shapes(stage.asked("doctor").input)[-1] == "My kettle is broken."
    assert len(stage.asked("doctor").input) == 3
    assert shapes(stage.asked("lawyer").input) == ["Is my mixer under warranty?"]
    (told,) = shapes(stage.asked("archivist").input)
    assert "<so far>" in told
    assert "passport 7731" in told


async def test_structured_output_is_of_its_type(stage: Stage) -> None:
    printed = await stage.play(
        "structured_output",
        clerk=[answer(subject="Late", urgency="high", orders=["A-18", "A-20"])],
        listener=[answer(response={"value": -0.5})],
        splitter=[answer(response=["Where?", "When?"])],
        collector=[answer(facts={"phone": "broken", "channel": "mail"})],
    )
    assert printed == [
        "ticket: Late (high) A-18, A-20",
        "mood: -0.5",
        "questions: 2",
        "facts: channel, phone",
    ]


async def test_structured_output_that_does_not_fit_is_an_error(stage: Stage) -> None:
    printed = await stage.play(
        "structured_output",
        clerk=[answer(subject="Late", urgency="low", orders=[])],
        listener=[answer(response={"value": 0})],
        splitter=[answer(response=[])],
        collector=["Facts? None."],
    )
    assert printed[-1] == "no facts: ModelBehaviorError"


async def test_dynamic_instructions_follow_the_context(stage: Stage) -> None:
    printed = await stage.play(
        "dynamic_instructions",
        concierge=[[call("note", "c1", text="no nickel")], "In cast iron."],
    )
    assert printed == [
        "answered: In cast iron.",
        "here: ['no nickel']",
        "in the run: ['no nickel']",
    ]
    first, second = (str(one.instructions) for one in stage.models["concierge"].requests)
    assert first == "You are the Concierge and talk to Mara. Be generous."
    assert second == f"{first} You have noted: no nickel."


async def test_hooks_see_every_step(stage: Stage) -> None:
    printed = await stage.play(
        "hooks",
        desk=[[call("transfer_to_workshop", "c1")]],
        workshop=[[call("spare_parts", "c2", appliance="kettle")], "Yes."],
    )
    assert "(Workshop is at the counter)" in printed
    assert [line for line in printed if line[0] != "("] == [
        "1. Reception desk starts",
        "2. Reception desk's model has used 15 tokens",
        "3. Reception desk hands over to Workshop",
        "4. Workshop starts",
        "5. Workshop's model has used 15 tokens",
        "6. spare_parts: a lid for the kettle",
        "7. Workshop's model has used 15 tokens",
        "8. Workshop ends: Yes.",
        "steps in all: 8",
    ]


async def test_error_handlers_answer_in_place_of_errors(stage: Stage) -> None:
    ask: Callable[[str], list[JsonObject]] = lambda id_: [  # noqa: E731
        call("ask_warehouse", id_, article="wok")
    ]
    printed = await stage.play(
        "error_handlers", desk=[ask("c1"), ask("c2"), refuse("No."), ask("c3")]
    )
    assert printed == [
        "answered: We asked 2 times. A colleague will write to you.",
        "answered: We cannot help with that (ModelRefusalError).",
        "failed: MaxTurnsExceeded after 2 items",
    ]


async def test_durable_run_is_the_same_under_its_id(stage: Stage) -> None:
    pattern = stage.load(
        "durable_run",
        desk=[
            [call("book_repair", "c1", article="mixer")],
            "Your mixer is booked.",
            "Bring your kettle.",
            "On Monday.",
        ],
    )
    run_id = f"repair-{secrets.token_hex(4)}"
    await pattern.main(run_id)
    once = f"{run_id}: Your mixer is booked. (2 model calls)"
    assert stage.lines() == [
        once,
        once,
        "first answer: Bring your kettle.",
        "second answer: On Monday.",
        "it is idle, after 2 model calls",
        "in the end completed",
    ]
    await pattern.main(run_id)  # everything is said and done; nothing is asked again
    assert stage.lines()[-2:] == ["it is completed, after 2 model calls", "in the end completed"]
    assert "The mixer is booked as c1." in str(stage.asked("desk", 1).input)


async def test_testing_agents_needs_no_server(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    await importlib.import_module("patterns.testing_agents").main()
    assert capsys.readouterr().out.splitlines() == [
        "answered: One of the two is paid., paid: 1, model calls: 3",
        "waits for: ['pay_back', 'pay_back']",
    ]


@pytest.mark.full
async def test_mcp_server_is_started_and_asks_a_person(stage: Stage) -> None:
    printed = await stage.play(
        "mcp_server",
        clerk=[
            [call("stock_of", "c1", article="wok"), call("stock_of", "c2", article="kettle")],
            [call("order", "c3", article="kettle", count=20)],
            "Woks yes; 20 kettles are ordered.",
        ],
    )
    assert printed == [
        'to decide: order({"article": "kettle", "count": 20})',
        "the server said: 12",
        "the server said: 0",
        "the server said: 20 x kettle: ordered",
        "answer: Woks yes; 20 kettles are ordered.",
    ]
