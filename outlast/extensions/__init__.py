"""Ready-made parts for agents: handoff filters and prompts. Knows what users know, and no more."""
