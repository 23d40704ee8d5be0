"""Recordings: what runs did, as JSON documents to keep, to test with and to learn from."""

from outlast.client.recordings.comparison import Difference, differences
from outlast.client.recordings.reading import UnreadRun, record_person, record_run, record_runs
from outlast.client.recordings.recording import Entry, RecordedStart, Recording, json_schema

__all__ = [
    "Difference",
    "Entry",
    "RecordedStart",
    "Recording",
    "UnreadRun",
    "differences",
    "json_schema",
    "record_person",
    "record_run",
    "record_runs",
]
