"""Schedules: start runs of agents, and message conversations, at set times.

Temporal's schedules keep the time: no process of yours has to run until a schedule fires.
"""

from outlast.client.schedules.descriptions import Firing, Schedule
from outlast.client.schedules.plans import Overlap, ScheduleOptions
from outlast.client.schedules.schedules import Schedules
from outlast.client.schedules.times import Times

__all__ = ["Firing", "Overlap", "Schedule", "ScheduleOptions", "Schedules", "Times"]
