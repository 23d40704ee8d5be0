"""A support desk in a terminal, made of public names.

    python -m another_desk.desk ann@example.com --groups support

Each line that you write is a command; `help` lists them.
"""

import argparse
import asyncio
import sys
import time

from temporalio.client import Client

from outlast import AgentsException, Inbox, RunSnapshot
from outlast.client import FoundRequest, RunHandle, connect
from outlast.client.identity import person
from outlast.client.live import follow
from outlast.views import (
    argument_lines,
    customer_view,
    facts,
    headline,
    request_line,
    request_problem,
    trouble_words,
    visible,
)

HELP = """\
list                      what waits for you, and the conversations that you have
show RUN                  what a conversation waits for, with what you need to know to decide
approve RUN REQUEST       let a call run, as it was shown to you
reject RUN REQUEST WORDS  do not; the model reads the words
take RUN                  take a conversation over
say RUN WORDS             answer the customer
give RUN WORDS            give the conversation back; the agent reads the words
follow RUN                follow it until it ends
quit"""
COMMANDS = {line.split()[0] for line in HELP.splitlines()} - {"quit"}


def now_ms() -> int:
    """Return the time in milliseconds since the epoch."""
    return round(time.time() * 1_000)


class Desk:
    """What one person does at the desk."""

    def __init__(self, client: Client, subject: str, groups: list[str]) -> None:
        self.client = client
        self.person = person(subject, groups=groups, method="terminal")
        self.shown: dict[tuple[str, str], FoundRequest] = {}
        self.following = set[asyncio.Task[None]]()

    async def list(self) -> None:
        """Print the runs that wait for this person, newest first, with their deadlines."""
        for entry in await Inbox(self.client).list(mine=self.person, held=True):
            due = f", due {entry.due:%H:%M}" if entry.due else ""
            has = f", {visible(entry.held_by)} has it" if entry.held_by else ""
            print(f"{visible(entry.run_id)}: {', '.join(map(visible, entry.tools))}{due}{has}")

    async def show(self, run_id: str) -> None:
        """Print the requests of a conversation, and what keeps it from going on."""
        handle = RunHandle(self.client, run_id)
        for trouble in await handle.trouble():
            print(f"  trouble: {trouble_words(trouble)}")
        for found in await handle.requests():
            self.shown[run_id, found.request.id] = found
            label, text = headline(found.shown)
            print(f"  {label}: {text}")
            for line in argument_lines(found.shown.arguments) or ("(not readable)",):
                print(f"    │ {line}")
            for name, fact in facts(found.shown, now_ms()):
                print(f"    {name}: {visible(fact)}")
            if problem := request_problem(found.state, found.request, self.person, now_ms()):
                print(f"    not for you: {problem}")

    async def approve(self, run_id: str, request_id: str) -> None:
        found = self._seen(run_id, request_id)
        receipt = await RunHandle(self.client, run_id).approve(found.request, by=self.person)
        print(receipt.words(found.request))

    async def reject(self, run_id: str, request_id: str, words: str = "") -> None:
        found, handle = self._seen(run_id, request_id), RunHandle(self.client, run_id)
        receipt = await handle.reject(found.request, message=words or None, by=self.person)
        print(receipt.words(found.request))

    async def take(self, run_id: str) -> None:
        await RunHandle(self.client, run_id).hold(by=self.person)
        print(f"You have {visible(run_id)}.")

    async def say(self, run_id: str, words: str) -> None:
        await RunHandle(self.client, run_id).say(words, by=self.person)

    async def give(self, run_id: str, words: str = "") -> None:
        receipt = await RunHandle(self.client, run_id).release(by=self.person, note=words)
        print(f"{visible(receipt.agent)} goes on.")

    async def follow(self, run_id: str) -> None:
        """Print a conversation as it goes on, beside the other commands."""
        task = asyncio.create_task(self._follow(run_id))
        self.following.add(task)
        task.add_done_callback(self.following.discard)

    async def _follow(self, run_id: str) -> None:
        said, before = 0, RunSnapshot()
        async for now in follow(RunHandle(self.client, run_id)):
            messages = customer_view(now.state).messages
            for message in messages[said:]:
                print(f"[{visible(run_id)}] {message.by}: {visible(message.text)}")
            said = len(messages)
            if now.text and not now.events:
                print(f"[{visible(run_id)}] … {visible(now.text_for(self.person.groups))}")
            if now.state.status != before.status and now.is_present:
                waiting = [visible(request_line(one)) for one in now.state.pending_approvals]
                print(f"[{visible(run_id)}] {now.state.status} {'; '.join(waiting)}".rstrip())
                before = now.state

    def _seen(self, run_id: str, request_id: str) -> FoundRequest:
        if (run_id, request_id) not in self.shown:
            raise LookupError(f"Look at it first: show {run_id}")
        return self.shown[run_id, request_id]

    async def obey(self, line: str) -> None:
        word, *rest = line.split(maxsplit=1)
        act = getattr(self, word) if word in COMMANDS else None
        most = {"list": 0, "reject": 3, "approve": 2, "say": 2, "give": 2}.get(word, 1)
        arguments = rest[0].split(maxsplit=most - 1) if rest and most else []
        try:
            await act(*arguments) if act else print(HELP)
        except (AgentsException, LookupError, TypeError) as error:
            print(f"Not done: {visible(str(error))}")


async def main() -> None:
    """Obey the lines of standard input."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("person")
    parser.add_argument("--groups", nargs="*", default=[])
    chosen = parser.parse_args()
    desk = Desk(await connect(), chosen.person, chosen.groups)
    while (line := (await asyncio.to_thread(sys.stdin.readline)).strip()) != "quit":
        await desk.obey(line or "help")


if __name__ == "__main__":
    asyncio.run(main())
