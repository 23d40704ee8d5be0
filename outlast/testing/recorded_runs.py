"""Recordings as tests: `load_run` reads one, and `replays` makes a test of it."""

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Unpack

from outlast.agents.agent import Agent
from outlast.agents.errors import UserError
from outlast.client.recordings.recording import Recording
from outlast.edges.bodies import DOORS, BodyRefused
from outlast.testing.run_replay import Replay, ReplayOptions, replay

ARGUMENT: Final = "replay"
"""The parameter of a test that gets the replay."""


def load_run(path: str | Path) -> Recording:
    """Read a recording from a file that `outlast record` or `outlast export` wrote.

    Raises:
        UserError: there is no such file, or it holds no recording, or several.
    """
    found = load_runs(path)
    if len(found) != 1:
        raise UserError(f"{path} holds {len(found)} recordings. Read them with load_runs.")
    return found[0]


def load_runs(path: str | Path) -> list[Recording]:
    """Read all recordings of a file: one document, or JSON lines.

    Raises:
        UserError: there is no such file, or it holds something else.
    """
    try:
        text = DOORS["recording"].read_file(path)
    except (OSError, UnicodeDecodeError, BodyRefused) as error:
        raise UserError(f"{path} cannot be read: {error}") from error
    # Not `splitlines`, which also splits at characters that texts in a recording may have.
    lines = [line for line in text.split("\n") if line.strip()]
    if len(lines) > 1 and lines[0].lstrip().startswith("{") and lines[0].rstrip().endswith("}"):
        named = ((f"{path}, line {number}", line) for number, line in enumerate(lines, 1))
        return [Recording.from_json(line, name=name) for name, line in named]
    return [Recording.from_json(text, name=str(path))]


def replays(
    path: str | Path,
    *,
    agents: Agent[Any] | Sequence[Agent[Any]],
    **options: Unpack[ReplayOptions],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a test that replays recordings against today's agents.

        @replays("runs/refund.json", agents=[triage])
        def test_a_refund_goes_as_before(): ...

    The test fails with the decisions that differ. A test with a parameter `replay` gets the
    `Replay` instead, once for each recording, and says itself what may differ.

    Args:
        path: a file, or a pattern such as `runs/*.json`, beside the file of the test.
        agents: today's agents; those that they hand over to are found.
        **options: those of `replay`.

    Raises:
        UserError: no file fits.
    """

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        files = _files(path, Path(inspect.getfile(test)).parent)
        wants = ARGUMENT in inspect.signature(test).parameters

        async def made() -> list[Replay]:
            recordings = [one for file in files for one in load_runs(file)]
            return [await replay(one, agents, **options) for one in recordings]

        return _test_of(test, made, wants=wants)

    return decorate


def _test_of(
    test: Callable[..., Any], made: Callable[[], Coroutine[Any, Any, list[Replay]]], *, wants: bool
) -> Callable[..., Any]:
    """Return a test of replays, with the parameters of `test` that pytest's fixtures have."""

    def arguments(found: Sequence[Replay]) -> list[dict[str, Any]]:
        if wants:
            return [{ARGUMENT: one} for one in found]
        differing = [one.report() for one in found if not one.is_same]
        assert not differing, "\n".join(differing)  # noqa: S101  fails the test
        return [{}]

    @functools.wraps(test)
    def run(**given: Any) -> None:
        for one in arguments(_outside_of_loops(made)):
            test(**given, **one)

    @functools.wraps(test)
    async def run_async(**given: Any) -> None:
        for one in arguments(await made()):
            await test(**given, **one)

    wrapper = run_async if inspect.iscoroutinefunction(test) else run
    signature = inspect.signature(test)
    others = [one for name, one in signature.parameters.items() if name != ARGUMENT]
    vars(wrapper)["__signature__"] = signature.replace(parameters=others)
    return wrapper


def _files(path: str | Path, beside: Path) -> list[Path]:
    pattern = Path(path)
    if pattern.is_absolute():
        beside, pattern = Path(pattern.anchor), pattern.relative_to(pattern.anchor)
    files = sorted(beside.glob(str(pattern)))
    if not files:
        raise UserError(
            f"There is no recording {beside / pattern}. Make one: outlast record ID > {pattern}"
        )
    return files


def _outside_of_loops(made: Callable[[], Any]) -> Any:
    """Run a coroutine function to its end, also where an event loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(made())
    with ThreadPoolExecutor(1) as elsewhere:
        return elsewhere.submit(asyncio.run, made()).result()
