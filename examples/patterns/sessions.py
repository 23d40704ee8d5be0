"""Sessions: a conversation of several runs, kept in SQLite.

For one conversation that lives for days, a run that stays open does as well (`durable_run.py`):
it has its own memory. A session is for memory that belongs to a customer and not to a run.
"""

import asyncio
from pathlib import Path
from typing import Any

from outlast import Agent, RunConfig, Runner, SessionSettings, SQLiteSession

desk = Agent(name="Memory desk", instructions="Answer in one sentence. Use what you know already.")

FILE = Path("sessions.db")  # not in /tmp, where everybody could make the file first


def newest_without_greetings(history: list[Any], new: list[Any]) -> list[Any]:
    """Choose what the model is shown: the new message, and of the old ones what says something."""
    return [item for item in history if item.get("content") != "Hello!"] + new


async def main(customer: str = "cust-1001", file: Path = FILE) -> None:
    """Talk to a customer in four runs."""
    # The worker loads and saves it, in activities: the file has to be on the worker's machine, and
    # for workers on several machines there is outlast.sessions.SQLAlchemySession. A save
    # that is repeated after a crash stores nothing twice.
    session = SQLiteSession(customer, file)
    await session.clear_session()

    for message in ("Hello!", "My order is A-17.", "Which order was it?"):
        result = await Runner.run(desk, message, session=session)
        print(f"{message} -> {result.final_output}")

    short = RunConfig(session_settings=SessionSettings(limit=2))
    result = await Runner.run(desk, "And now?", session=session, run_config=short)
    print(f"with the newest two items: {result.final_output}")

    chosen = RunConfig(session_input_callback=newest_without_greetings)
    result = await Runner.run(desk, "Once more?", session=session, run_config=chosen)
    print(f"with a callback: {result.final_output}")

    print(f"kept: {len(await session.get_items())} items")
    await session.pop_item()  # the last answer, to put it right
    print(f"last now: {(await session.get_items(1))[0]['content']}")


if __name__ == "__main__":
    asyncio.run(main())
