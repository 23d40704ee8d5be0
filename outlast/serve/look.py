"""The look of the customers' page: its name, logo, colors and words, and the sites that embed it."""

import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from outlast.agents.argument_names import near_name
from outlast.agents.checks import check_list, check_name, check_printable
from outlast.agents.errors import UserError
from outlast.agents.hosts import is_this_machine
from outlast.agents.json_values import is_mapping, is_object
from outlast.edges.bodies import DOORS, BodyRefused

LEAST_CONTRAST: Final = 4.5
"""The contrast of text that WCAG 2.2 AA asks for."""

LONGEST_NAME: Final = 60
LONGEST_WORDS: Final = 300
LARGEST_LOGO: Final = 200_000  # bytes

LIGHT: Final = ("#ffffff", "#f6f6f8", "#f6eafb")
DARK: Final = ("#141519", "#101114", "#301d3a")
"""What stands behind links on the page, in both themes: see `chat.css`."""

_LOGOS: Final[Mapping[str, tuple[bytes, str]]] = {
    ".png": (b"\x89PNG", "image/png"),
    ".jpg": (b"\xff\xd8\xff", "image/jpeg"),
    ".jpeg": (b"\xff\xd8\xff", "image/jpeg"),
    ".svg": (b"<", "image/svg+xml"),
}
_COLOR: Final = re.compile("#[0-9a-fA-F]{6}")
_ORIGIN: Final = re.compile(r"https?://(?:[a-z0-9.-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")
_LANGUAGE: Final = re.compile("[a-zA-Z]{2,8}(?:-[a-zA-Z0-9]{1,8})*")

WORDS: Final[Mapping[str, str]] = {
    # Who says something.
    "you": "You",
    "assistant": "Assistant",
    "colleague": "A colleague",
    # What the conversation waits for.
    "works": "An answer is on its way.",
    "request": "",
    "team": "We have asked a colleague to look at it.",
    "taken": "A colleague has taken over this conversation.",
    "looks": "A colleague is looking at it.",
    "your_turn": "We wait for your answer.",
    "ended": "This conversation has ended.",
    # Writing.
    "hello": "Hello! Write a message to begin.",
    "write": "Write a message",
    "label": "Your message",
    "send": "Send",
    "attach": "Attach photos or files",
    "unread": "Sent, not read yet",
    "more": "Show new messages",
    "earlier": "Your earlier conversation",
    "rate": "How is this conversation?",
    "rated": "Thank you. You can change this until the conversation ends.",
    "good": "Good",
    "bad": "Bad",
    "why": "Why? (optional)",
    "keep": "Save",
    "live": "Live",
    "not_live": "Not live",
    "reconnecting": "Reconnecting",
    "closed": "Closed",
    "failed": "This did not work. Send it again.",
    "offline": "There is no connection. Nothing is lost: send it again.",
    "expired": "This page has expired. Open the chat with your link again.",
    # Coming in.
    "start": "Start a chat",
    "open": "Open the chat",
    "close": "Close the chat",
    "window": "Open the chat in a window of its own",
    "again": "Try again",
    # Problems, by their codes. The sentences of errors are for those who run the desk.
    "problem": "This did not work. Reload the page, and try again.",
    "not_logged_in": "Open the chat with the link that you were given.",
    "identity_refused": "This link has expired, or is not for this conversation. Ask for a new one.",
    "not_opened": "This link has expired, or is not for this conversation. Ask for a new one.",
    "run_not_found": "There is no such conversation. Ask for a new link.",
    "run_closed": "This conversation has ended.",
    "conversation_ended": "This conversation has ended.",
    "conversation_full": "This conversation is full. Begin a new one.",
    "too_many_readers": "This conversation is open in too many windows. Close some of them.",
    "request_entity_too_large": "The message is too large. Send smaller files.",
    "content_too_large": "The message is too large. Send smaller files.",
    "server_unavailable": "We cannot take your message at the moment. Send it again in a minute.",
    "server_away": "This conversation cannot be shown at the moment. Try again in a minute.",
    "content_unavailable": "We cannot take your message at the moment. Send it again in a minute.",
}
"""The words of the page that an operator may change, by their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The look of the customers' page, and the sites that may embed it.

    Attributes:
        name: its name, such as that of your company.
        color: the color of buttons, links and the customer's messages, such as `#0b57d0`; empty for
            the desk's own.
        dark_color: the same on a dark page; empty for a lighter shade of `color`.
        logo: a file with a picture of at most 200 kB: PNG, JPEG or SVG.
        language: the language of the words, such as `de`.
        words: other words for what `WORDS` names. They are text, whatever is in them.
        embed: the origins of the sites that may show the chat in their pages, such as
            `https://shop.example`.
        guests: whether visitors without a token may begin a conversation.

    Raises:
        UserError: a color is none or cannot be read on the page, or another value does not fit.
    """

    name: str = "Chat"
    color: str = ""
    dark_color: str = ""
    logo: Path | str | None = None
    language: str = "en"
    words: Mapping[str, str] = field(default_factory=dict[str, str])
    embed: Collection[str] = ()
    guests: bool = False

    def __post_init__(self) -> None:
        _check_text("name", self.name, LONGEST_NAME)
        for name, backgrounds in (("color", LIGHT), ("dark_color", DARK)):
            if value := getattr(self, name):
                _check_color(name, value, backgrounds)
        if _LANGUAGE.fullmatch(str(self.language)) is None:
            raise UserError(
                f"{_place('language')} must be such as 'de', not {self.language!r:.40}."
            )
        if not is_mapping(self.words):
            raise UserError(f"{_place('words')} must be a table, not {self.words!r:.40}.")
        for name, text in self.words.items():
            if name not in WORDS:
                raise UserError(f"{_place('words')} has {name!r:.40}.{near_name(name, WORDS)}")
            _check_text(f"words[{name!r}]", text, LONGEST_WORDS)
        for origin in check_list(_place("embed"), self.embed):
            _check_origin(origin)
        if self.guests not in {True, False}:
            raise UserError(f"{_place('guests')} must be true or false.")
        self.picture()

    @classmethod
    def load(cls, path: Path | str) -> "Look":
        """Return the look in the table [chat] of a TOML file; a logo is beside the file.

        Raises:
            UserError: the file cannot be read, or does not fit.
        """
        place = Path(path)
        try:
            table = tomllib.loads(DOORS["policy"].read_file(place)).get("chat")
            if not is_object(table):
                raise UserError("it has no table [chat].")  # noqa: TRY301  one sentence for all
            found: dict[str, Any] = {**table}
            names = [one.name for one in fields(cls)]
            for name in found:
                if name not in names:
                    raise UserError(f"[chat] has {name!r:.40}.{near_name(name, names)}")  # noqa: TRY301
            if "logo" in found:
                found["logo"] = place.parent / str(found["logo"])
            return cls(**found)
        except (BodyRefused, OSError, ValueError, RecursionError, UserError, TypeError) as error:
            reason = error.message if isinstance(error, UserError) else error
            raise UserError(f"The look in {place} cannot be used: {reason}") from None

    @property
    def texts(self) -> Mapping[str, str]:
        """All words of the page, by their names."""
        return {**WORDS, **self.words}

    @property
    def origins(self) -> tuple[str, ...]:
        """The origins of the sites that may embed the chat."""
        return tuple(self.embed)

    def css(self) -> str:
        """Return the colors as a style sheet."""
        if not self.color:
            return ""
        dark = self.dark_color or readable(self.color, DARK, "#ffffff")
        return (
            f":root {{ --accent: {self.color}; --on-accent: #ffffff; }}\n"
            "@media (prefers-color-scheme: dark) {\n"
            f"  :root {{ --accent: {dark}; --on-accent: {DARK[0]}; }}\n}}\n"
        )

    def picture(self) -> tuple[bytes, str] | None:
        """Return the logo and its type; None without one.

        Raises:
            UserError: it cannot be read, or is none.
        """
        if self.logo is None:
            return None
        place = Path(self.logo)
        begins, kind = _LOGOS.get(place.suffix.lower(), (b"", ""))
        try:
            content = place.read_bytes()
        except OSError as error:
            raise UserError(f"The logo {place} cannot be read: {error.strerror}.") from None
        if not kind or not content.lstrip(b"\xef\xbb\xbf \r\n\t").startswith(begins):
            raise UserError(f"The logo {place} must be a PNG, JPEG or SVG, also by its name.")
        if len(content) > LARGEST_LOGO:
            raise UserError(f"The logo {place} has more than {LARGEST_LOGO:,} bytes.")
        return content, kind


# --- Colors --------------------------------------------------------------------------------------


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colors such as `#0b57d0`, as WCAG 2.2 counts it: 1 to 21."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def readable(color: str, backgrounds: Sequence[str], toward: str) -> str:
    """Return the shade of a color that is nearest to it and can be read on some backgrounds."""
    shades = (_mixed(color, toward, part / 50) for part in range(51))
    return next(one for one in shades if _least_contrast(one, backgrounds) >= LEAST_CONTRAST)


def _least_contrast(color: str, backgrounds: Sequence[str]) -> float:
    return min(contrast(color, one) for one in backgrounds)


def _luminance(color: str) -> float:
    parts = [one / 255 for one in _channels(color)]
    red, green, blue = (
        one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _mixed(color: str, toward: str, part: float) -> str:
    pairs = zip(_channels(color), _channels(toward), strict=True)
    return "#" + "".join(f"{round(one + (other - one) * part):02x}" for one, other in pairs)


def _channels(color: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(color[1:]))


# --- Checks --------------------------------------------------------------------------------------


def _check_color(name: str, color: object, backgrounds: Sequence[str]) -> None:
    if not isinstance(color, str) or _COLOR.fullmatch(color) is None:
        raise UserError(f"{_place(name)} must be a color such as #0b57d0, not {color!r:.40}.")
    least = _least_contrast(color, backgrounds)
    if least < LEAST_CONTRAST:
        toward = "#000000" if backgrounds == LIGHT else "#ffffff"
        raise UserError(
            f"{_place(name)}: {color} has a contrast of {int(least * 10) / 10} on the page, and text "
            f"needs {LEAST_CONTRAST}. {readable(color, backgrounds, toward)} has it."
        )


def _check_origin(origin: object) -> None:
    text = origin if isinstance(origin, str) else ""
    host = urlsplit(text).hostname or "" if _ORIGIN.fullmatch(text) else ""
    if not host or not (text.startswith("https:") or is_this_machine(host)):
        raise UserError(
            f"{_place('embed')} must have the origins of sites, such as https://shop.example, "
            f"without a path and in small letters, not {origin!r:.80}."
        )


def _check_text(name: str, text: object, longest: int) -> None:
    check_name(_place(name), text)
    check_printable(_place(name), str(text), is_name=True)
    if len(str(text)) > longest:
        raise UserError(f"{_place(name)} must have at most {longest} characters.")


def _place(name: str) -> str:
    return f"Look({name}=...)"
