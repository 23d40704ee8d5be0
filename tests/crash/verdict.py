"""What must hold for every conversation, whatever was killed while it went on.

Owns: the comparison with the conversation in which nobody was killed.
"""

from tests.crash.trial import Report
from tests.workflow.laws import failed_tasks, merged_by_replay, timeless


def check(report: Report, baseline: Report) -> None:
    """Make sure that nobody could tell this conversation from the undisturbed one.

    Raises:
        AssertionError: somebody could.
    """
    assert report.outcome == baseline.outcome
    own, folded = report.own_state, report.state
    if merged_by_replay(report.events):
        own, folded = timeless(own), timeless(folded)
    assert own == folded, "folding the history gives another state"
    assert report.followed_state == report.state, "who followed the run saw something else"
    assert report.ledger_keys == report.expected_keys
    assert len(report.nested) == len(baseline.nested)
    for nested in report.nested:
        assert nested.own_state == nested.state, "folding a nested history gives another state"
        assert failed_tasks(nested.events) == []
    # A lost worker's task times out. One that fails is an error of ours, and retried for ever.
    assert failed_tasks(report.events) == []
