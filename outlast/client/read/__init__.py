"""Internal. Reads a run from its history, live or late."""
