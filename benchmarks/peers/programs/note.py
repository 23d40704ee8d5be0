"""The tool of all subjects: it keeps a note, and says a text of the chosen length.

Needs the standard library only: it runs in the environments of all subjects.
"""

import asyncio
import json

from benchmarks.peers.programs.job import Job

EFFECT_SECONDS = 0.03
"""How long a call with an effect takes; the effect happens in its middle."""

_WORDS = " ".join(f"note {number * 7919 % 10007}" for number in range(4000))


async def keep_note(number: int, job: Job, *, run: str = "", key: str = "") -> str:
    """Return the text; where there is a ledger, also leave an effect there.

    Args:
        number: the number of the note.
        job: the worker's settings.
        run: the id of the run.
        key: what the framework hands to a tool as the same in every attempt of a call.
    """
    if job.ledger:
        await asyncio.sleep(EFFECT_SECONDS / 2)
        with open(job.ledger, "a") as ledger:  # noqa: ASYNC230, PTH123  one short line
            ledger.write(json.dumps({"run": run, "number": number, "key": key}) + "\n")
        await asyncio.sleep(EFFECT_SECONDS / 2)
    return f"{number:04d} {_WORDS}"[: job.result_bytes]
