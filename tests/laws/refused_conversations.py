"""Random conversations in which a provider refuses something, and the provider that refuses it.

What is refused stands anywhere: in a message, an output of a tool, a session, a reply, a model's
reasoning or a summary. How the provider says so differs: by an index, by an address, by nothing.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from hypothesis import strategies as st

from outlast.agents.json_values import as_objects
from outlast.loop.values import JsonObject
from outlast.models.failures import Target, reported_failure
from outlast.ports.model import ModelError, ModelRequest
from outlast.testing import call, say

TARGET: Final = Target(base_url="https://api.example", path="/responses", model="gpt")
MARK: Final = "BAD"
"""What the provider refuses, followed by a number."""

LARGE: Final = 4_000
"""The characters of a text that is too large together with others of its kind."""

Part: TypeAlias = tuple[Literal["text", "image", "large"], bool]
"""A part of a message or of an output, and whether the provider refuses it."""

How: TypeAlias = Literal["index", "message index", "address", "media", "flagged", "bare"]
"""How a refusal names what is refused."""

What: TypeAlias = Literal["each", "together", "sum", "parameters", "tools"]
"""What is refused: each marked part, two of them together, their sum, or no part at all."""

DEPLOY: Final = {
    "parameters": "Unsupported parameter: 'temperature' is not supported with this model.",
    "tools": "Invalid schema for function 'look': schema must be of type object.",
}


@dataclass(frozen=True)
class Question:
    """A question, and how the model answers it.

    Attributes:
        asked: the parts of the message.
        outputs: what the tools return that it calls, one call for each reply.
        thinks: whether reasoning comes before each reply, and whether it is refused later.
        said: the answer.
    """

    asked: tuple[Part, ...]
    outputs: tuple[tuple[Part, ...], ...] = ()
    thinks: tuple[bool, bool] = (False, False)
    said: Part = ("text", False)


@dataclass(frozen=True)
class Plan:
    """A conversation.

    Attributes:
        what: what is refused.
        how: how the provider says so.
        questions: the questions of the run.
        session: the questions of an earlier run of the session.
        summary: whether the older part becomes a summary, and whether the summary is refused.
        streams: whether replies are streamed.
        from_request: the request from which on the provider refuses anything.
    """

    what: What
    how: How
    questions: tuple[Question, ...]
    session: tuple[Question, ...] = ()
    summary: tuple[bool, bool] = (False, False)
    streams: bool = False
    from_request: int = 0


def _parts(kinds: Sequence[str] = ("text", "text", "image")) -> st.SearchStrategy[Any]:
    part = st.tuples(st.sampled_from(kinds), st.sampled_from([False, False, True]))
    return st.lists(part, min_size=1, max_size=3).map(tuple)


def _questions(what: What) -> st.SearchStrategy[Question]:
    kinds = ("text", "large") if what == "sum" else ("text", "text", "image")
    return st.builds(
        Question,
        asked=_parts(kinds),
        outputs=st.lists(_parts(kinds), max_size=2).map(tuple),
        thinks=st.tuples(st.booleans(), st.sampled_from([False, False, True])),
        said=st.tuples(st.just("text"), st.sampled_from([False, False, False, True])),
    )


@st.composite
def plans(draw: Any) -> Plan:
    """Conversations of all kinds."""
    what = draw(st.sampled_from(["each", "each", "each", "together", "sum", "parameters", "tools"]))
    one = _questions(what)
    return Plan(
        what=what,
        how=draw(
            st.sampled_from(["index", "message index", "address", "media", "flagged", "bare"])
        ),
        questions=tuple(draw(st.lists(one, min_size=1, max_size=3))),
        session=tuple(draw(st.lists(one, max_size=2))),
        summary=draw(st.sampled_from([(False, False)] * 4 + [(True, False), (True, True)])),
        streams=draw(st.booleans()),
        from_request=draw(st.sampled_from([0, 0, 1, 3, 6])),
    )


class Marks:
    """Numbers what is refused, so that each is told from the others."""

    def __init__(self) -> None:
        self._count = 0

    def content(self, parts: Sequence[Part]) -> list[JsonObject]:
        """Return the parts of a message or an output."""
        return [self._part(kind, refused=refused) for kind, refused in parts]

    def text(self, part: Part) -> str:
        """Return a text, with a mark if it is refused."""
        kind, refused = part
        self._count += 1
        filler = "x" * LARGE if kind == "large" else "words"
        return f"{filler} {self._count} {MARK + str(self._count) if refused else 'fine'}"

    def _part(self, kind: str, *, refused: bool) -> JsonObject:
        if kind == "image":
            self._count += 1
            name = f"{MARK}{self._count}" if refused else f"{self._count}"
            return {
                "type": "input_image",
                "image_url": f"https://shop.example/{name}.png",
                "detail": "auto",
            }
        return {
            "type": "input_text",
            "text": self.text(("large" if kind == "large" else "text", refused)),
        }


def marks_in(value: object) -> set[str]:
    """Return the marks in a JSON value."""
    text = value if isinstance(value, str) else json.dumps(value)
    return {f"{MARK}{_digits(rest)}" for rest in text.split(MARK)[1:]}


def _digits(text: str) -> str:
    return text[: next((at for at, one in enumerate(text) if not one.isdigit()), len(text))]


@dataclass
class Refusing:
    """The provider of one conversation, which answers as planned.

    Attributes:
        plan: the conversation.
        marks: numbers what it makes.
        replies: the replies that are left.
        requests: how many requests came.
        taken: how many it took.
        is_deployed: whether a bad deploy is out, whose requests are refused for ever.
    """

    plan: Plan
    marks: Marks
    replies: Iterator[list[JsonObject]]
    requests: int = 0
    taken: int = 0
    is_deployed: bool = True
    limit: int = 0
    _last: list[JsonObject] = field(default_factory=list[JsonObject])

    def __call__(self, request: ModelRequest) -> Any:
        """Answer a request, or refuse it."""
        self.requests += 1
        error = self._refusal(request)
        if error is not None:
            raise error
        if not _is_summary(request):
            self.taken += 1
        else:
            return say(self.marks.text(("text", self.plan.summary[1])))
        return next(self.replies, None) or say("Well.")

    def _refusal(self, request: ModelRequest) -> ModelError | None:
        what = self.plan.what
        if what in DEPLOY:
            return _error(DEPLOY[what]) if self.is_deployed else None
        if self.taken < self.plan.from_request:
            return None
        found = marks_in(list(request.input))
        if what == "sum":
            is_large = len(json.dumps(list(request.input))) > self.limit
            return _error("too long", code="context_length_exceeded") if is_large else None
        if len(found) < (2 if what == "together" else 1):
            return None
        return self._names(request)

    def _names(self, request: ModelRequest) -> ModelError:
        match self.plan.how:
            case "index":
                at, part = _place(request.input)
                where = f"input[{at}]" if part is None else f"input[{at}].content[{part}]"
                return _error("Invalid value.", param=where)
            case "message index":
                at, part = _place(request.input)
                where = f"messages.[{at}]" if part is None else f"messages.[{at}].content.[{part}]"
                return _error(f"Invalid type for {where}: it cannot be read.")
            case "address":
                addresses = [
                    word
                    for word in json.dumps(list(request.input)).split('"')
                    if word.startswith("https://") and MARK in word
                ]
                where = addresses[0] if addresses else "the content"
                return _error(f"Error while downloading {where}.")
            case "media":
                return _error("The image data you provided does not represent a valid image.")
            case "flagged":
                return _error("Flagged.", code="content_policy_violation")
            case _:
                return _error("Bad Request")


def _error(message: str, **fields: Any) -> ModelError:
    return reported_failure({"message": message, **fields}, TARGET, status=400)


def _place(items: Sequence[JsonObject]) -> tuple[int, int | None]:
    for at, item in enumerate(items):
        content = item.get("content", item.get("output"))
        for part, one in enumerate(as_objects(content) or ()):
            if marks_in(one):
                return at, part
        if marks_in(item):
            return at, None
    return 0, None


def _is_summary(request: ModelRequest) -> bool:
    return not request.tools


def replies_of(
    questions: Sequence[Question], marks: Marks, of: str = ""
) -> Iterator[list[JsonObject]]:
    """Yield the replies to some questions; `of` tells their ids from those of others."""
    for number, question in enumerate(questions):
        count = len(question.outputs)
        for place in range(count):
            named = call("look", f"c{of}{number}-{place}", at=f"{number}.{place}")
            yield [*_thought(question, f"{of}{number}-{place}", marks), named]
        yield [*_thought(question, f"{of}{number}-end", marks), *say(marks.text(question.said))]


def _thought(question: Question, name: str, marks: Marks) -> list[JsonObject]:
    thinks, refused = question.thinks
    if not thinks:
        return []
    summary = [{"type": "summary_text", "text": marks.text(("text", refused))}]
    return [{"type": "reasoning", "id": f"rs_{name}", "summary": summary}]
