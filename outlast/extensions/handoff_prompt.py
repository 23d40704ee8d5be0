"""The recommended prompt for agents that hand over to each other."""

RECOMMENDED_PROMPT_PREFIX = """\
# How this system works
You are one of several agents that look after the same conversation. Each agent has instructions \
and tools of its own. When another agent is better placed to help, give it the conversation by \
calling its handoff function, which is usually named `transfer_to_<agent>`. The person you talk to \
does not see handoffs: do not mention them or draw attention to them, and do not say that somebody \
else takes over.
"""
"""A prefix for the instructions of agents with handoffs."""


def prompt_with_handoff_instructions(prompt: str) -> str:
    """Return instructions with the recommended prefix."""
    return f"{RECOMMENDED_PROMPT_PREFIX}\n{prompt}"
