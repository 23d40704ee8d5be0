"""What templates do with values: text made visible, Markdown, times, money.

Everything that models, tools, customers and colleagues wrote is hostile. A filter returns HTML only
where it made it itself.
"""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache, partial
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import nh3
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape

from outlast.edges import rendering
from outlast.pricing import dollars
from outlast.views.mentions import mention_parts, mention_tag
from outlast.views.proofs import PROOF_WORDS
from outlast.views.trouble import trouble_words
from outlast.views.words import EFFECT, STATUS, VOTED, at_desk

LONGEST_MARKDOWN: Final = 20_000
"""The most characters that are read as Markdown: some texts of 20,000 take half a second."""

LONGEST_SHOWN: Final = 50_000
"""The most characters of a text that a page shows."""


NONE: Final = "\u2013"
"""Stands for what is not known."""

# --- Text ----------------------------------------------------------------------------------------


def shown(value: Any) -> Any:
    """Return a value for a template, with every character visible; line breaks stay.

    The environment calls it for each value, so that no template has to.
    """
    if isinstance(value, Markup | rendering.Shown) or not isinstance(value, str):
        return value
    return rendering.visible_text(value)


def whole(text: str) -> rendering.Shown:
    """Return a text for a block that keeps its lines, cut if it is very long."""
    return rendering.visible_text(rendering.cut(text, LONGEST_SHOWN))


def read_back(text: str) -> str:
    """Return what a field of a form has, whose text `written` had made visible.

    Forms send other line ends, and escapes stay escapes.
    """
    return rendering.original(with_line_ends(text))


def with_line_ends(text: str) -> str:
    """Return a text that a form sent, with the line ends of pages."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def excerpt(text: str, limit: int = rendering.LONGEST_EXCERPT) -> rendering.Shown:
    """Return the beginning of a text in one line."""
    is_shown = isinstance(text, rendering.Shown)
    return rendering.excerpt(text if is_shown else " ".join(text.split()), limit)


def line(text: str) -> rendering.Shown:
    """Return a piece of a text in one line, with the blanks at its ends."""
    return rendering.visible("".join(" " if one.isspace() else one for one in text))


def mentioning(text: str, me: str = "") -> Markup:
    """Return a comment with its mentions marked, those of the reader most of all."""
    parts = mention_parts(rendering.cut(text, LONGEST_SHOWN))
    own = mention_tag(me)
    return Markup("").join(
        Markup('<b class="mention{}">{}</b>').format(
            " is-me" if me and mention_tag(part[1:]) == own else "", rendering.visible_text(part)
        )
        if is_mention
        else escape(rendering.visible_text(part))
        for part, is_mention in parts
    )


def initials(name: str) -> str:
    """Return one or two letters for a person."""
    words = [
        word for word in name.replace("@", " ").replace(".", " ").split() if word[:1].isalnum()
    ]
    return "".join(word[0] for word in words[:2]).upper() or "?"


# --- Markdown ------------------------------------------------------------------------------------

_TAGS: Final = {
    *("p", "br", "hr", "strong", "em", "s", "code", "pre", "blockquote", "ul", "ol", "li"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td"),
    *("a", "span"),
}
_SCHEMES: Final = {"http", "https", "mailto"}


@cache
def _markdown() -> MarkdownIt:
    # No HTML; images would tell their server who reads, so they stay text with a link.
    reader = MarkdownIt("commonmark", {"html": False, "typographer": False})
    return reader.enable(["table", "strikethrough"]).disable(["image"])


def markdown(text: str) -> Markup:
    """Return Markdown as HTML: no images and no HTML of its own; links show where they lead."""
    if len(text) > LONGEST_MARKDOWN:
        return Markup('<p class="text">{}</p>').format(whole(text))
    reader = _markdown()
    tokens = reader.parse(text.replace("\0", "\\u0000"))
    _make_visible(tokens)
    html: str = reader.renderer.render(tokens, reader.options, {})
    clean = nh3.clean(
        html,
        tags=_TAGS,
        attributes={"a": {"href"}, "ol": {"start"}},
        allowed_classes={"span": {"host"}},
        url_schemes=_SCHEMES,
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )
    return Markup(clean)  # noqa: S704  cleaned above


def _make_visible(tokens: Sequence[Token]) -> None:
    """Make the text of a parsed document visible, and let each link show its host.

    It happens after parsing: Markdown has escapes of its own, such as `&#x202e;`.
    """
    for token in tokens:
        if token.content and token.type != "inline":
            token.content = whole(token.content)
        if token.children is not None:
            _make_visible(token.children)
            token.children = _with_hosts(token.children)


def _with_hosts(tokens: Sequence[Token]) -> list[Token]:
    found: list[Token] = []
    host = ""
    for token in tokens:
        if token.type == "link_open":
            host = _host_of(str(token.attrGet("href") or ""))
            if not host:
                token.attrs = {}
        found.append(token)
        if token.type == "link_close":
            remark = Token("html_inline", "", 0)
            label = host or "not a link"
            remark.content = f' <span class="host">({escape(rendering.visible(label))})</span>'
            found.append(remark)
    return found


def _host_of(address: str) -> str:
    """Return where a link leads, for people; empty if the desk does not follow it."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return ""
    if parts.scheme == "mailto":
        return unquote(parts.path).rpartition("@")[2]
    return (parts.hostname or "") if parts.scheme in {"http", "https"} else ""


# --- Times and money -----------------------------------------------------------------------------


def now() -> datetime:
    """Return the time."""
    return datetime.fromtimestamp(time.time(), UTC)


def _time(at: datetime | int | None, kind: str, words: Callable[[datetime], str]) -> Markup:
    """Return the element of a time, which pages keep up to date; nothing for None.

    Args:
        at: the time; a number is in milliseconds since the epoch.
        kind: how scripts show it.
        words: returns what stands there without scripts, from the time in UTC.
    """
    if at is None:
        return Markup("")
    moment = at if isinstance(at, datetime) else datetime.fromtimestamp(at / 1000, UTC)
    moment = moment.astimezone(UTC)
    iso = moment.isoformat(timespec="seconds").replace("+00:00", "Z")
    html = Markup('<time datetime="{}" data-time="{}" title="{}">{}</time>')
    return html.format(iso, kind, moment.strftime("%Y-%m-%d %H:%M:%S UTC"), words(moment))


def _to_the_minute(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M UTC")


def age(at: datetime | int | None) -> Markup:
    """Return how long ago something was, such as `3 min`; pages keep it up to date."""
    return _time(at, "age", lambda moment: rendering.rough(now() - moment))


def _until(moment: datetime) -> str:
    left = moment - now()
    return f"in {rendering.rough(left)}" if left > timedelta() else "overdue"


def deadline(at: datetime | int | None) -> Markup:
    """Return when something is due, such as `in 12 min` or `overdue`."""
    return _time(at, "deadline", _until)


def clock(at: datetime | int | None) -> Markup:
    """Return a time of day; browsers show it in their own time zone."""
    return _time(at, "clock", lambda moment: moment.strftime("%H:%M:%S UTC"))


def date_time(at: datetime | int | None) -> Markup:
    """Return a date and time; browsers show it in their own time zone."""
    return _time(at, "date", _to_the_minute)


def minute(at: datetime | int | None) -> Markup:
    """Return a time of day under a line that has the day; without scripts, the day stands with it."""
    return _time(at or None, "minute", _to_the_minute)


def money(amount: Decimal | float | None) -> str:
    """Return an amount in US dollars, exact: amounts on a page add up."""
    return NONE if amount is None else dollars(Decimal(amount))


def number(value: int | None) -> str:
    """Return a number with separators."""
    return NONE if value is None else f"{value:,}"


# --- Attributes and words ------------------------------------------------------------------------

_STATUS_CLASSES: Final = {
    "pending": "is-wait",
    "approved": "is-ok",
    "edited": "is-ok",
    "responded": "is-ok",
    "rejected": "is-bad",
    "expired": "is-bad",
}


def status_class(status: str) -> str:
    """Return the class of a request's status; its word stands in the badge."""
    return _STATUS_CLASSES.get(status, "")


def effect_word(effect: str) -> str:
    """Return what a call changes."""
    return EFFECT.get(effect, effect)


def marked(name: str, is_on: object) -> Markup:
    """Return an attribute that is there or not, such as `aria-current`."""
    return Markup('{}="true"').format(name) if is_on else Markup("")


def posts(address: str) -> Markup:
    """Return the attributes of a form that is sent to an address, with scripts and without."""
    return Markup('method="post" action="{0}" hx-post="{0}"').format(address)


def unable(problem: str, name: str) -> Markup:
    """Return the attributes of a button that cannot be used; its reason stands beside it."""
    if not problem:
        return Markup("")
    return Markup('aria-disabled="true" aria-describedby="why-{} why-common"').format(name)


def rows(field: Any) -> int:
    """Return how many lines a text area shows."""
    return min(16, max(3, str(field.shown).count("\n") + 2))


GLOBALS: Final[dict[str, Callable[..., Any]]] = {
    "marked": marked,
    "mention_tag": mention_tag,
    "posts": posts,
    "at_desk": at_desk,
    "effect_word": effect_word,
    "status_class": status_class,
    "status_word": STATUS.__getitem__,
    "unable": unable,
    "voted": VOTED.__getitem__,
}
"""The functions of templates, by name."""

FILTERS: Final[dict[str, Callable[..., Any]]] = {
    "age": age,
    "clock": clock,
    "counted": rendering.counted,
    "date_time": date_time,
    "deadline": deadline,
    "duration": rendering.rough,
    "excerpt": excerpt,
    "in_one_line": rendering.one_line,
    "initials": initials,
    "json_text": partial(rendering.json_text, indent=2),
    "line": line,
    "markdown": markdown,
    "mentioning": mentioning,
    "minute": minute,
    "money": money,
    "named": rendering.named,
    "number": number,
    "proof_words": PROOF_WORDS.__getitem__,
    "rows": rows,
    "trouble": trouble_words,
    "whole": whole,
    "written": rendering.visible_text,
}
"""The filters of templates, by name."""
