"""What has to hold between a run and the teams that it reports to, whatever happens."""

from collections.abc import Sequence

from outlast.loop.actions import TeamReport
from outlast.loop.case_acts import standing_of
from outlast.loop.effects import Command, ReportToTeam
from outlast.loop.events import Event, RunEnded, RunForked, TeamAnswered
from outlast.loop.state import LoopState

_ANSWERED = ("to", "since_ms", "due_ms")
"""The fields of a case that the answer of a team sets; others change by the time of the step."""


class TeamLaws:
    """What each team has heard of a run, and that it is true.

    Attributes:
        heard: the newest report to each team.
        answered: whom the team has named since its newest report; None if it has not answered.
    """

    def __init__(self) -> None:
        self.heard: dict[str, TeamReport] = {}
        self.answered: str | None = None

    def check(
        self, before: LoopState, event: Event, after: LoopState, commands: Sequence[Command]
    ) -> None:
        """Check a step."""
        told = [one for one in commands if isinstance(one, ReportToTeam)]
        assert len({one.team for one in told}) == len(told), "a team hears once of a step"
        for one in told:
            assert one.record.report == before.case.report + 1, (
                "a newer report has a greater number"
            )
            assert one.record.run_id == after.run_id
            self.heard[one.team] = one.record
        if isinstance(event, TeamAnswered):
            assert all(one.record.taken for one in told), "its own answer is no news for a team"
            if any(getattr(after.case, one) != getattr(before.case, one) for one in _ANSWERED):
                self.answered = event.to
        if told or isinstance(event, RunForked):
            self.answered = None
        if not isinstance(event, RunEnded | RunForked):
            self._check_heard(after)

    def _check_heard(self, state: LoopState) -> None:
        standing = standing_of(state)
        assert standing is None or standing.team in self.heard, (
            "the team hears of what it has to do"
        )
        for team, heard in self.heard.items():
            has_it = standing is not None and standing.team == team
            assert heard.gone != has_it, "what each team knows is true"
            if standing is None or not has_it:
                continue
            assert heard.taken == standing.taken
            assert standing.to == (heard.to if self.answered is None else self.answered)
