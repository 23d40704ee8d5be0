"""An agent whose tools are agents of others: one made with the `a2a-sdk`, and one of our own desk."""

import os
from datetime import timedelta
from typing import Any

from support_desk.context import Customer

from outlast import Agent
from outlast.a2a import a2a_tool
from tests.browser.agents import writer

context_type = Customer

REMOTE = os.environ["A2A_REMOTE"]
DESK = os.environ["A2A_DESK"]

soon, never = timedelta(seconds=1), timedelta(hours=6)

caller = Agent[Any](
    name="Caller",
    instructions="Let others do it.",
    tools=[
        a2a_tool(REMOTE, name="courier", description="Carries words.", every=soon),
        a2a_tool(REMOTE, name="pushed", description="Calls back.", every=never),
        a2a_tool(REMOTE, name="asking", description="Asks people.", every=soon, asks="people"),
        a2a_tool(
            f"{DESK}/a2a/Writer",
            name="writer",
            description="Writes letters.",
            every=soon,
            headers=lambda: {"Authorization": f"Bearer {os.environ['A2A_KEY']}"},
        ),
    ],
)

agents = [caller, writer]
