"""Internal. Carries out effects: runs users' code, models and tools.

`effects/` has a function for each kind of effect, without Temporal; `boundary.py` calls them from
Temporal's activities.
"""
