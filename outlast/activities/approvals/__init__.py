"""Internal. Whether a call needs people, and whether their decisions let it run."""
