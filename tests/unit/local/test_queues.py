"""The queues of programs: their names, and that nobody else has them."""

import asyncio
import subprocess
import sys
from itertools import islice
from pathlib import Path

from outlast.local.program import Program
from outlast.local.queues import QueueClaim, queue_names

QUEUE = "outlast-local-desk-0a1b2c3d-Clerk"

HOLD = """
import sys
from pathlib import Path
from outlast.local.queues import QueueClaim
print(QueueClaim.take(sys.argv[1], Path(sys.argv[2])) is not None, flush=True)
sys.stdin.read()
"""


def take(path: Path, queue: str = QUEUE) -> QueueClaim:
    claim = QueueClaim.take(queue, path)
    assert claim is not None
    return claim


def test_a_queue_is_named_after_the_program_and_the_agent() -> None:
    names = queue_names(Program("desk-0a1b2c3d", is_script=True), "Clerk")
    assert list(islice(names, 2)) == [QUEUE, "outlast-local-desk-0a1b2c3d.2-Clerk"]


def test_a_queue_is_claimed_once_until_it_is_released(tmp_path: Path) -> None:
    claim = take(tmp_path)
    assert QueueClaim.take(QUEUE, tmp_path) is None
    other = take(tmp_path, "outlast-local-desk-0a1b2c3d.2-Clerk")
    claim.release()
    take(tmp_path).release()
    other.release()


def test_the_file_of_a_queue_that_nobody_will_have_again_is_removed(tmp_path: Path) -> None:
    take(tmp_path).release()
    assert len(list(tmp_path.iterdir())) == 1
    take(tmp_path).release(for_good=True)
    assert list(tmp_path.iterdir()) == []


def test_where_nothing_can_be_written_a_process_claims_for_itself(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    claim = take(tmp_path / "file")
    assert QueueClaim.take(QUEUE, tmp_path / "file") is None
    claim.release()


async def test_a_killed_process_has_its_queues_no_more(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLD, QUEUE, str(tmp_path),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert await process.stdout.readline() == b"True\n"
    assert QueueClaim.take(QUEUE, tmp_path) is None
    process.kill()
    await process.communicate()
    take(tmp_path).release()
