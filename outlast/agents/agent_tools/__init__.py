"""Internal. Agents that work as tools of other agents."""
