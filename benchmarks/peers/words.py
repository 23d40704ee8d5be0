"""The prose of the page."""

from typing import Final

OPENING: Final = """# Side by side

<!-- Drawn by `python -m benchmarks.peers.page`: change that, and draw it again. -->

The same scripted conversation, carried by outlast, by a loop written by hand on Temporal (the *floor*), and by other ways to keep the runs of
agents. In each turn but the last, the model calls one tool; the last turn is the answer. All use one model over HTTP, which answers at once
and is a process of its own, and the same tool. Machines differ, and this one ran other programs, too: CPU times of the same cell differ by
up to a factor of two between rounds. So compare ratios, which are taken within rounds, and lengths and counts, which do not change."""

SUBJECTS: Final = """## Who is compared

- **outlast**: a worker as `outlast worker` runs it, with `outlast[speed]`. Its tool says that it only reads (`effect="read"`), so it runs as a
  local activity while its calls are short.
- **outlast-activities**: the same, with a tool that does not say so: an activity for each call.
- **floor**: a workflow of a hundred lines with two activities a turn, as a good engineer writes it. It sends each model call a reference to the
  conversation instead of the conversation. It has no agents, approvals, handoffs, streaming, retries by kind of error, or records for people.
- **floor-transport**: the floor, with the HTTP transport, event loop and connection of outlast's worker in place of the defaults.
- **temporalio-openai-agents**: the OpenAI Agents SDK on Temporal, configured as its README does: tools by `activity_as_tool`.
- **pydantic-ai**: an agent with `TemporalDurability` and its plugin, whose payload converter it brings.
- **dbos-openai-agents**: the OpenAI Agents SDK with `DBOSRunner` on PostgreSQL; tools are steps.
- **langgraph**: `create_agent` with the PostgreSQL checkpointer and `durability="sync"`. Its default, `"async"`, is faster and may lose the last step.
- **langgraph-sqlite**: the same with the SQLite checkpointer.
"""

FAIRNESS: Final = """What favors whom:

- dbos and langgraph run inside the program that asks, so nothing is dispatched to a worker, and nothing moves to another machine by itself.
  With Temporal, each turn is two activities and two workflow tasks that a server hands out; that is what the *store CPU* buys. Stores do not
  wait for the disk here: a Temporal cluster on a real database takes longer for each of its steps than a single PostgreSQL does.
- The conversation has one small tool and one short question. Instructions, tools and messages of real agents are larger, which costs
  most where each step stores the whole conversation.
- The model answers at once. With a real model, seconds per call, the time of a run is the model's everywhere; CPU, bytes and actions stay.
- There is no TLS to the model. The transports differ less in their share then.
- Beyond what the floor does, outlast keeps a readable record of each step, bounds retries by the kind of error, counts tokens and checks
  arguments. The other frameworks do parts of this.
- Tracing is switched off for all. Cached workflows are on, but for the rows that replay.
- Bytes are those of Temporal's history as the server counts them; of a database, the values in the run's rows. Neither compression nor
  indexes are counted. langgraph has a channel in beta that stores only what is new; `create_agent` takes it in a state schema of
  one's own, which this row does not have.
"""

VARIANTS: Final = {
    "plain": (
        "Plain",
        "One tool call in each turn but the last. Medians, with the extremes of the rounds; round by round, the order of the subjects turns.",
    ),
    "handoffs": (
        "A handoff every fifth turn",
        "Two agents hand over to each other in every fifth turn. In one turn nobody does.",
    ),
    "approvals": (
        "An approval every turn",
        (
            "Each tool call waits for a person, who approves as soon as it waits. outlast's own client reads the run and decides; the other "
            "workflows on Temporal have an update that waits for the call, written by hand; dbos gets a message, and langgraph's graph is "
            "invoked again. The time includes the client's way to notice that a call waits."
        ),
    ),
    "streamed": (
        "Streamed",
        (
            "The model says 50 words in each turn, 50 per second, and a reader outside the worker gets them as they come: outlast's "
            "`Runner.run_streamed`, a subscriber of Temporal's workflow streams, a socket of langgraph's program. One run for each figure."
        ),
    ),
    "replayed": (
        "Every workflow task replayed",
        (
            "Workers keep no workflow in memory (`max_cached_workflows=0`), so each workflow task replays the run's history: the worst case, "
            "as after a restart."
        ),
    ),
}

DEATHS: Final = {
    ("handoffs", "dbos-openai-agents"): (
        "It wraps the agents that an agent may hand over to before it begins, and does not end where two agents hand over to each other."
    ),
    ("approvals", "dbos-openai-agents"): (
        "The first approval works. At the second, its wrapper of the tool looks the call up in a list that the resumed run did not fill "
        "(`KeyError`), and the error cannot be stored."
    ),
}
"""What is behind an error, by variant and subject."""

RATIOS: Final = """outlast's figure divided by the other's in the same round, which other programs on the machine hardly change. Below 1, outlast takes
less; for runs per second, above 1 is better."""

THROUGHPUT: Final = "20 runs of 8 turns, 10 at a time, with results of 1 KB, on one worker process."

ACTIONS: Final = """As Temporal Cloud bills: starts, activities with their retries, recorded heartbeats, timers, signals, updates, queries, search attributes
and markers; [the rules with their sources](../../benchmarks/actions.py) count them from the history. What no history contains (heartbeats and
queries) is the development server's own count. dbos and langgraph have no such bill: they need a database, which this page does not price."""

STARTS: Final = """In fresh processes: the imports that a worker needs; the worker, until it says that it takes work; and until a first run of one turn, asked
for then, is answered, with what is loaded on first use."""

KILLS: Final = """Two runs of 10 turns are started, then the worker is killed (SIGKILL) within 1.5 seconds, a new one starts, and so on. Each tool call
takes 30 ms and leaves its effect, a line in a file, in the middle. *Lost*: an effect that an answered run should have had. *Repeated*: an effect
that happened again, since the worker died before it could say that the tool was done; no framework can prevent that alone. *With the key*:
the same, if the tool drops a second effect with the key that the framework gives it (outlast: `idempotency_key`; on Temporal the activity's
id; dbos: the step's number; langgraph: the call's id). langgraph goes on with a run only when it is invoked again, which the benchmark does; the others
go on by themselves. Temporal offers an activity of a dead worker again after its time-out: 10 s for tools and 30 s for models where the
README of `temporalio-openai-agents` sets them, 60 s for pydantic-ai's tools, and ten minutes in the floor. Compare the counts with the
number of kills, which is not the same for all."""

REPEAT: Final = """```sh
make bench-peers                      # the plain rows of 8, 50 and 100 turns, 1 KB, and the starts
.venv/bin/python -m benchmarks.peers --rows plain --turns 300 --rounds 1 --out FILE.json
.venv/bin/python -m benchmarks.peers --rows plain --turns 1,8,50,100 --bytes 20480 --out FILE.json
.venv/bin/python -m benchmarks.peers --rows handoffs,approvals,streamed,replayed --turns 8 --out FILE.json
.venv/bin/python -m benchmarks.peers --kills 50 --out FILE.json
.venv/bin/python -m benchmarks.peers.page --results FILE.json --home DIRECTORY
```

The other frameworks are installed from the package index, each in an environment under `.venv-peers`, in the versions above. dbos and
langgraph need PostgreSQL on the machine (Debian's `postgresql`); without it they are left out. All figures of this page are in
[peers.json](peers.json).
"""
