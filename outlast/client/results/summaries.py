"""Summaries of results for `print(result)`, in the format of the Agents SDK."""

from pydantic import BaseModel

from outlast.agents.config.run_error import RunErrorDetails
from outlast.agents.errors import UserError
from outlast.client.results.result_members import RunResultBase
from outlast.edges.rendering import visible


def result_summary(title: str, result: RunResultBase) -> str:
    """Return the summary of a run that has ended or waits."""
    return _summary(
        title, [_agent_line("Last agent", result), _output_text(result), *_counts(result)]
    )


def progress_summary(
    title: str, result: RunResultBase, *, turn: int, max_turns: int | None, is_complete: bool
) -> str:
    """Return the summary of a run that may still be running."""
    progress = (
        _agent_line("Current agent", result),
        f"Current turn: {turn}",
        f"Max turns: {max_turns}",
        f"Is complete: {is_complete}",
    )
    return _summary(title, [*progress, _output_text(result), *_counts(result)])


def failure_summary(run: RunErrorDetails) -> str:
    """Return the summary of a run up to its failure."""
    lines = [
        _agent_line("Last agent", run),
        *_counts(run),
        f"{len(run.tool_input_guardrail_results)} tool input guardrail result(s)",
        f"{len(run.tool_output_guardrail_results)} tool output guardrail result(s)",
    ]
    return _summary("RunErrorDetails", lines)


def _summary(title: str, lines: list[str]) -> str:
    return "\n".join(
        [f"{title}:", *(f"- {one}" for one in lines), f"(See `{title}` for more details)"]
    )


def _agent_line(label: str, run: RunResultBase | RunErrorDetails) -> str:
    return f'{label}: Agent(name="{visible(run.last_agent.name)}", ...)'


def _counts(run: RunResultBase | RunErrorDetails) -> list[str]:
    return [
        f"{len(run.new_items)} new item(s)",
        f"{len(run.raw_responses)} raw response(s)",
        f"{len(run.input_guardrail_results)} input guardrail result(s)",
        f"{len(run.output_guardrail_results)} output guardrail result(s)",
    ]


def _output_text(result: RunResultBase) -> str:
    try:
        output = result.final_output
    except UserError as error:  # the answer does not fit the type, and `print` must not raise
        return f"Final output: {visible(str(error))}"
    text = output.model_dump_json(indent=2) if isinstance(output, BaseModel) else str(output)
    indented = [
        f"    {_with_tabs(line)}" for line in text.replace("\r\n", "\n").rstrip("\n").split("\n")
    ]
    return "\n".join([f"Final output ({type(output).__name__}):", *indented])


def _with_tabs(line: str) -> str:
    return "\t".join(visible(part) for part in line.split("\t"))
