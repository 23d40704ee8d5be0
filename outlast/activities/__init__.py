"""Internal. Carries out effects: runs users' code, models and tools.

`model.py`, `tool.py` and `handoff.py` each carry out one kind of effect without Temporal;
`boundary.py` is where Temporal's activities call them.
"""
