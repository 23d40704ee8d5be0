"""The agents of the desk's tests: those of the support desk, and a few that are asked oddly.

`outlast worker tests.browser.agents` hosts them, and `outlast serve tests.browser.agents` offers them.
"""

from typing import Any

from support_desk import settings
from support_desk.agents import triage
from support_desk.context import Customer
from support_desk.shop import Shop

from outlast import Agent, ApprovalPolicy, Audience, ToolContext, function_tool

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
                "count": {"type": "integer", "description": "How many are there."},
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
def write_letter(ctx: ToolContext[Any], address: str, text: str, copies: int = 1) -> str:
    """Send a letter, and note it in the ledger.

    Args:
        address: Who gets it.
        text: What it says.
        copies: How many.
    """
    question = f"{copies} to {address}: {text}"
    ticket = Shop.open(settings.database_path()).open_ticket(question, key=ctx.idempotency_key)
    return f"{ticket.id}: {question}"


@function_tool(
    effect="irreversible",
    needs_approval=ApprovalPolicy(
        audience=BILLING, quorum=2, risk="high", reason="Two people sign a contract."
    ),
)
def sign_contract(ctx: ToolContext[Any], title: str) -> str:
    """Sign a contract, and note it in the ledger.

    Args:
        title: Its title.
    """
    Shop.open(settings.database_path()).open_ticket(title, key=ctx.idempotency_key)
    return f"signed {title}"


@function_tool(
    title="Refund",
    effect="reversible",
    needs_approval=ApprovalPolicy(
        headline="Refund {amount} EUR to {customer}", audience=BILLING, bulk=True
    ),
)
def refund(ctx: ToolContext[Any], amount: float | str, customer: str) -> str:
    """Refund a customer, and note it in the ledger.

    Args:
        amount: How much.
        customer: Who gets it.
    """
    question = f"refunded {amount} to {customer}"
    Shop.open(settings.database_path()).open_ticket(question, key=ctx.idempotency_key)
    return question


@function_tool
def ask_people(ctx: ToolContext[Any], team: str) -> str:
    """Give the conversation to people.

    Args:
        team: The team.
    """
    ctx.hand_to_team(team)
    return "A colleague takes over."


writer = Agent[Any](
    name="Writer",
    instructions="Write what you are asked for.",
    tools=[write_letter, count_stock, sign_contract, refund, ask_people],
)

lead = Agent[Any](
    name="Lead",
    instructions="Let the writer write.",
    tools=[writer.as_tool("ask_writer", "Ask the writer, who reads only this.")],
)

careful = Agent[Any](
    name="Careful",
    instructions="Write what you are asked for.",
    output_approval=ApprovalPolicy(
        audience=BILLING,
        customer_text="A colleague reads it first.",
    ),
)

agents = [triage, writer, lead, careful]
