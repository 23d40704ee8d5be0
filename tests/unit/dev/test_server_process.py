"""The command line of a development server. What it does is tested with the server itself."""

from itertools import pairwise
from pathlib import Path

from outlast.dev.server_process import ServerSettings


def pairs(flags: list[str]) -> list[tuple[str, str]]:
    return list(pairwise(flags))


def test_a_server_with_a_database_is_fast_and_survives():
    settings = ServerSettings(
        port=7233,
        ui_port=8233,
        namespace="desk",
        search_attributes={"OutlastAgent": "Keyword"},
        in_memory=False,
    )
    flags = pairs(settings.flags(Path("/data/temporal.db")))
    assert ("--ip", "127.0.0.1") in flags
    assert ("--port", "7233") in flags
    assert ("--ui-port", "8233") in flags
    assert ("--namespace", "desk") in flags
    assert ("--search-attribute", "OutlastAgent=Keyword") in flags
    assert ("--db-filename", "/data/temporal.db") in flags
    assert ("--sqlite-pragma", "journal_mode=WAL") in flags
    assert ("--sqlite-pragma", "synchronous=NORMAL") in flags
    dynamic = {value for flag, value in flags if flag == "--dynamic-config-value"}
    assert dynamic == {
        "history.transferProcessorMaxPollRPS=2000",
        "history.timerProcessorMaxPollRPS=2000",
        "history.visibilityProcessorMaxPollRPS=2000",
        "system.enableActivityEagerExecution=true",
        "matching.enableFairness=true",
        "matching.numTaskqueueReadPartitions=1",
        "matching.numTaskqueueWritePartitions=1",
    }


def test_a_server_in_memory_without_a_ui_has_neither_database_nor_ui():
    settings = ServerSettings(port=1, ui_port=None, namespace="default", in_memory=True)
    flags = settings.flags(Path("/data/temporal.db"))
    assert "--headless" in flags
    assert not {"--ui-port", "--db-filename", "--sqlite-pragma"} & set(flags)
