"""What users define: agents, tools, handoffs, guardrails, and what a run knows of them.

Plain Python without Temporal and without a provider's package.
"""
