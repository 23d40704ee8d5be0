"""Internal. Function tools, hosted tools, and the policy after their calls."""
