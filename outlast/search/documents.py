"""What the index keeps of a conversation: words that the team may read, and whose it is.

Arguments and outputs of tools, reasoning, drafts, and what policies redact are never among them.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from outlast.search.letters import composed, folded
from outlast.search.occurrences import Occurrence
from outlast.views.customer import customer_view
from outlast.views.redaction import redaction_of
from outlast.views.run import AnyState, loop_state

LONGEST_DOCUMENT: Final = 200_000
"""The most characters of a conversation; of a longer one, the newest messages are kept."""

BETWEEN: Final = "\n"
"""Stands between parts; no folded text has it, so that no phrase reaches from one to the next."""

PartBy: TypeAlias = Literal[
    "customer", "assistant", "colleague", "comment", "rating", "name", "tag"
]
"""Whose words a part has: those of messages, a comment for colleagues, why the customer rated it so,
or a name of the case."""


@dataclass(frozen=True, slots=True)
class Part:
    """Some words of a conversation.

    Attributes:
        by: whose they are.
        text: the words.
        message: the id of the message, as the customer's view has it; empty for none.
    """

    by: PartBy
    text: str
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A conversation in the index.

    Attributes:
        run_id: the workflow id.
        chain_id: the first execution of the run: with the namespace, what tells it from others.
        execution_id: its newest execution.
        events: how much of that execution's history was read.
        started_ms: when that execution began.
        changed_ms: when its newest event happened.
        is_open: whether the run goes on.
        tenant: the tenant, as the server lists it; empty for none.
        agent: the active agent, as the server lists it.
        people: the groups and people who may decide what it waits for.
        customer: what people call the customer; empty for nobody.
        tags: the tags of its case.
        parts: its words: messages, oldest first; then comments, the rating, tags and names.
        occurrences: what the figures count of it.
    """

    run_id: str
    chain_id: str
    execution_id: str
    events: int
    started_ms: int
    changed_ms: int
    is_open: bool
    tenant: str = ""
    agent: str = ""
    people: tuple[str, ...] = ()
    customer: str = ""
    tags: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    occurrences: tuple[Occurrence, ...] = ()

    @property
    def letters(self) -> str:
        """All words as they are compared."""
        return BETWEEN.join(folded(one.text) for one in self.parts)

    def encoded(self) -> str:
        """Return the document as JSON, in ASCII: some databases store no NUL."""
        return json.dumps(asdict(self))

    @staticmethod
    def decoded(text: str) -> "Document":
        """Return a document that `encoded` has written."""
        record: dict[str, Any] = json.loads(text)
        parts = tuple(Part(**one) for one in record.pop("parts"))
        people, tags = tuple(record.pop("people")), tuple(record.pop("tags"))
        found = tuple(Occurrence(**one) for one in record.pop("occurrences"))
        return Document(**record, people=people, tags=tags, parts=parts, occurrences=found)

    def after(self, before: "Document") -> "Document":
        """Return the document with what an earlier one of the same execution has counted, too."""
        if before.execution_id != self.execution_id:
            return self
        kept = {(one.kind, one.key): one for one in (*before.occurrences, *self.occurrences)}
        return replace(self, occurrences=tuple(kept.values()))


def with_words(document: Document, state: AnyState) -> Document:
    """Return a document with the words of a run, without what the run hides from somebody."""
    run, hides = loop_state(state), redaction_of(state)
    person, case = run.start.customer, run.case

    def shown(text: str) -> str:
        return composed(hides.text(text))

    view = customer_view(state)
    parts = [
        *(Part(one.by, shown(one.text), one.id) for one in (*view.messages, *view.unread)),
        *(Part("comment", shown(one.text)) for one in case.comments),
        *(Part("rating", shown(one.text)) for one in (case.rating,) if one is not None),
        *(Part("tag", shown(one)) for one in case.tags),
        *(Part("name", shown(one)) for one in dict.fromkeys((person.id, person.name))),
    ]
    kept = list(_newest([one for one in parts if one.text]))
    return replace(
        document,
        changed_ms=run.at_ms or document.changed_ms,
        customer=shown(person.name or person.id),
        tags=tuple(map(shown, case.tags)),
        parts=tuple(reversed(kept)),
    )


def _newest(parts: list[Part]) -> Iterator[Part]:
    """Yield the last parts first, as many as a document may have."""
    left = LONGEST_DOCUMENT
    for one in reversed(parts):
        if left <= 0:
            return
        yield one if len(one.text) <= left else Part(one.by, one.text[:left], one.message)
        left -= len(one.text)
