"""Internal. Checks of a run's input and output, and of the calls of its tools."""
