"""What a person reads before deciding: a request, its rules, and the model's own words.

The words of the model come last and are marked: they may deceive, the arguments do not.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from outlast.cli import terminal
from outlast.cli.view import WHO_WIDTH, say_facts
from outlast.edges import rendering
from outlast.edges.clock import now_ms
from outlast.edges.rendering import joined
from outlast.views.proofs import Proof
from outlast.views.records import ApprovalRequest, DecisionType
from outlast.views.request import facts, headline
from outlast.views.words import budget_line

LONGEST_ARGUMENTS = 20_000
"""The maximum number of characters of a call's arguments in an approval request."""

LONGEST_WORDS = 600
"""The maximum number of characters of the model's own words."""

MOST_LINES = 12
"""The maximum number of lines of the model's own words."""

_BAR: Final = ("│", "dim")
COMMANDS: Final[dict[DecisionType, tuple[str, str]]] = {
    "approve": ("approve", ""),
    "reject": ("reject", '--message "..."'),
    "edit": ("inbox edit", "--arguments '{...}'"),
    "respond": ("inbox respond", '--text "..."'),
}


def show_approval(
    console: terminal.Screen,
    request: ApprovalRequest,
    run_id: str,
    words: str = "",
    proofs: Sequence[Proof] = (),
) -> None:
    """Print an approval request with the details needed for a decision.

    Args:
        console: where it is printed.
        request: the request, as people may see it.
        run_id: the run that made it.
        words: the model's own words about it.
        proofs: whether each of its votes is proven to a reader with keys; none where nobody has any.
    """
    say_facts(console, [headline(request)])
    spent = budget_line(request.arguments) if request.kind == "budget" else None
    if spent is None:
        say_arguments(console, request.arguments, run_id)
    else:
        say_facts(console, [("spent", spent)])
    say_facts(console, facts(request, now_ms(), proofs))
    if words:
        _say_words(console, words)


def show_how_to_decide(
    console: terminal.Screen,
    run_id: str,
    requests: Iterable[ApprovalRequest],
    words: Mapping[str, str] | None = None,
    proofs: Mapping[str, Sequence[Proof]] | None = None,
) -> None:
    """Print a run's pending requests, and the commands to decide them; see `show_approval`."""
    for request in requests:
        terminal.say(console, (joined(run_id, " waits for a person:"), "bold yellow"))
        said, proven = (words or {}).get(request.id, ""), (proofs or {}).get(request.id, ())
        show_approval(console, request, run_id, said, proven)
        for kind in _shown_decisions(request):
            if kind == "approve" and request.terms.takeover:
                terminal.say(console, "  ", rendering.command("hold", run_id))
                continue
            verb, option = COMMANDS[kind]
            line = rendering.decision_command(
                verb, run_id, request.id, request.digest, options=option
            )
            terminal.say(console, "  ", line)


def _shown_decisions(request: ApprovalRequest) -> Iterator[DecisionType]:
    allowed = request.terms.allow
    is_free = {"approve", "reject"} <= set(allowed)
    return (kind for kind in COMMANDS if kind in ({"approve", "reject"} if is_free else allowed))


# --- The model's own words ------------------------------------------------------------------------


def _say_words(console: terminal.Screen, words: str) -> None:
    lines = rendering.visible_lines(rendering.cut(words, LONGEST_WORDS))
    if len(lines) > MOST_LINES:
        left = rendering.visible(f"… (cut: {MOST_LINES} of {len(lines):,} lines)")
        lines = [*lines[:MOST_LINES], left]
    for at, line in enumerate(lines):
        label = ("  model says" if at == 0 else "", "dim")
        terminal.say_columns(console, label, ("┊", "dim"), line, widths=[WHO_WIDTH + 2, 1])
    note = "the model's own words, which nobody has checked: decide by the arguments"
    say_facts(console, [("", joined("↑ ", note))])


# --- Its arguments ---------------------------------------------------------------------------------


def say_arguments(
    console: terminal.Screen, arguments: str, run_id: str, label: str = "arguments"
) -> None:
    """Print arguments, with a bar before each line that is not wrapped."""
    whole = len(arguments) <= LONGEST_ARGUMENTS
    lines = rendering.argument_lines(arguments) if whole else None
    if lines is None:
        label = "text" if whole else "beginning"
        lines = rendering.visible_lines(arguments[:LONGEST_ARGUMENTS])
    for at, line in enumerate(lines):
        name = (f"  {label}" if at == 0 else "", "dim")
        terminal.say_columns(console, name, _BAR, line, widths=[WHO_WIDTH + 2, 1])
    for key in rendering.repeated_keys(arguments):
        note = f"the key {json.dumps(key)} is repeated; tools usually take its last value"
        say_facts(console, [("careful", note)])
    if not whole:
        remark = rendering.remark(LONGEST_ARGUMENTS, len(arguments))
        command = rendering.command("show", run_id, options="--json")
        say_facts(console, [("careful", joined(remark, " All of them: `", command, "`"))])
