"""What has to hold once a server has been restored from a snapshot."""

from outlast.archive import archive_status, verify
from outlast.client.deletion import find_person
from outlast.client.restore import compare_archive
from outlast.loop.values import JsonObject
from tests.restore import story as told
from tests.restore.story import FORGOTTEN, QUEUE, Story


def check_comparison(story: Story) -> JsonObject:
    """What the archive knows is named before anything goes on."""
    found = story.comparison
    lost = {one.run_id: one for one in found.lost}
    assert {lost[one].known for one in story.ids("new")} == {"gone"}
    for kind in ("refund", "ship", "talk", "anew"):
        assert {lost[one].known for one in story.ids(kind, half=0)} == {"behind"}
        assert not set(story.ids(kind, half=1)) & set(lost), "nobody knows what those did"
    assert not set(story.ids("old")) & set(lost), "the server has them as they were"
    for run_id in story.ids("refund", half=0):
        [vote] = lost[run_id].acts
        assert (vote.event, vote.by, vote.tool, vote.decision) == (
            "vote",
            "ann",
            "refund",
            "approve",
        )
    for run_id in story.ids("ship", half=0):
        [delivery] = lost[run_id].acts
        assert (delivery.event, delivery.delivery_id) == ("delivered", f"hook-{run_id}")
    returned = {one.run_id: one for one in found.returned}
    assert {run_id: one.is_open for run_id, one in returned.items()} == {
        "fay-closed": False,
        "fay-open": True,
    }
    waiting = {one.run_id for one in found.open if one.approvals}
    assert waiting == set(story.ids("refund"))
    assert {one.run_id for one in found.open} >= {
        *("kept-before", "kept-after"),
        *story.ids("refund"),
        *story.ids("ship"),
        *story.ids("talk"),
        *story.ids("anew"),
    }
    return found.record()


def check_ledger(story: Story) -> dict[str, int]:
    """Everything was done, and nothing twice that was not named. Return how often."""
    keys = {key for one in story.comparison.lost for key, _ in one.calls}
    runs = {one.run_key for one in story.comparison.open}
    ledger = told.LEDGER
    twice = ledger.done_twice()
    unnamed = [
        (what, key)
        for what, found in twice.items()
        for key in found[:-1]
        if key not in keys and key.partition(":")[0] not in runs
    ]
    assert unnamed == []
    done = set(ledger.effects.values())
    assert {f"pay {one}" for kind in ("old", "new") for one in story.ids(kind)} <= done
    assert {f"refund {one}" for one in story.ids("refund")} <= done
    shipped = ("kept-before", "kept-after", *story.ids("ship"))
    assert {f"ship {one}, at noon" for one in shipped} <= done
    talks = [one for kind in ("talk", "anew") for one in story.ids(kind)]
    assert {f"pay {one}-{number}" for one in talks for number in range(4)} <= done
    # A run that the server still knew goes on with the same keys; one that it did not has others.
    assert ledger.repeated >= len(story.ids("refund", half=0)) + 3 * len(story.ids("talk"))
    anew = [what for what in twice if what.startswith("pay new-")]
    assert len(anew) == story.scale
    assert not [what for what in twice if what.startswith(("pay talk", "refund", "ship"))]
    return {"effects": len(done), "keys again": ledger.repeated, "named twice": len(twice)}


async def check_archive(story: Story) -> None:
    """The archive has what the server has done since, and nobody who was forgotten."""
    status = await archive_status(story.client, story.archive, QUEUE)
    assert (status.missing, status.gaps, status.interrupted) == ((), (), 0)
    assert [one.problem for one in await verify(story.archive) if one.problem] == []
    again = await compare_archive(story.client, story.archive)
    assert {one.known for one in again.lost} <= {"gone"}, "what was set aside is not compared"
    assert again.returned == ()
    assert again.open == ()
    assert {one.person != "" for one in story.deleted_again} == {True}
    person = await find_person(story.client, story.archive, FORGOTTEN, every_run=True)
    assert person.runs == ()
    assert not {"fay-open", "fay-closed"} & await story.listed()
