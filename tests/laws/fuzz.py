"""Plays random runs until a number of events has happened, and checks the laws after each of them.

    python -m tests.laws.fuzz --events 1000000 --seed 1

`make test` tries some thousand runs that Hypothesis chooses and can shrink; this one tries many more,
and prints the seed and the number of a run that breaks a law. `--run` plays that run alone.
"""

import argparse
import random
import time
import traceback
from collections.abc import Sequence

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded

from tests.laws.strategies import MOVES, PRODUCTIVE, Script, play_script, scripts

POOL = 400
"""From so many examples the starts and the model's replies are mixed."""

MOST_MOVES = 60
"""Longer runs mostly repeat themselves: they are over, or wait for the same person again."""


def pool(seed: int) -> list[Script]:
    """Return examples of runs; the same ones for a seed."""
    found: list[Script] = []

    @seeded(seed)
    @settings(
        max_examples=POOL,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(scripts(max_moves=2))
    def collect(script: Script) -> None:
        found.append(script)

    collect()
    return found


def script_of(seed: int, number: int, examples: Sequence[Script]) -> Script:
    """Return the script of a run: a start, replies and moves, all by chance."""
    chance = random.Random(f"{seed}-{number}")
    replies = [reply for one in chance.choices(examples, k=3) for reply in one.replies]
    kinds = PRODUCTIVE if number % 3 == 0 else MOVES
    moves = [
        (chance.choice(kinds), chance.randrange(100), chance.randrange(100))
        for _ in range(chance.randint(5, MOST_MOVES))
    ]
    return Script(
        start=chance.choice(examples).start,
        replies=tuple(chance.sample(replies, min(5, len(replies)))),
        moves=tuple(moves),
    )


def main() -> int:
    """Return 1 if a law is broken."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--events", type=int, default=1_000_000, help="when to stop")
    options.add_argument("--seed", type=int, default=1, help="the same seed plays the same runs")
    options.add_argument("--run", type=int, help="play this run alone")
    chosen = options.parse_args()
    examples, began = pool(chosen.seed), time.monotonic()
    happened, number, broken = 0, chosen.run or 0, 0
    while happened < chosen.events:
        script = script_of(chosen.seed, number, examples)
        try:
            happened += len(play_script(script).events)
        except Exception:  # noqa: BLE001  a defect of the loop is as bad as a broken law
            broken += 1
            print(f"seed {chosen.seed}, run {number}:\n{traceback.format_exc()}", flush=True)  # noqa: T201
        if chosen.run is not None:
            break
        number += 1
        if number % 2_000 == 0:
            seconds = time.monotonic() - began
            print(f"{happened} events of {number} runs in {seconds:.0f} s", flush=True)  # noqa: T201
    print(f"{happened} events, {broken} runs broke a law")  # noqa: T201
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
