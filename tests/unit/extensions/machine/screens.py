"""Computers for tests, which remember what was done to them."""

from typing import Any

from outlast.extensions.machine.computer import AsyncComputer, Computer

PICTURE = "c2NyZWVu"


class Screen(Computer):
    """A computer."""

    def __init__(self, picture: Any = PICTURE) -> None:
        self.picture = picture
        self.done: list[Any] = []

    def screenshot(self) -> str:
        self.done.append("screenshot")
        return self.picture

    def click(self, x: int, y: int, button: str, keys: list[str] | None = None) -> None:
        self.done.append(("click", x, y, button, keys))

    def double_click(self, x: int, y: int) -> None:
        self.done.append(("double_click", x, y))

    def scroll(self, x: int, y: int, scroll_x: int, scroll_y: int) -> None:
        self.done.append(("scroll", x, y, scroll_x, scroll_y))

    def type(self, text: str) -> None:
        self.done.append(("type", text))

    def wait(self) -> None:
        self.done.append("wait")

    def move(self, x: int, y: int) -> None:
        self.done.append(("move", x, y))

    def keypress(self, keys: list[str]) -> None:
        self.done.append(("keypress", *keys))

    def drag(self, path: list[tuple[int, int]]) -> None:
        self.done.append(("drag", *path))


class AsyncScreen(AsyncComputer):
    """A computer with coroutines; it does what a `Screen` does."""

    def __init__(self) -> None:
        self.screen = Screen()

    async def screenshot(self) -> str:
        return self.screen.screenshot()

    async def click(self, x: int, y: int, button: str) -> None:
        self.screen.click(x, y, button)

    async def double_click(self, x: int, y: int) -> None:
        self.screen.double_click(x, y)

    async def scroll(self, x: int, y: int, scroll_x: int, scroll_y: int) -> None:
        self.screen.scroll(x, y, scroll_x, scroll_y)

    async def type(self, text: str) -> None:
        self.screen.type(text)

    async def wait(self) -> None:
        self.screen.wait()

    async def move(self, x: int, y: int) -> None:
        self.screen.move(x, y)

    async def keypress(self, keys: list[str]) -> None:
        self.screen.keypress(keys)

    async def drag(self, path: list[tuple[int, int]]) -> None:
        self.screen.drag(path)
