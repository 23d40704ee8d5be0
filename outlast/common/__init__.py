"""Internal. What all rooms use, and which knows nothing of runs: time, escapes, bounds of bodies, lazy names."""
