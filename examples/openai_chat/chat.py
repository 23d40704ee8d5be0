"""A chat in a terminal with the package `openai`: an agent of the desk answers in place of a model.

    python -m openai_chat.chat Triage

A conversation is a run, so this program may be killed and started again at any time: it goes on with
the newest response.
"""

import os
import sys
from pathlib import Path

from openai import OpenAI

NEWEST = Path(".openai-chat")
"""Has the id of the newest response."""


def answer(client: OpenAI, agent: str, text: str, previous: str | None) -> str:
    """Send a message, print the answer while it is written, and return the id of the response."""
    with client.responses.stream(model=agent, input=text, previous_response_id=previous) as stream:
        for event in stream:
            if event.type == "response.created":
                NEWEST.write_text(event.response.id, encoding="utf-8")
            elif event.type == "response.output_text.delta":
                print(event.delta, end="", flush=True)
        print()
        return stream.get_final_response().id


def main(agent: str) -> None:
    """Read messages until the input ends."""
    client = OpenAI(
        base_url=os.environ.get("DESK_URL", "http://127.0.0.1:8090") + "/v1",
        api_key=os.environ["DESK_TOKEN"],  # a customer's token, or an API key of the desk
    )
    previous: str | None = None
    if NEWEST.exists():
        previous = NEWEST.read_text(encoding="utf-8")
        print(client.responses.retrieve(previous).output_text)
    for line in sys.stdin:
        if line.strip():
            previous = answer(client, agent, line.strip(), previous)


if __name__ == "__main__":
    main(sys.argv[1])
