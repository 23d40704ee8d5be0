"""Internal. Runs guardrails, and turns their results into records and failures."""
