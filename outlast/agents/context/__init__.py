"""Internal. The run's context, which user callables receive, and its conversion to JSON."""
