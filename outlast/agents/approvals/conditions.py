"""Conditions of an operators' file: comparisons of a call's arguments, without code.

    condition  := all ("or" all)*
    all        := term ("and" term)*
    term       := "not" term | "(" condition ")" | comparison | argument
    comparison := value operator value       operator: < <= > >= == !=
    value      := argument | number | "text" | 'text' | true | false | null

An argument is a name, or names with dots for a field of an object. An argument alone has to be true
or false. One that is null is neither more nor less than anything, and differs from every value but
null. Values of different types cannot be compared, and a missing argument has no value: the condition
then fails, and a call whose condition fails needs approval.
"""

import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, cast

from outlast.agents.errors import UserError

LONGEST: Final = 1_000  # people have to be able to read it
DEEPEST: Final = 30  # the reader is recursive

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.]))
      | (?P<text>"[^"]*"|'[^']*')
      | (?P<name>[^\W\d][\w-]*(?:\.[^\W\d][\w-]*)*)
      | (?P<operator><=|>=|==|!=|<|>)
      | (?P<bracket>[()])
    )""",
    re.VERBOSE,
)
_LITERALS: Final[dict[str, bool | None]] = {"true": True, "false": False, "null": None}
_WORDS: Final = frozenset({"and", "or", "not", *_LITERALS})

Scalar: TypeAlias = str | int | float | bool | None
Kind: TypeAlias = Literal["number", "text", "name", "operator", "bracket", "end"]

_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


class ConditionError(UserError):
    """A condition that cannot be read.

    Attributes:
        condition: the condition.
        at: the position of the mistake in it, from 0.
    """

    def __init__(self, message: str, condition: str, at: int) -> None:
        super().__init__(message)
        self.condition = condition
        self.at = at


@dataclass(frozen=True, slots=True)
class _Token:
    kind: Kind
    text: str
    at: int


@dataclass(frozen=True, slots=True)
class _Argument:
    path: tuple[str, ...]

    def value(self, arguments: Any) -> Any:
        for name in self.path:
            if not isinstance(arguments, dict) or name not in arguments:
                raise LookupError(f"the call has no argument {'.'.join(self.path)}")
            arguments = cast("dict[str, Any]", arguments)[name]
        return arguments


@dataclass(frozen=True, slots=True)
class _Literal:
    literal: Scalar

    def value(self, _arguments: Any) -> Scalar:
        return self.literal


@dataclass(frozen=True, slots=True)
class _Comparison:
    left: "_Argument | _Literal"
    operator: str
    right: "_Argument | _Literal"

    def value(self, arguments: Any) -> bool:
        left, right = self.left.value(arguments), self.right.value(arguments)
        if left is None or right is None:
            return (left is right) == (self.operator == "==") and self.operator in {"==", "!="}
        types = {_type_of(left), _type_of(right)}
        if len(types) > 1 or None in types:
            raise TypeError("values of different types cannot be compared")
        if self.operator not in {"==", "!="} and types == {"a truth value"}:
            raise TypeError("truth values have no order")
        return _COMPARE[self.operator](left, right)


@dataclass(frozen=True, slots=True)
class _Flag:
    argument: "_Argument | _Literal"

    def value(self, arguments: Any) -> bool:
        value = self.argument.value(arguments)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise TypeError("an argument without a comparison must be true or false")
        return value


@dataclass(frozen=True, slots=True)
class _Combined:
    word: Literal["and", "or", "not"]
    terms: "tuple[_Term, ...]"

    def value(self, arguments: Any) -> bool:
        values = (term.value(arguments) for term in self.terms)
        if self.word == "not":
            return not next(values)
        return all(values) if self.word == "and" else any(values)


_Term: TypeAlias = _Comparison | _Flag | _Combined


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition; a predicate for `ApprovalPolicy(when=...)`.

    Attributes:
        names: the arguments that it reads.
        compared: the arguments by path, and the literals that they are compared with.
    """

    text: str
    names: frozenset[str] = field(init=False)
    compared: tuple[tuple[tuple[str, ...], Scalar | None], ...] = field(init=False)
    _term: _Term = field(init=False, compare=False)

    def __post_init__(self) -> None:
        if len(self.text) > LONGEST:
            raise ConditionError(
                f"the condition is longer than {LONGEST:,} characters", self.text, 0
            )
        reader = _Reader(self.text)
        object.__setattr__(self, "_term", reader.whole())
        compared = tuple(_compared(self._term))
        object.__setattr__(self, "compared", compared)
        object.__setattr__(self, "names", frozenset(path[0] for path, _ in compared))

    def __str__(self) -> str:
        return self.text

    async def __call__(self, _context: object, arguments: Any, _call_id: str) -> bool:
        """Return whether a call needs approval, as a predicate does."""
        return self.holds(arguments)

    def holds(self, arguments: Any) -> bool:
        """Return whether the condition holds for a call.

        Raises:
            LookupError: an argument is missing.
            TypeError: a value has another type than the one that it is compared with.
        """
        return self._term.value(arguments)

    def implies(self, other: "Condition") -> bool:
        """Whether another condition surely holds for every call for which this one does.

        That is known of equal ones, and of comparisons of the same argument with values, which fail
        for the same calls. Of all others, it is not.
        """
        if self == other:
            return True
        mine, theirs = _limit(self._term), _limit(other._term)  # noqa: SLF001  same class
        if mine is None or theirs is None or mine[0] != theirs[0]:
            return False
        (_, operator, value), (_, other_operator, other_value) = mine, theirs
        if _type_of(value) != _type_of(other_value):
            return False
        # What two comparisons say depends on the order alone: a rank for each value and each gap.
        order = sorted(cast("set[Any]", {value, other_value}))
        limit, other_limit = (2 * order.index(each) + 1 for each in (value, other_value))
        return all(
            _COMPARE[other_operator](rank, other_limit)
            for rank in range(2 * len(order) + 1)
            if _COMPARE[operator](rank, limit)
        )


_MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _limit(term: _Term) -> tuple[tuple[str, ...], str, Scalar] | None:
    match term:
        case _Comparison(_Argument(path), operator, _Literal(value)):
            return path, operator, value
        case _Comparison(_Literal(value), operator, _Argument(path)):
            return path, _MIRRORED.get(operator, operator), value
        case _:
            return None


class _Reader:
    """Reads a condition from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text))
        self._depth = 0

    def whole(self) -> _Term:
        term = self._any()
        if self._next.kind != "end":
            raise self._error("'and' or 'or' is missing before")
        return term

    @property
    def _next(self) -> _Token:
        return self._tokens[0]

    def _take(self) -> _Token:
        return self._tokens.pop(0)

    def _takes(self, text: str) -> bool:
        found = self._next.text == text and self._next.kind in {"name", "bracket"}
        if found:
            self._take()
        return found

    def _any(self) -> _Term:
        terms = [self._all()]
        while self._takes("or"):
            terms.append(self._all())
        return terms[0] if len(terms) == 1 else _Combined("or", tuple(terms))

    def _all(self) -> _Term:
        terms = [self._one()]
        while self._takes("and"):
            terms.append(self._one())
        return terms[0] if len(terms) == 1 else _Combined("and", tuple(terms))

    def _one(self) -> _Term:
        self._depth += 1
        if self._depth > DEEPEST:
            raise self._error("the condition is nested too deeply at")
        try:
            if self._takes("not"):
                return _Combined("not", (self._one(),))
            if self._takes("("):
                term = self._any()
                if not self._takes(")"):
                    raise self._error("a ')' is missing before")
                return term
            return self._comparison()
        finally:
            self._depth -= 1

    def _comparison(self) -> _Term:
        first = self._next
        left = self._value()
        if self._next.kind != "operator":
            if isinstance(left, _Literal) and not isinstance(left.literal, bool):
                raise self._error("an operator such as == is missing before")
            return _Flag(left)
        operator = self._take().text
        right = self._value()
        if isinstance(left, _Literal) and isinstance(right, _Literal):
            raise ConditionError("the comparison names no argument", self._text, first.at)
        if _Literal(None) in {left, right} and operator not in {"==", "!="}:
            raise ConditionError("null has no order", self._text, first.at)
        return _Comparison(left, operator, right)

    def _value(self) -> _Argument | _Literal:
        token = self._next
        match token.kind:
            case "number":
                is_whole = re.fullmatch(r"-?\d+", token.text)
                found: _Argument | _Literal = _Literal((int if is_whole else float)(token.text))
            case "text":
                found = _Literal(token.text[1:-1])
            case "name" if token.text in _LITERALS:
                found = _Literal(_LITERALS[token.text])
            case "name" if token.text not in _WORDS:
                found = _Argument(tuple(token.text.split(".")))
            case _:
                raise self._error("an argument or a value is missing before")
        self._take()
        return found

    def _error(self, problem: str) -> ConditionError:
        token = self._next
        where = "its end" if token.kind == "end" else f"{token.text!r}"
        return ConditionError(f"{problem} {where}", self._text, token.at)


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            start = len(text) - len(text[at:].lstrip())
            raise ConditionError(_strange(text[start:]), text, start)
        yield _Token(
            cast("Kind", match.lastgroup), match[match.lastgroup], match.start(match.lastgroup)
        )
        at = match.end()
    yield _Token("end", "", len(text))


def _strange(rest: str) -> str:
    if rest[0] in "\"'":
        return f"the text {rest[:20]!r} has no closing quote"
    if rest[0] == "=":
        return "equality is written as =="
    return f"{rest.split(maxsplit=1)[0][:20]!r} is neither an argument, a value nor an operator"


def _compared(term: _Term) -> Iterator[tuple[tuple[str, ...], Scalar | None]]:
    match term:
        case _Combined():
            for one in term.terms:
                yield from _compared(one)
        case _Flag():
            if isinstance(term.argument, _Argument):
                yield term.argument.path, True
        case _Comparison():
            for side, other in ((term.left, term.right), (term.right, term.left)):
                if isinstance(side, _Argument):
                    yield side.path, other.literal if isinstance(other, _Literal) else None


def _type_of(value: object) -> str | None:
    if isinstance(value, bool):
        return "a truth value"
    if isinstance(value, int | float):
        return "a number"
    return "a text" if isinstance(value, str) else None


_SCHEMA_TYPES: Final = {
    "string": "a text",
    "integer": "a number",
    "number": "a number",
    "boolean": "a truth value",
}


def type_problem(condition: Condition, properties: dict[str, Any]) -> str | None:
    """Return a sentence about an argument that the condition compares with the wrong type."""
    for path, literal in condition.compared:
        if len(path) != 1 or literal is None:
            continue
        schema: object = properties.get(path[0])
        kind = cast("dict[str, Any]", schema).get("type") if isinstance(schema, dict) else None
        expected = _SCHEMA_TYPES.get(kind) if isinstance(kind, str) else None
        if expected is not None and expected != _type_of(literal):
            return f"{path[0]} is {expected}, and cannot be compared with {_type_of(literal)}"
    return None
