"""What a customer of a shop wants, read from the customer's own words with regular expressions.

Owns: the topics, and how orders, amounts, addresses and reasons are written in English. Must not
know: agents, tools, requests.
"""

import re
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum


class Topic(StrEnum):
    """What a message can ask for."""

    STATUS = "status"
    ADDRESS = "address"
    REFUND = "refund"
    INVOICE = "invoice"
    CANCEL = "cancel"
    HUMAN = "human"


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """One thing the customer wants, with everything the customer said about it.

    Attributes:
        words: the customer's message.
        at: the position of the message in the conversation.
    """

    topic: Topic
    words: str
    at: int
    order: str | None = None
    address: str | None = None
    amount: Decimal | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """What a message says without asking for anything, such as the answer to a question."""

    orders: tuple[str, ...] = ()
    address: str | None = None
    amount: Decimal | None = None
    reason: str | None = None
    number: str | None = None

    def __bool__(self) -> bool:
        return self != Details()


# Tried in this order on each clause; the first that fits is the clause's topic.
_TOPICS: tuple[tuple[Topic, tuple[str, ...]], ...] = (
    (
        Topic.HUMAN,
        (
            r"\b(?:human|representative|supervisor|manager)\b",
            r"\b(?:real|actual|live) (?:person|agent)\b",
            r"\b(?:talk|speak|chat)\w* (?:to|with) (?:an? |your |the |some ?)?(?:person|one|body)\b",
            r"\b(?:talk|speak|chat)\w* (?:to|with) (?:an? |your |the )?(?:agent|operator|staff)\b",
        ),
    ),
    (
        Topic.ADDRESS,
        (
            r"\{address\}",
            r"\b(?:chang|updat|correct|mov)\w*\b.*\baddress",
            r"\b(?:edit|fix|new|wrong|different)\b.*\baddress",
            r"\baddress\b.*\b(?:chang\w*|updat\w*|correct\w*|wrong|now)\b",
        ),
    ),
    (
        Topic.STATUS,
        (
            r"\bwhere\b|\bwhen\b|\bstatus\b|\btrack\w*|\blook\w* up\b|\bcheck\b",
            r"\b(?:was|has|have|did|were)\b.*\brefund",
        ),
    ),
    (Topic.CANCEL, (r"\bcancel\w*",)),
    (
        Topic.REFUND,
        (
            r"\brefund\w*|\breimburse\w*|\breturn(?! to)\b",
            r"\b(?:money|dollars?|euros?|pounds?) back\b|[$€£]\s?[\d.,]+ back\b|\d\s?[$€£] back\b",
        ),
    ),
    (Topic.INVOICE, (r"\binvoices?\b|\breceipts?\b|\bbill\b",)),
    (
        Topic.STATUS,
        (
            r"\barriv\w*|\bship(?:ped|ping|ment)\b|\bdeliver\w*|\bdelayed\b|\bwaiting\b",
            r"\baddress\b|\b(?:about|details|question)\b.*\border\b",
        ),
    ),
)
_ACTIONS = {Topic.ADDRESS, Topic.CANCEL, Topic.REFUND}
_NEGATED = re.compile(r"\b(?:don'?t|do not|no longer|not|never|no|without)\b[^,]{0,20}$")
_TOPIC_PATTERNS = tuple(
    (topic, re.compile("|".join(patterns), re.IGNORECASE)) for topic, patterns in _TOPICS
)

_FAREWELL = re.compile(
    r"\b(?:thanks|thank you|thx|bye|goodbye|see you|that'?s all|that is all|perfect|never ?mind)\b",
    re.IGNORECASE,
)
_GREETING = re.compile(r"^\W*(?:hi|hello|hey|good (?:morning|afternoon|evening))\b", re.IGNORECASE)

_NUMBER = r"[A-Za-z]{0,4}-?\d{1,12}(?:-\d{1,8})*"
# A number that counts something else than orders.
_NO_UNIT = (
    r"(?![\w-]|[.,]\d|\s*(?:%|days?|weeks?|months?|hours?|minutes?|times|items?|dollars|euros?|€))"
)
_ORDER = re.compile(
    rf"(?:\borders?(?:\s+(?:numbers?|no\.?|nr\.?|ids?))?(?:\s+is)?\s*[:#]?\s*|(?<![\w-])#\s?)"
    rf"(?P<number>{_NUMBER}){_NO_UNIT}(?P<more>(?:\s*(?:,|&|\band\b|\bor\b)+\s*#?\d{{2,12}}{_NO_UNIT})*)"
    rf"|(?<![\w-])(?P<code>[A-Za-z]{{1,4}}-\d{{1,12}}(?:-\d{{1,8}})*)(?![\w-])"
    rf"|\b(?P<before>refund|return|cancel|track|check|where is|about|for|of) (?P<bare>\d{{3,12}}){_NO_UNIT}",
    re.IGNORECASE,
)
_MARKED_ORDER = re.compile(r"⟦(.+?)⟧")
_BARE_NUMBER = re.compile(
    r"^\D{0,40}?#?(\d{1,12})\W*(?:please|thanks|thank you)?\W*$", re.IGNORECASE
)

_DIGITS = r"\d+(?:[.,]\d{3})*(?:[.,]\d{1,2})?"
_AMOUNT = re.compile(
    rf"[$€£]\s?(?P<after>{_DIGITS})"
    rf"|(?<![\w#-])(?P<before>{_DIGITS})\s?(?:[$€£]|(?:dollars?|usd|euros?|eur|pounds?|gbp)\b)",
    re.IGNORECASE,
)

# What ends an address or a reason: the end of the sentence, or the start of the next wish.
_WISH = (
    r"(?:please|i|i'd|refund|where|when|send|can|could|would|give|what|also|then|tell|track|show"
    r"|get|my|cancel|talk|let|connect|change|thanks?|thank)\b"
)
_END = re.compile(
    rf"[;!?\n]|\.(?=\s|$)|,?\s+(?:and|also|then|but)\s+(?={_WISH})"
    rf"|,?\s+(?:please|thanks|thank you|instead|because|since)\b|$",
    re.IGNORECASE,
)
_ABBREVIATION = re.compile(
    r"(?:\b(?:st|ave|rd|dr|blvd|ln|apt|no|nr|sq|pl|ct|mt)|str)$", re.IGNORECASE
)
_ADDRESS_STARTS = (
    re.compile(
        r"\baddress\b[^.?!;\n]*?(?:\bto\b|:|=|\bshould be\b|\bis(?: now)?(?=\s+(?-i:[A-Z0-9])))\s*",
        re.IGNORECASE,
    ),
    re.compile(
        r"\b(?:ship|deliver|send|redirect|forward)\b[^.?!;\n]*?\bto\b(?: me at)?\s*", re.IGNORECASE
    ),
    re.compile(
        r"\b(?:moved to|(?:live|living) at|it'?s now|it is now|new one(?: is|:))\s*", re.IGNORECASE
    ),
)
_BARE_ADDRESS = re.compile(
    r"^\W*(?:it(?:'s| is)|the new (?:one|address) is|to)?\s*"
    r"(?=\d+\w?\s+\w|(?-i:[A-Z])[\w-]+\.?\s+\d)",
    re.IGNORECASE,
)
_TAKES_REASON = re.compile(r"refund|reimburse|return|cancel|\bback\b", re.IGNORECASE)
_REASON_START = re.compile(
    r"\b(?:because|due to|reason(?: is|:))\s*(?:of\s+)?|\b(?:as|since)\s+(?=(?:it|they|the|i)\b)",
    re.IGNORECASE,
)
_COMPLAINT = re.compile(
    r"\b(?:(?:it|they|which|that)\s+)?(?:arrived|came|was|is|are|were|got|never|has|have|did)"
    r"(?:n't)?\b[^,.;!?⟦]*?\b(?:broken|damaged|defective|wrong|late|arrived?|come|came|scratched"
    r"|missing|faulty|torn|cracked|too (?:small|large|big|late))\b",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(
    r"(?P<sentence>[.;!?]+(?:\s+|$)|\n+)|,\s+|,?\s+(?:and|also|then|but|plus)\s+", re.IGNORECASE
)


def read_goals(text: str, at: int) -> list[Goal]:
    """Return what a message asks for, in the order in which it asks; one goal for each order."""
    marked, found = _mark(text)
    goals: list[Goal] = []
    for topic, part in _segments(marked):
        goal = Goal(topic=topic, words=text.strip(), at=at)
        if topic is Topic.ADDRESS:
            goal = replace(goal, address=found.address)
        if topic in (Topic.REFUND, Topic.CANCEL):
            goal = replace(goal, amount=_amount(part), reason=found.reason)
        orders = _orders(part)
        goals += [replace(goal, order=order) for order in orders] or [goal]
    return goals


def read_details(text: str) -> Details:
    """Return what a message says, whatever it is about."""
    marked, found = _mark(text)
    bare = _BARE_NUMBER.match(text)
    orders = tuple(_orders(marked))
    address = found.address
    if address is None and not orders and (start := _BARE_ADDRESS.match(text)):
        address, _ = _until_end(text, start.end())
        address = address if _looks_like_address(address) else None
    number = bare.group(1) if bare and not orders and address is None else None
    return Details(
        orders=orders, address=address, amount=_amount(marked), reason=found.reason, number=number
    )


def is_farewell(text: str) -> bool:
    """Whether a message thanks or says goodbye."""
    return bool(_FAREWELL.search(text))


def is_greeting(text: str) -> bool:
    """Whether a message begins with a greeting."""
    return bool(_GREETING.match(text))


def _mark(text: str) -> tuple[str, Details]:
    """Replace what must not be read as anything else: the address, the reason, the orders."""
    marked = re.sub(r"[ \t]+", " ", text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")).strip()
    marked, address = _take_address(marked)
    marked, reason = _take_reason(marked)
    return _ORDER.sub(_mark_order, marked), Details(address=address, reason=reason)


def _mark_order(match: re.Match[str]) -> str:
    if code := match.group("code"):
        return f"⟦{code.upper()}⟧"
    if bare := match.group("bare"):
        return f"{match.group('before')} ⟦{bare}⟧"
    more = re.sub(r"#?(\d+)", r"⟦\1⟧", match.group("more") or "")
    return f"order ⟦{match.group('number').upper()}⟧{more}"


def _take_address(text: str) -> tuple[str, str | None]:
    for pattern in _ADDRESS_STARTS:
        for start in pattern.finditer(text):
            address, end = _until_end(text, start.end())
            if _looks_like_address(address):
                return f"{text[: start.end()]}{{address}}{text[end:]}", address
    return text, None


def _take_reason(text: str) -> tuple[str, str | None]:
    if not _TAKES_REASON.search(text):
        return text, None
    if start := _REASON_START.search(text):
        reason, end = _until_end(text, start.end())
        if reason:
            return f"{text[: start.start()]}{{reason}}{text[end:]}", reason
    for complaint in _COMPLAINT.finditer(text):
        # "The address is wrong" is no reason for a refund.
        if "address" not in text[: complaint.start()].lower()[-40:]:
            marked = f"{text[: complaint.start()]}{{reason}}{text[complaint.end() :]}"
            return marked, complaint.group().strip()
    return text, None


def _until_end(text: str, start: int) -> tuple[str, int]:
    for end in _END.finditer(text, start):
        before = text[start : end.start()]
        if end.group() != "." or not _ABBREVIATION.search(before):
            return before.strip(" ,.\"'"), end.start()
    return text[start:].strip(), len(text)


def _looks_like_address(text: str) -> bool:
    return len(text.split()) >= 2 and bool(re.search(r"\d", text)) and not _ORDER.fullmatch(text)


def _segments(marked: str) -> list[tuple[Topic, str]]:
    """Cut a message into the parts that ask for something.

    A clause that asks for nothing belongs to the one before it; at the start of a sentence it
    belongs to what comes after, if anything does.
    """
    segments: list[tuple[Topic, str]] = []
    waiting = ""
    for clause, opens_sentence in _clauses(marked):
        topic = _topic(clause)
        if topic is not None:
            segments.append((topic, f"{waiting} {clause}"))
            waiting = ""
        elif segments and not opens_sentence and not waiting:
            segments[-1] = (segments[-1][0], f"{segments[-1][1]} {clause}")
        else:
            waiting = f"{waiting} {clause}"
    if segments and waiting:
        segments[-1] = (segments[-1][0], f"{segments[-1][1]} {waiting}")
    return segments


def _clauses(marked: str) -> list[tuple[str, bool]]:
    clauses: list[tuple[str, bool]] = []
    start, opens_sentence = 0, True
    for end in _CLAUSE_END.finditer(marked):
        clauses.append((marked[start : end.start()], opens_sentence))
        start, opens_sentence = end.end(), end.group("sentence") is not None
    clauses.append((marked[start:], opens_sentence))
    return [(clause, opens) for clause, opens in clauses if clause.strip()]


def _topic(clause: str) -> Topic | None:
    for topic, pattern in _TOPIC_PATTERNS:
        match = pattern.search(clause)
        if match and not (topic in _ACTIONS and _NEGATED.search(clause[: match.start()].lower())):
            return topic
    return None


def _orders(marked: str) -> list[str]:
    return list(dict.fromkeys(_MARKED_ORDER.findall(marked)))


def _amount(text: str) -> Decimal | None:
    match = _AMOUNT.search(text)
    if match is None:
        return None
    digits = match.group("after") or match.group("before")
    cents = re.search(r"[.,](\d{1,2})$", digits)
    whole = re.sub(r"[.,]", "", digits[: cents.start()] if cents else digits)
    return Decimal(f"{whole}.{cents.group(1)}" if cents else whole)
