"""Budgets of trees of runs: shares of nested runs are never spent twice, and nobody waits in vain.

A tree is played in one process: each run is a state, signals between runs arrive in the order in
which each run sends them, and everything that may happen next happens in any order.
"""

import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.contract import history, names, records
from outlast.contract.failures import EngineFailure
from outlast.loop.approvals import ApprovalTerms, Decision
from outlast.loop.calls import ModelReply, PreparedRun, ToolResult
from outlast.loop.effects import (
    CallModel,
    CancelEffect,
    Command,
    Effect,
    EffectAnswered,
    Finish,
    LendBudget,
    NotifyParent,
    PrepareRun,
    RunAgent,
    RunTool,
)
from outlast.loop.events import CancelRequested, Event, MessageReceived, PersonActed, RunForked
from outlast.loop.fork import Fork
from outlast.loop.invariants import check
from outlast.loop.items import Message
from outlast.loop.machine import advance
from outlast.loop.spending import spent_of_parent
from outlast.loop.start import Budget, Spending
from outlast.loop.state import LoopState
from outlast.loop.values import Usage
from tests.laws.driver import nested, reply_of, said, tool
from tests.laws.strategies import examples

ROOT = "r"
COST = 7
"""What each model call costs, in tokens and in millionths of a dollar."""

Script = Callable[[str, int], ModelReply]
"""Returns the reply of a run's model call, by the run's id and the number of the call."""


@dataclass
class Tree:
    """A root and the runs nested in it.

    Attributes:
        script: the models.
        states: the runs, by id.
        effects: what may end next: the run and its effect.
        signals: what is under way between runs, for each sender.
        calls: how many model calls have begun, by run.
        signalled: how many signals were sent.
    """

    script: Script
    budgets: tuple[Budget, ...]
    states: dict[str, LoopState] = field(default_factory=dict[str, LoopState])
    effects: list[tuple[str, Effect]] = field(default_factory=list[tuple[str, Effect]])
    signals: dict[str, deque[tuple[str, str, Any]]] = field(
        default_factory=dict[str, deque[tuple[str, str, Any]]]
    )
    calls: dict[str, int] = field(default_factory=dict[str, int])
    replied: int = 0
    signalled: int = 0
    now_ms: int = 1_000

    def __post_init__(self) -> None:
        written = [records.write(one) for one in self.budgets]
        self.start(ROOT, records.RunInput(agent="Lead", settings={names.SETTING_BUDGETS: written}))

    @property
    def root(self) -> LoopState:
        return self.states[ROOT]

    def start(self, run_id: str, record: records.RunInput) -> None:
        record = records.read(records.RunInput, json.loads(json.dumps(records.write(record))))
        self.states[run_id] = LoopState()
        self.take(run_id, history.started(run_id, record, self.now_ms))

    def take(self, run_id: str, event: Event) -> None:
        self.now_ms += 1
        state, commands = advance(self.states[run_id], event)
        check(state)
        # Every state can be carried into a new history.
        self.states[run_id] = records.read_state(records.write_state(state))
        for command in commands:
            self._dispatch(run_id, command)

    def _dispatch(self, run_id: str, command: Command) -> None:
        match command:
            case NotifyParent() | LendBudget():
                self.signalled += 1
                to, name, payload = records.signal_of(command)
                self.signals.setdefault(run_id, deque()).append((to, name, payload))
            case CancelEffect():
                for one in [one for one in self.effects if one[0] == run_id]:
                    if one[1].effect == command.effect:
                        self.effects.remove(one)
                for nested_id in list(self.states):
                    if nested_id.rpartition("/")[0] == run_id and (
                        history.effect_of_nested(nested_id) == command.effect
                    ):
                        self.take(nested_id, CancelRequested(at_ms=self.now_ms))
            case Finish():
                self._finished(run_id)
            case RunAgent():
                record = records.nested_input(command, visibility=False)
                self.start(command.nested_id, record)
            case CallModel():
                self.calls[run_id] = self.calls.get(run_id, 0) + 1
                self.effects.append((run_id, command))
            case _ if isinstance(command, Effect):
                self.effects.append((run_id, command))
            case _:
                raise AssertionError(command)

    def _finished(self, run_id: str) -> None:
        state = self.states[run_id]
        parent = state.start.parent
        if parent is None or self.states[parent.run_id].outcome is not None:
            return
        pending = self.states[parent.run_id].pending
        effect = next((one for one in pending if getattr(one, "nested_id", "") == run_id), None)
        if effect is None or state.outcome == "cancelled":
            return
        result = records.RunResultRecord(
            status="completed",
            agent=state.agent,
            final_output=state.final_output,
            usage=state.usage,
            spent=spent_of_parent(state),
        )
        self.take(parent.run_id, history.answered(effect, records.write(result), self.now_ms))

    def step(self, pick: int) -> bool:
        """Let one thing happen that may happen next; False if there is nothing."""
        senders = [one for one, waiting in self.signals.items() if waiting]
        if not (self.effects or senders):
            return False
        at = pick % (len(self.effects) + len(senders))
        if at >= len(self.effects):
            to, name, payload = self.signals[senders[at - len(self.effects)]].popleft()
            self.take(to, history.signalled(name, [payload], self.now_ms))
            return True
        run_id, effect = self.effects.pop(at)
        self.take(run_id, self._answer(run_id, effect))
        return True

    def _answer(self, run_id: str, effect: Effect) -> Event:
        number, at_ms = effect.effect, self.now_ms
        match effect:
            case PrepareRun():
                return EffectAnswered(at_ms=at_ms, effect=number, result=PreparedRun())
            case CallModel():
                self.replied += 1
                reply = self.script(run_id, self.calls[run_id])
                return EffectAnswered(at_ms=at_ms, effect=number, result=reply)
            case RunTool():
                result = ToolResult(output="ok")
                return EffectAnswered(at_ms=at_ms, effect=number, result=result)
            case _:
                raise AssertionError(effect)

    def settle(self, picks: Callable[[], int] = lambda: 0) -> None:
        """Let everything happen that may, until the tree ends or waits for people."""
        while self.step(picks()):
            pass

    def decide(self, kind: Any, **fields: Any) -> None:
        (request,) = [one for one in self.root.approvals if one.status == "pending"]
        decision = Decision(request_id=request.id, type=kind, **fields)
        self.take(ROOT, PersonActed(at_ms=self.now_ms, action=decision))

    @property
    def request(self) -> dict[str, Any]:
        (request,) = self.root.pending_approvals
        return json.loads(request.arguments)


def reply(*parts: Any) -> ModelReply:
    usage = Usage(requests=1, input_tokens=COST, total_tokens=COST, cost_micros=COST, priced=1)
    return reply_of(*parts, usage=usage)


def of_tree(of: Spending, limit: int, **fields: Any) -> Budget:
    wanted: dict[str, Any] = {"terms": ApprovalTerms(), **fields}
    return Budget(of=of, limit=limit, **wanted)


def deep(turns: int, *targets: str) -> Script:
    """Each run asks the agents below it, one after the other; the lowest ones call a tool."""

    def script(run_id: str, number: int) -> ModelReply:
        depth = run_id.count("/")
        if depth < len(targets) and number == 1:
            return reply(nested(targets[depth], "c1"))
        if depth == len(targets) and number <= turns:
            return reply(tool("look", f"c{number}"))
        return reply(said("Done."))

    return script


def wide(turns: int, *targets: str) -> Script:
    """The root asks agents at once, each of which calls a tool several times."""

    def script(run_id: str, number: int) -> ModelReply:
        if run_id == ROOT:
            calls = [nested(one, f"c{at}") for at, one in enumerate(targets)]
            return reply(*calls) if number == 1 else reply(said("Done."))
        return reply(tool("look", f"c{number}")) if number <= turns else reply(said("Done."))

    return script


@pytest.mark.parametrize(
    ("budget", "spent"),
    [
        (of_tree("model_calls", 3), 3),
        (of_tree("tokens", 3 * COST - 1), 3 * COST),
        (of_tree("cost_micros", 3 * COST), 3 * COST),
        (of_tree("tool_calls", 3), 3),
        (of_tree("model_calls", 2, per="agent"), 2),
        (of_tree("model_calls", 2, agent="Helper"), 2),
        (of_tree("model_calls", 3, per="question"), 3),
    ],
    ids=lambda one: f"{one.of}-{one.per}-{one.agent}" if isinstance(one, Budget) else "",
)
def test_a_nested_run_stops_where_the_budget_of_its_root_is_used_up(
    budget: Budget, spent: int
) -> None:
    tree = Tree(deep(60, "Helper"), (budget,))
    tree.settle()
    assert (tree.request["spent"], tree.root.status) == (spent, "waiting")
    assert tree.replied == 3
    assert tree.request["spent_by_nested_runs"] > 0
    assert tree.signalled == 1, "a share that lasts is not reported"
    tree.decide("edit", edited_arguments={"extend_by": 10_000})
    tree.settle()
    assert (tree.root.outcome, tree.replied) == ("completed", 63)


def test_runs_without_budgets_tell_each_other_nothing() -> None:
    tree = Tree(deep(60, "Helper"), ())
    tree.settle()
    assert (tree.root.outcome, tree.signalled, tree.root.lent) == ("completed", 0, ())


def test_each_extension_reaches_runs_two_levels_below() -> None:
    tree = Tree(deep(4, "Middle", "Helper"), (of_tree("model_calls", 3),))
    tree.settle()
    assert (tree.replied, tree.request["spent"], tree.request["limit"]) == (3, 3, 3)
    tree.decide("approve")
    tree.settle()
    assert (tree.replied, tree.request["spent"], tree.request["limit"]) == (6, 6, 6)
    assert tree.request["spent_by_nested_runs"] == 5
    tree.decide("approve")
    tree.settle()
    assert (tree.root.outcome, tree.replied) == ("completed", 9)


def test_a_rejected_budget_ends_the_question_and_its_nested_runs() -> None:
    tree = Tree(wide(9, "Ann", "Bob"), (of_tree("model_calls", 5),))
    tree.settle()
    tree.decide("reject", message="Enough.")
    tree.settle()
    assert tree.root.failure is not None
    assert tree.root.failure.code == "budget_exceeded"
    assert tree.replied == 5
    assert {one.outcome for one in tree.states.values()} == {"failed", "cancelled"}


def test_a_budget_that_asks_nobody_fails_the_question_of_the_root() -> None:
    tree = Tree(deep(9, "Helper"), (of_tree("model_calls", 3, terms=None),))
    tree.settle()
    assert (tree.root.outcome, tree.replied) == ("failed", 3)


def test_a_question_keeps_its_own_count_of_nested_runs() -> None:
    tree = Tree(deep(1, "Helper"), (of_tree("model_calls", 100, per="question"),))
    tree.settle()
    assert [one.spent for one in tree.root.lent] == [((0, 2),)]


def test_a_nested_run_that_ends_alone_takes_its_request_along() -> None:
    tree = Tree(deep(60, "Helper"), (of_tree("model_calls", 3),))
    tree.settle()
    (effect,) = [one for one in tree.root.pending if isinstance(one, RunAgent)]
    ended = history.failed(effect, EngineFailure(kind="cancelled"), tree.now_ms)
    tree.take(ROOT, ended)
    assert [one.status for one in tree.root.approvals] == ["superseded", "pending"]
    assert tree.root.phase == "asking", "the model is called by the root, whose budget it is"


def test_time_and_the_budgets_of_other_agents_are_not_shared() -> None:
    others = (of_tree("seconds", 60), of_tree("tokens", 9, per="agent", agent="Billing"))
    tree = Tree(deep(1, "Helper"), (*others, of_tree("tokens", 99, per="agent")))
    tree.settle()
    assert [one.shares for one in tree.root.lent] == [((2, 99),)]
    assert tree.root.outcome == "completed"


def test_a_fork_lends_its_own_nested_run_the_share_anew() -> None:
    tree = Tree(deep(60, "Helper"), (of_tree("model_calls", 3),))
    tree.settle()
    fork = RunForked(
        at_ms=tree.now_ms, run_id="copy", chain_id="c", fork=Fork(run_id=ROOT, event=3)
    )
    state, commands = advance(tree.root, fork)
    (before,), (lent,) = tree.root.lent, state.lent
    (run,) = [one for one in commands if isinstance(one, RunAgent)]
    assert lent == replace(before, nested_id=run.nested_id, spent=(), wants=())
    assert run.nested_id == f"copy{before.nested_id.removeprefix(ROOT)}"
    assert before.wants == (0,)


def test_a_nested_run_of_a_fork_spends_all_that_its_source_was_lent_before_anybody_is_asked() -> (
    None
):
    tree = Tree(deep(60, "Helper"), (of_tree("model_calls", 3),))
    tree.settle()
    tree.decide("approve")
    assert [one.shares for one in tree.root.lent] == [((0, 5),)]
    fork = RunForked(
        at_ms=tree.now_ms, run_id="copy", chain_id="c", fork=Fork(run_id=ROOT, event=3)
    )
    tree.states = {"copy": tree.root}
    tree.effects, tree.signals, tree.replied = [], {}, 0
    tree.take("copy", fork)
    [lent] = tree.states["copy"].lent
    assert lent.shares == ((0, 2),), "what the nested run begins with"
    tree.settle()
    assert tree.states["copy"].status == "waiting"
    assert tree.replied == 5, "the source was lent as much"


def test_an_interruption_does_not_withdraw_what_nested_runs_wait_for() -> None:
    tree = Tree(deep(9, "Helper"), (of_tree("model_calls", 3),))
    tree.settle()
    message = Message("m2", ({"role": "user", "content": "Stop"},), tree.now_ms, "interrupt")
    tree.take(ROOT, MessageReceived(at_ms=tree.now_ms, message=message))
    assert [one.status for one in tree.root.approvals] == ["pending"]
    tree.decide("edit", edited_arguments={"extend_by": 99})
    tree.settle()
    assert tree.root.outcome == "completed"


def test_a_forged_report_lends_nothing_beyond_the_budget() -> None:
    tree = Tree(deep(60, "Helper"), (of_tree("model_calls", 9),))
    for _ in range(4):
        tree.step(0)
    (lent,) = tree.root.lent
    forged = {"nested_id": lent.nested_id, "spent": [[0, 1], [7, 99]], "wants": [[0, 1]]}
    tree.take(ROOT, history.signalled("nested", [forged], tree.now_ms))
    assert dict(tree.root.lent[0].spent) == {0: 1}
    assert tree.root.lent[0].wants == ()
    tree.take(ROOT, history.signalled("lend", [{"index": 0, "share": 99}], tree.now_ms))
    assert tree.root.extended == (), "the root has no parent that could lend it anything"


# --- Laws ----------------------------------------------------------------------------------------

REPLIES = ("tool", "tool", "one", "two", "three", "answer")


@st.composite
def trees(draw: st.DrawFn) -> tuple[Tree, Callable[[], int]]:
    seed = draw(st.integers(0, 10_000))
    of: Spending = draw(st.sampled_from(["model_calls", "tokens", "cost_micros", "tool_calls"]))
    per = draw(st.sampled_from(["run", "question"]))
    limit = draw(st.integers(1, 40))
    further = draw(st.sampled_from([(), (of_tree("model_calls", 9, per="agent"),)]))

    def script(run_id: str, number: int) -> ModelReply:
        depth = run_id.count("/")
        kinds = REPLIES if depth < 2 else ("tool", "answer")
        kind = kinds[hash((seed, sum(map(ord, run_id)), number)) % len(kinds)]
        if kind == "answer" or number > 4:
            return reply(said("Done."))
        if kind == "tool":
            return reply(tool("look", f"c{number}"))
        count = ("one", "two", "three").index(kind) + 1
        return reply(*(nested(f"A{at}", f"c{number}-{at}") for at in range(count)))

    picks = iter(draw(st.lists(st.integers(0, 99), min_size=60, max_size=60)) * 200)
    return Tree(script, (of_tree(of, limit, per=per), *further)), lambda: next(picks, 0)


@pytest.mark.no_cover
@given(trees())
@examples(60)
def test_a_tree_spends_no_more_than_its_budget_and_one_call_of_each_run(
    drawn: tuple[Tree, Callable[[], int]],
) -> None:
    """L30: what a tree has spent exceeds its budget by at most the last call of each run.

    Model calls never exceed it. L31: people are asked only when everything is spent, and are told
    what the tree has spent. L32: with all
    that people add, every run of the tree ends.
    """
    tree, picks = drawn
    (budget, *_) = tree.budgets
    for _ in range(300):
        while tree.step(picks()):
            allowed = budget.limit + sum(more for at, more in tree.root.extended if at == 0)
            if budget.of == "model_calls":
                assert sum(tree.calls.values()) <= allowed
            elif budget.of != "tool_calls":
                assert tree.replied * COST < allowed + COST * len(tree.states)
        if tree.root.outcome is not None:
            break
        request = tree.request
        if len(tree.budgets) == 1:  # of two, a run may wait for one with a share of the other
            assert request["spent"] >= request["limit"]
            assert budget.of != "model_calls" or request["spent"] == tree.replied
        tree.decide("edit", edited_arguments={"extend_by": 1 + picks() % 20})
    assert {one.outcome for one in tree.states.values()} == {"completed"}
