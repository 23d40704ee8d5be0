"""What `print(result)` shows."""

from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from outlast.agents.errors import UserError
from outlast.client.results.run_result import result_of, run_details
from outlast.client.results.summaries import progress_summary, result_summary
from tests.laws.driver import Play, said, tool
from tests.unit.client.results.test_run_result import answered


@dataclass
class Agent:
    name: str = "Desk"


@dataclass
class Outcome:
    final_output: Any
    last_agent: Any = field(default_factory=Agent)
    new_items: list[Any] = field(default_factory=lambda: [1, 2])
    raw_responses: list[Any] = field(default_factory=lambda: [1])
    input_guardrail_results: list[Any] = field(default_factory=list[Any])
    output_guardrail_results: list[Any] = field(default_factory=lambda: [1])


class Weather(BaseModel):
    city: str


def output_lines(output: Any) -> list[str]:
    result: Any = Outcome(output)
    return result_summary("RunResult", result).split("\n")[2:-5]


def test_a_result_is_printed_as_in_the_agents_sdk() -> None:
    assert str(result_of(answered())) == (
        "RunResult:\n"
        '- Last agent: Agent(name="Triage", ...)\n'
        "- Final output (str):\n"
        "    It is on its way.\n"
        "- 3 new item(s)\n"
        "- 2 raw response(s)\n"
        "- 0 input guardrail result(s)\n"
        "- 0 output guardrail result(s)\n"
        "(See `RunResult` for more details)"
    )


def test_a_streamed_result_also_shows_its_progress() -> None:
    outcome: Any = Outcome(None)
    text = progress_summary("RunResultStreaming", outcome, turn=1, max_turns=10, is_complete=False)
    assert text.split("\n")[:6] == [
        "RunResultStreaming:",
        '- Current agent: Agent(name="Desk", ...)',
        "- Current turn: 1",
        "- Max turns: 10",
        "- Is complete: False",
        "- Final output (NoneType):",
    ]


def test_a_failed_run_shows_its_counts() -> None:
    play = Play.ready(max_turns=1)
    play.replies(tool("look_up", "c1"))
    play.returns("c1")
    assert str(run_details(play.state)).split("\n") == [
        "RunErrorDetails:",
        '- Last agent: Agent(name="Triage", ...)',
        "- 2 new item(s)",
        "- 1 raw response(s)",
        "- 0 input guardrail result(s)",
        "- 0 output guardrail result(s)",
        "- 0 tool input guardrail result(s)",
        "- 0 tool output guardrail result(s)",
        "(See `RunErrorDetails` for more details)",
    ]


def test_outputs_of_each_kind_are_indented() -> None:
    assert output_lines("a\r\nb\n") == ["- Final output (str):", "    a", "    b"]
    assert output_lines(Weather(city="Oslo")) == [
        "- Final output (Weather):",
        "    {",
        '      "city": "Oslo"',
        "    }",
    ]
    assert output_lines([1, 2]) == ["- Final output (list):", "    [1, 2]"]


def test_an_output_cannot_move_the_cursor() -> None:
    assert output_lines("a\x1b[2J") == ["- Final output (str):", "    a\\u001b[2J"]


def test_the_tabs_of_an_output_stay() -> None:
    assert output_lines("a\tb\n\tc\x1b") == ["- Final output (str):", "    a\tb", "    \tc\\u001b"]


def test_an_output_that_does_not_fit_its_type_is_said_and_not_raised() -> None:
    @dataclass
    class Misfit(Outcome):
        def __getattribute__(self, name: str) -> Any:
            if name == "final_output":
                raise UserError("The answer is no Weather.")
            return super().__getattribute__(name)

    result: Any = Misfit(None)
    text = result_summary("RunResult", result)
    assert "- Final output: The answer is no Weather." in text.split("\n")


def test_the_result_of_a_run_without_an_answer_is_printed() -> None:
    play = Play.ready()
    play.replies(said("Hi"), tool("look_up", "c1"))
    assert "Final output (NoneType):\n    None" in str(result_of(play.state))
