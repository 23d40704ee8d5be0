"""Internal. Handoffs, and their filters of the conversation that the next agent sees."""
