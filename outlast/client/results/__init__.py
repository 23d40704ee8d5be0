"""Internal. What a program reads of a run: results, states that wait, approval requests."""
