"""The agents of the desk's tests: those of the support desk, and a few that are asked oddly.

`outlast worker tests.browser.agents` hosts them, and `outlast serve tests.browser.agents` offers them.
"""

from typing import Any

from support_desk.agents import triage
from support_desk.context import Customer

from outlast import Agent, ApprovalPolicy, Audience, RunContextWrapper, function_tool

context_type = Customer

BILLING = Audience(groups=["billing"])


@function_tool(
    effect="reversible",
    needs_approval=ApprovalPolicy(
        audience=BILLING,
        reason="A person counts what is in the store.",
        allow=["respond", "reject"],
        response_schema={
            "type": "object",
            "properties": {
                "count": {"type": "integer", "title": "How many are there?"},
                "note": {"type": "string"},
            },
            "required": ["count"],
            "additionalProperties": False,
        },
    ),
)
def count_stock(article: str) -> str:
    """Count an article in the store.

    Args:
        article: What to count.
    """
    return f"Nobody counted {article}."


@function_tool(effect="irreversible", needs_approval=ApprovalPolicy(audience=BILLING))
def write_letter(_ctx: RunContextWrapper[Any], address: str, text: str, copies: int = 1) -> str:
    """Send a letter.

    Args:
        address: Who gets it.
        text: What it says.
        copies: How many.
    """
    return f"{copies} sent to {address}: {text}"


writer = Agent[Any](
    name="Writer", instructions="Write what you are asked for.", tools=[write_letter, count_stock]
)

agents = [triage, writer]
