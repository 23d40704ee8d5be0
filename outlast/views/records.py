"""The records of the loop that people see and send, for every surface: see `docs/design/0016`.

A surface (the desk, the command line, notices) imports these and the views, and nothing else of
`outlast.loop`: what is not here may change without anybody outside noticing.
"""

from outlast.loop.actions import (
    LONGEST_COMMENT,
    LONGEST_NAME,
    LONGEST_RATING,
    CancelMode,
    CaseDeed,
    HoldMode,
)
from outlast.loop.approvals import (
    ALL_DECISIONS,
    REDACTED,
    ApprovalRequest,
    ApprovalStatus,
    Decision,
    DecisionType,
    Person,
    RequestKind,
    Risk,
    Vote,
    VoteType,
)
from outlast.loop.aside import Aside
from outlast.loop.case import Case, Comment, Rating
from outlast.loop.items import Item, ItemKind, Message
from outlast.loop.notices import ALL_EVENTS, Notice, NoticeEvent, Undelivered
from outlast.loop.start import Customer
from outlast.loop.state import Answer, Hold, Ignored, Outcome, Status
from outlast.loop.values import Failure, Json, JsonObject, Usage
from outlast.loop.votes import LONGEST_CLAIM_MINUTES

__all__ = (
    "ALL_DECISIONS",
    "ALL_EVENTS",
    "LONGEST_CLAIM_MINUTES",
    "LONGEST_COMMENT",
    "LONGEST_NAME",
    "LONGEST_RATING",
    "REDACTED",
    "Answer",
    "ApprovalRequest",
    "ApprovalStatus",
    "Aside",
    "CancelMode",
    "Case",
    "CaseDeed",
    "Comment",
    "Customer",
    "Decision",
    "DecisionType",
    "Failure",
    "Hold",
    "HoldMode",
    "Ignored",
    "Item",
    "ItemKind",
    "Json",
    "JsonObject",
    "Message",
    "Notice",
    "NoticeEvent",
    "Outcome",
    "Person",
    "Rating",
    "RequestKind",
    "Risk",
    "Status",
    "Undelivered",
    "Usage",
    "Vote",
    "VoteType",
)
