"""Handoffs, and what they change in the conversation that the next agent sees."""
