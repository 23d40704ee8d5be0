"""Ready-made parts for agents: handoff filters and prompts, built on the public interface."""
