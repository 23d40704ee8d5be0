"""What the offline model answers: calls, a handoff, a question or a report. Pure.

It decides from the request alone: the user's words, the tools the agent offers (their names,
descriptions and parameters) and what the calls so far have answered. No call is repeated for the
same message, and no handoff without something done in between, so every conversation ends.

Owns: the rules. Must not know: HTTP, ids, the clock, or which agents there are.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from outlast.dev.offline_arguments import fill
from outlast.dev.offline_language import (
    Goal,
    Topic,
    is_farewell,
    is_greeting,
    read_details,
    read_goals,
)
from outlast.dev.offline_phrases import deed, report
from outlast.dev.offline_request import Call, Request, Said, Tool
from outlast.loop.values import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class SayText:
    """The model's answer in words: a report, a question, or small talk."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTool:
    """The model's wish that a tool, or a handoff, is called."""

    name: str
    arguments: JsonObject


Reply: TypeAlias = SayText | CallTool

_HANDOFF = re.compile(r"^(?:transfer|hand_?off|hand_?over|delegate|route)(?:_(?:the_)?\w*?)?to_")
_READS = re.compile(
    r"\b(?:look|lookup|get|find|fetch|show|read|check|track|search|list|view|query|status|where)\b"
)
_ACTS = re.compile(
    r"\b(?:change|update|set|edit|modify|correct|refund|reimburse|cancel|create|delete|place|pay"
    r"|send|issue|void)\b"
)
# What a tool's words have to hold to serve a topic.
_SERVES = {
    Topic.STATUS: re.compile(r"\b(?:orders?|shipments?|parcels?|packages?|deliver(?:y|ies))\b"),
    Topic.ADDRESS: re.compile(r"\baddress\b"),
    Topic.REFUND: re.compile(r"\b(?:refund|reimburse|money back|pay back)\b"),
    Topic.INVOICE: re.compile(r"\b(?:invoices?|receipts?|bills?)\b"),
    Topic.CANCEL: re.compile(r"\bcancel\b"),
    Topic.HUMAN: re.compile(r"\b(?:human|person|escalate|representative|operator|callback)\b"),
}
_OTHER_THINGS = re.compile(r"\b(?:invoice|receipt|bill|refund)s?\b")
# Words of another agent's name or description, the most telling first.
_BELONGS = {
    Topic.STATUS: ("order", "tracking", "shipping", "delivery", "status"),
    Topic.ADDRESS: ("address", "order", "shipping", "delivery"),
    Topic.REFUND: ("refund", "billing", "payment", "money"),
    Topic.INVOICE: ("invoice", "billing", "payment", "receipt"),
    Topic.CANCEL: ("cancel", "order"),
    Topic.HUMAN: ("human", "person", "escalation", "manager"),
}
_ROUTER = re.compile(r"\b(?:triage|router?|reception|front ?desk|general|dispatch\w*)\b")
_OFFERS = {
    Topic.STATUS: "the status of an order",
    Topic.ADDRESS: "a change of address",
    Topic.REFUND: "a refund",
    Topic.INVOICE: "an invoice",
    Topic.CANCEL: "a cancellation",
    Topic.HUMAN: "a conversation with a person",
}


def respond(request: Request) -> list[Reply]:
    """Return the model's next output for a request: calls, or one text."""
    goals, exchange_start = _goals(request)
    cannot: list[Goal] = []
    question = ""
    for at, goal in enumerate(goals):
        if _is_done(goal, request):
            continue
        tool = _tool_for(goal.topic, request.tools)
        if tool is None:
            handoff = _handoff_for(goal.topic, request, exchange_start)
            if handoff is not None:
                arguments, _ = fill(handoff, goal, request.calls)
                return [CallTool(name=handoff.name, arguments=arguments)]
            cannot.append(goal)
            continue
        calls, question = _calls_or_question(tool, goals[at:], request)
        if calls:
            return list(calls if request.parallel else calls[:1])
        break
    return [SayText(text=_closing_text(request, goals, cannot, question, exchange_start))]


def _calls_or_question(
    tool: Tool, goals: Sequence[Goal], request: Request
) -> tuple[list[CallTool], str]:
    """Return calls for the first goal and for those after it that need the same tool."""
    calls: list[CallTool] = []
    question = ""
    missing: list[str] = []
    for goal in goals:
        if goal.topic is not goals[0].topic or _is_done(goal, request):
            break
        arguments, missing = fill(tool, goal, request.calls)
        if missing:
            question = _question(goal, missing)
            break
        call = CallTool(name=tool.name, arguments=arguments)
        if call not in calls:
            calls.append(call)
    if not calls and not any("order" in name for name in missing):
        calls = _look_up_first(goals[0], request)
    return calls, question


def _look_up_first(goal: Goal, request: Request) -> list[CallTool]:
    """Return a call that may tell what the customer did not say, such as the total, if any."""
    wanted = replace(goal, topic=Topic.STATUS)
    tool = _tool_for(Topic.STATUS, request.tools)
    if goal.topic is Topic.ADDRESS or tool is None or _is_done(wanted, request):
        return []
    arguments, missing = fill(tool, wanted, request.calls)
    return [] if missing else [CallTool(name=tool.name, arguments=arguments)]


def _goals(request: Request) -> tuple[list[Goal], int]:
    """Return what is asked for since the last answer, and the position where that begins.

    Where the answer before was a question, what was asked for then is still open, and what the
    customer says now completes it.
    """
    goals: list[Goal] = []
    start = 0
    known: tuple[str, ...] = ()
    for said, question_before in _exchanges(request):
        start = said[0].at
        open_before = [goal for goal in goals if not _is_done(goal, request, before=start)]
        goals = [goal for message in said for goal in read_goals(message.text, message.at)]
        if not goals:
            goals = _completed(open_before if question_before else [], said)
        for at, goal in enumerate(goals):
            # "Where is A-17? Refund it": the order is the one spoken of last.
            if goal.order is None and len(known) == 1:
                goals[at] = replace(goal, order=known[0])
            elif goal.order is not None:
                known = (goal.order,)
        orders = [order for message in said for order in read_details(message.text).orders]
        known = tuple(dict.fromkeys(orders)) or known
    return goals, start


def _exchanges(request: Request) -> list[tuple[list[Said], bool]]:
    """Group the user's messages by the answers between them.

    The flag says whether the answer before was a question. An assistant's words that accompany
    calls are no answer: the turn went on.
    """
    call_positions = {call.at for call in request.calls}
    exchanges: list[tuple[list[Said], bool]] = []
    answered, asked = True, False
    for message in request.messages:
        if message.role == "user":
            if answered:
                exchanges.append(([], asked))
            exchanges[-1][0].append(message)
            answered = False
        elif message.role == "assistant" and message.at + 1 not in call_positions:
            answered, asked = True, message.text.rstrip().endswith("?")
    return exchanges


def _completed(goals: Sequence[Goal], said: Sequence[Said]) -> list[Goal]:
    """Add what the customer says now to what was left open; an order alone asks for its status."""
    text = "\n".join(message.text for message in said)
    details = read_details(text)
    if not details:
        return []
    if not goals:
        return [
            Goal(topic=Topic.STATUS, words=text, at=said[-1].at, order=order)
            for order in details.orders
        ]
    completed: list[Goal] = []
    for goal in goals:
        orders = details.orders or ((details.number,) if details.number else ())
        completed += [
            replace(
                goal,
                at=said[-1].at,
                order=goal.order or order,
                address=goal.address or details.address,
                amount=goal.amount or details.amount,
                reason=goal.reason or details.reason,
            )
            for order in (orders if not goal.order and orders else (None,))
        ]
    return completed


def _is_done(goal: Goal, request: Request, before: int | None = None) -> bool:
    return any(
        call.at > goal.at
        and (before is None or call.at < before)
        and _answers(call, goal, request.tools)
        for call in request.calls
    )


def _answers(call: Call, goal: Goal, tools: Sequence[Tool]) -> bool:
    """Whether a call was about this goal: its kind, and its order if the call names one."""
    tool = next((tool for tool in tools if tool.name == call.name), None)
    named = tool or Tool(name=call.name, description="", parameters={})
    if _is_handoff(named) or not _fitness(named, goal.topic):
        return False
    orders = [str(v).lstrip("#").upper() for k, v in call.arguments.items() if "order" in k]
    return goal.order is None or not orders or goal.order in orders


def _is_handoff(tool: Tool) -> bool:
    return bool(_HANDOFF.match(tool.name))


def _tool_for(topic: Topic, tools: Sequence[Tool]) -> Tool | None:
    """Return the tool that serves a topic best; handoffs are no tools."""
    fitting = [tool for tool in tools if not _is_handoff(tool) and _fitness(tool, topic)]
    return max(fitting, key=lambda tool: _fitness(tool, topic), default=None)


def _fitness(tool: Tool, topic: Topic) -> int:
    """Rate how well a tool serves a topic: 2 by its name, 1 by its description's first words."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])|[_-]", " ", tool.name).lower()
    opening = " ".join(re.findall(r"\w+", tool.description.lower())[:6])
    for words, rating in ((name, 2), (opening, 1)):
        if not _SERVES[topic].search(words):
            continue
        reads, acts = _READS.search(words), _ACTS.search(words)
        if topic is Topic.STATUS:
            fits = reads and not acts and not _OTHER_THINGS.search(words)
        elif topic in (Topic.ADDRESS, Topic.REFUND, Topic.CANCEL):
            fits = acts and not (reads and reads.start() < acts.start())
        else:
            fits = True
        if fits:
            return rating
    return 0


def _handoff_for(topic: Topic, request: Request, exchange_start: int) -> Tool | None:
    """Return the handoff to whoever the topic belongs to, unless it was tried in vain."""
    spent: set[str] = set()
    for call in request.calls:
        if call.at > exchange_start:
            is_handoff = _is_handoff(Tool(name=call.name, description="", parameters={}))
            spent = {*spent, call.name} if is_handoff else set()
    handoffs = [tool for tool in request.tools if _is_handoff(tool) and tool.name not in spent]
    best = max(handoffs, key=lambda tool: _belonging(tool, topic), default=None)
    if best is not None and _belonging(best, topic):
        return best
    # Somebody who routes may know; but not if it was just routed here.
    routers = [tool for tool in handoffs if _ROUTER.search(_target(tool))]
    return routers[0] if routers and not spent else None


def _belonging(handoff: Tool, topic: Topic) -> int:
    target, about = _target(handoff), _about(handoff)
    rating = 0
    for weight, word in zip((3, 2, 1, 1, 1), _BELONGS[topic], strict=False):
        rating += 2 * weight if word in target else weight if word in about else 0
    return rating


def _about(handoff: Tool) -> str:
    return f"{_target(handoff)} {handoff.description}".lower()


def _target(handoff: Tool) -> str:
    return _HANDOFF.sub("", handoff.name).replace("_", " ").lower()


def _closing_text(
    request: Request,
    goals: Sequence[Goal],
    cannot: Sequence[Goal],
    question: str,
    exchange_start: int,
) -> str:
    """Report every call since the message, what cannot be done, and what has to be asked."""
    parts = _reports(request, goals, exchange_start)
    parts += [f"I am sorry, I cannot {deed(goal.topic, goal.order)} here." for goal in cannot]
    if question:
        parts.append(question)
    return " ".join(dict.fromkeys(parts)) or _small_talk(request)


def _reports(request: Request, goals: Sequence[Goal], exchange_start: int) -> list[str]:
    reports: list[tuple[bool, str]] = []
    for call in request.calls:
        tool = Tool(name=call.name, description="", parameters={})
        if call.at < exchange_start or _is_handoff(tool):
            continue
        goal = next((g for g in goals if _answers(call, g, request.tools)), None)
        order = goal.order if goal else None
        reports.append((goal is not None, report(goal.topic if goal else None, order, call)))
    # A look-up on the way to what was asked for is worth no sentence of its own.
    asked_for = [text for is_asked, text in reports if is_asked]
    return asked_for or [text for _, text in reports]


def _question(goal: Goal, missing: Sequence[str]) -> str:
    what = deed(goal.topic, goal.order)
    if any("order" in name or "invoice" in name for name in missing):
        return f"To {what}, I need the order number. Which order is it?"
    if any("address" in name for name in missing):
        return f"To {what}, I need the new address. What is it?"
    if any("amount" in name for name in missing):
        return f"To {what}, I need the amount. How much is it?"
    names = " and ".join(name.replace("_", " ") for name in missing)
    return f"To {what}, I need one more thing: {names}. Can you tell me?"


def _small_talk(request: Request) -> str:
    text = next((m.text for m in reversed(request.messages) if m.role == "user"), "")
    if is_farewell(text):
        return "You are welcome. Have a good day!"
    offers = [
        offer
        for topic, offer in _OFFERS.items()
        if _tool_for(topic, request.tools)
        or any(_is_handoff(t) and _BELONGS[topic][0] in _about(t) for t in request.tools)
    ]
    can = f"I can help with {_enumerated(offers)}." if offers else "I have no tools to work with."
    if is_greeting(text):
        return f"Hello! {can} What can I do for you?"
    return f"I am an offline stand-in and understand simple requests only. {can}"


def _enumerated(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else list(words))
