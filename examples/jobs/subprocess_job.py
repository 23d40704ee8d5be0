"""A tool starts a process that outlives its worker, and waits for it without a worker.

Stop this program while the job runs, and start it again: the job goes on, and is started once.
"""

import asyncio
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from outlast import (
    Agent,
    Runner,
    ToolContext,
    ToolFailed,
    WaitDropped,
    WaitTimeout,
    function_tool,
)

SCRIPT = Path(__file__).with_name("render.sh")
JOBS = Path(os.environ.get("JOBS_DIR", Path(tempfile.gettempdir()) / "outlast-jobs"))


@dataclass
class Video:
    """What the job delivers."""

    bytes: int = 0
    problem: str = ""


def start(title: str, folder: str, token: str) -> int:
    """Start the job in a session of its own, so that it does not end with the worker."""
    JOBS.mkdir(parents=True, exist_ok=True)
    launch = 'nohup sh "$@" </dev/null >/dev/null 2>&1 &'
    job = [str(SCRIPT), title, folder, token]
    path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"  # where `outlast` is
    subprocess.run(  # noqa: S603
        ["/bin/sh", "-c", launch, "sh", *job],
        check=True,
        start_new_session=True,
        env={**os.environ, "PATH": path},
    )
    return 0


def stop(folder: Path) -> None:
    """End the job and the processes that it has started."""
    try:
        pid = int((folder / "pid").read_text())
        os.killpg(os.getpgid(pid), signal.SIGTERM)
    except (FileNotFoundError, ProcessLookupError):
        pass  # it has ended


@function_tool
async def render_video(ctx: ToolContext, title: str) -> str:
    """Render a video with a title. It takes a while."""
    # The key has the model's call id in it: a hash makes it a name of a folder, whatever it is.
    folder = JOBS / hashlib.sha256(ctx.idempotency_key.encode()).hexdigest()
    await ctx.once("job", start, title, str(folder), ctx.wait_token("video"))
    try:
        video = await ctx.wait_for("video", timeout=timedelta(hours=6), schema=Video, cleanup=True)
    except (WaitDropped, WaitTimeout):
        stop(folder)
        raise
    if video.problem:
        raise ToolFailed(video.problem)
    return f"The video is in {folder.name[:8]} and has {video.bytes} bytes."


desk = Agent(name="Studio", instructions="Render what people want.", tools=[render_video])


async def main(run_id: str = "studio-1") -> None:
    """Ask for a video. A second start of the program waits for the same run and the same job."""
    result = await Runner.run(desk, "Render 'Elm Street', please.", id=run_id)
    print(result.final_output)


if __name__ == "__main__":
    asyncio.run(main())
