"""`outlast search`: makes and feeds the index of search, and finds conversations in it."""

import logging
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from outlast.agents.errors import UserError
from outlast.cli import terminal
from outlast.cli.caller import Caller, on_server
from outlast.cli.exit_codes import ExitCode
from outlast.cli.process_log import log_to_standard_error, say_ready
from outlast.cli.signals import stop_requested, work_until
from outlast.edges.rendering import counted, named, shown_time

if TYPE_CHECKING:
    from outlast.search.index import SearchIndex

Index: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--search-index",
        metavar="PLACE",
        help="The index of search: a file, or postgresql://HOST/DATABASE. Default: "
        "OUTLAST_SEARCH_INDEX.",
    ),
]
NO_PLACE: Final = (
    "Say where the index of search is: --search-index or OUTLAST_SEARCH_INDEX, with a file such as "
    "/var/lib/outlast/search.db, or postgresql://HOST/DATABASE."
)


def index_at(place: str | None) -> "SearchIndex | None":
    """Return the index of an option, or else the one of OUTLAST_SEARCH_INDEX, if any.

    Raises:
        UserError: it is no place of an index.
    """
    from outlast.search.locations import index_from_environment, open_index

    return index_from_environment() if place is None else open_index(place)


def chosen_index(place: str | None) -> "SearchIndex":
    """Open the index that an option names, or else the environment.

    Raises:
        UserError: neither names one, or it is no place of an index.
    """
    found = index_at(place)
    if found is None:
        raise UserError(NO_PLACE)
    return found


@on_server
async def run(caller: Caller, place: Index = None, readable: bool = False) -> None:
    """Feed the index of search until Ctrl-C, and make it if there is none.

    One process of a namespace writes it. Others wait, and take over within a minute. With
    OUTLAST_ARCHIVE, archived conversations are found, too.

    Command line:
        readable: Where contents are encrypted: store their words all the same, readable.
    """
    from outlast.client.search import SearchFeed

    log_to_standard_error(logging.WARNING)
    stop, index = stop_requested(), chosen_index(place)
    client = (await caller.connect()).client
    feed = SearchFeed(client, index, readable=readable)
    sentence = f"feeding {index!r} with conversations of {client.namespace}"
    say_ready(sentence, as_json=caller.as_json, index=repr(index), namespace=client.namespace)
    await work_until(stop, feed.run())


@on_server
async def rebuild(caller: Caller, place: Index = None, readable: bool = False) -> ExitCode | None:
    """Make the index of search anew, from the server and the archive.

    It can be searched meanwhile, unless it is damaged. Exits with 1 if a conversation cannot be read.

    Command line:
        readable: Where contents are encrypted: store their words all the same, readable.
    """
    from outlast.client.search import SearchFeed, rebuild_index

    index = chosen_index(place)
    client = (await caller.connect()).client
    feed = SearchFeed(client, index, readable=readable)
    async with terminal.waiting(terminal.err(), "reading conversations"):
        fed = await rebuild_index(feed)
    words = f"Indexed {counted(fed.stored, 'conversation')}"
    unread = f"; {fed.unread:,} could not be read." if fed.unread else "."
    caller.show({"stored": fed.stored, "unread": fed.unread}, words, unread)
    return ExitCode.FAILED if fed.unread else None


@on_server
async def status(caller: Caller, place: Index = None) -> ExitCode:
    """Show how far the index of search is.

    Exits with 1 if it is behind, damaged, or not there.
    """
    from outlast.client.search import behind_words, search_status
    from outlast.search.index import IndexStatus

    index = chosen_index(place)
    found = await search_status((await caller.connect()).client, index)
    problem, known = behind_words(found), found or IndexStatus()
    if not caller.printed_json({**asdict(known), "problem": problem or None}):
        since = f", as of {shown_time(known.as_of_ms)}" if known.as_of_ms else ""
        writer = named(known.writer) if known.writer else "no process"
        there = counted(known.documents, "conversation")
        terminal.say(terminal.out(), f"{there}{since}. Written by ", writer, ".")
        if problem:
            terminal.say(terminal.out(), (problem, "bold red"))
    return ExitCode.FAILED if problem else ExitCode.OK


@on_server
async def find(
    caller: Caller,
    words: str,
    limit: Annotated[int, typer.Option(min=1, max=1_000)] = 20,
    place: Index = None,
) -> None:
    """Find conversations, open and archived, by what was said in them: the newest first.

    Command line:
        words (WORDS): All of them must occur; parts of words count. Phrases are in double quotes.
        limit: The most conversations.
    """
    from outlast.client.search import search_conversations

    index = chosen_index(place)
    client = (await caller.connect()).client
    hits = await search_conversations(client, index, words, limit=limit)
    if caller.printed_json([one.record() for one in hits]):
        return
    for one in hits:
        run = one.document
        who = (" ", named(run.customer)) if run.customer else ()
        terminal.say(
            terminal.out(), (named(run.run_id), "bold"), *who, f" {shown_time(run.changed_ms)}"
        )
        for excerpt in one.excerpts:
            pieces = [
                (piece.text, "bold yellow" if piece.is_match else "") for piece in excerpt.pieces
            ]
            terminal.say(terminal.out(), f"  {excerpt.by}: ", *pieces)
    if not hits:
        terminal.say(terminal.err(), "Nothing found.")
