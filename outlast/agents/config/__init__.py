"""Settings of runs and models, and what happens to a run that fails."""
