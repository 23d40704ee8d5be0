"""Internal. Settings of runs and models, and the handling of failed runs."""
