"""The computer interface: a screen, a mouse and a keyboard for a model."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, cast

from outlast.agents.callables import call
from outlast.agents.errors import UserError
from outlast.agents.logs import get_logger
from outlast.loop.values import JsonObject

logger: Final = get_logger(__name__)

Environment: TypeAlias = Literal["mac", "windows", "ubuntu", "browser"]
"""The operating system or browser that a computer tool uses."""
Button: TypeAlias = Literal["left", "right", "wheel", "back", "forward"]
"""A button of a mouse."""

_SCREENSHOT = "screenshot"
_ACTIONS: Mapping[str, tuple[str, ...]] = {
    "click": ("x", "y", "button"),
    "double_click": ("x", "y"),
    "scroll": ("x", "y", "scroll_x", "scroll_y"),
    "type": ("text",),
    "wait": (),
    "move": ("x", "y"),
    "keypress": ("keys",),
    "drag": ("path",),
    _SCREENSHOT: (),
}
"""The method name of each action, with the names of its positional arguments."""


class _Machine(ABC):  # noqa: B024  its methods are abstract where they are sync or async
    """The base class of sync and async computers."""

    @property
    def environment(self) -> Environment | None:
        """The kind of computer; required by older models."""
        return None

    @property
    def dimensions(self) -> tuple[int, int] | None:
        """The width and height of the screen in pixels; required by older models."""
        return None


class Computer(_Machine):
    """A computer with plain methods, which run in threads.

    Coordinates are pixels from the upper left corner. A method may also take
    `keys: list[str] | None = None`, the keys to hold during the action.
    """

    @abstractmethod
    def screenshot(self) -> str:
        """Return a screenshot: a PNG in base64, or an image of any type as a `data:` URL."""

    @abstractmethod
    def click(self, x: int, y: int, button: Button) -> None:
        """Click at a position."""

    @abstractmethod
    def double_click(self, x: int, y: int) -> None:
        """Double-click at a position."""

    @abstractmethod
    def scroll(self, x: int, y: int, scroll_x: int, scroll_y: int) -> None:
        """Scroll by a number of pixels, with the pointer at a position."""

    @abstractmethod
    def type(self, text: str) -> None:
        """Type a text."""

    @abstractmethod
    def wait(self) -> None:
        """Wait for a moment."""

    @abstractmethod
    def move(self, x: int, y: int) -> None:
        """Move the pointer to a position."""

    @abstractmethod
    def keypress(self, keys: list[str]) -> None:
        """Press keys together."""

    @abstractmethod
    def drag(self, path: list[tuple[int, int]]) -> None:
        """Press the button at the start of a path, move along it, and release the button."""


class AsyncComputer(_Machine):
    """A computer with coroutine methods; otherwise like `Computer`."""

    @abstractmethod
    async def screenshot(self) -> str:
        """Return a screenshot: a PNG in base64, or an image of any type as a `data:` URL."""

    @abstractmethod
    async def click(self, x: int, y: int, button: Button) -> None:
        """Click at a position."""

    @abstractmethod
    async def double_click(self, x: int, y: int) -> None:
        """Double-click at a position."""

    @abstractmethod
    async def scroll(self, x: int, y: int, scroll_x: int, scroll_y: int) -> None:
        """Scroll by a number of pixels, with the pointer at a position."""

    @abstractmethod
    async def type(self, text: str) -> None:
        """Type a text."""

    @abstractmethod
    async def wait(self) -> None:
        """Wait for a moment."""

    @abstractmethod
    async def move(self, x: int, y: int) -> None:
        """Move the pointer to a position."""

    @abstractmethod
    async def keypress(self, keys: list[str]) -> None:
        """Press keys together."""

    @abstractmethod
    async def drag(self, path: list[tuple[int, int]]) -> None:
        """Press the button at the start of a path, move along it, and release the button."""


ComputerLike: TypeAlias = Computer | AsyncComputer


def action_problem(actions: Sequence[JsonObject]) -> str | None:
    """Return the problem of a call's actions, or None if they are valid."""
    for action in actions:
        kind = str(action.get("type"))
        if kind not in _ACTIONS:
            return f"A computer has no action {kind!r}. Its actions: {', '.join(_ACTIONS)}."
        missing = [name for name in _ACTIONS[kind] if name not in action]
        if missing:
            return f"The computer action {kind!r} lacks {', '.join(missing)}."
    return None


async def act(computer: ComputerLike, actions: Sequence[JsonObject]) -> str:
    """Perform actions in order and return a screenshot as a `data:` URL.

    Raises:
        UserError: the computer returns no screenshot.
        Exception: any error of a method.
    """
    shot: object = None
    for action in actions:
        shot = await _do(computer, action)
    if not actions or actions[-1]["type"] != _SCREENSHOT:
        shot = await call(computer.screenshot)
    if not isinstance(shot, str) or not shot:
        raise UserError(
            f"{type(computer).__name__}.screenshot() returned {shot!r:.40}. Return the screen as "
            "PNG in base64, or a picture as a data: URL."
        )
    return shot if shot.startswith("data:") else f"data:image/png;base64,{shot}"


async def _do(computer: ComputerLike, action: JsonObject) -> Any:
    kind = str(action["type"])
    method = getattr(computer, kind)
    values = [_value(name, action[name]) for name in _ACTIONS[kind]]
    held = {"keys": action["keys"]} if action.get("keys") and "keys" not in _ACTIONS[kind] else {}
    if held and not _takes_keys(method):
        logger.warning(
            "%s.%s() has no parameter keys=, so the action runs without %s",
            type(computer).__name__,
            kind,
            held,
        )
        held = {}
    return await call(method, *values, **held)


def _value(name: str, value: Any) -> Any:
    if name != "path":
        return value
    return [(point["x"], point["y"]) for point in cast("list[JsonObject]", value)]


def _takes_keys(method: Any) -> bool:
    parameters = inspect.signature(method).parameters.values()
    return any(
        parameter.name == "keys" or parameter.kind is parameter.VAR_KEYWORD
        for parameter in parameters
    )
