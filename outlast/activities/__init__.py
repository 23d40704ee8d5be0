"""The effects: where users' code, models and tools run.

Owns: answering the loop's effects. `model.py`, `tool.py` and `handoff.py` each answer one kind
and know nothing of Temporal; `boundary.py` is where Temporal's activities call them.
"""
