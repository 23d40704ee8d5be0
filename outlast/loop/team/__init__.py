"""Internal. The machine of a team: who is on duty, and whose each conversation is.

As pure as the run's: `machine.advance` is all of it, and the same events always make the same team.
"""
