"""Notes every text that a page shows, frame by frame: also what is wrong for a moment only."""

from dataclasses import dataclass, field
from typing import Any, Final

from playwright.async_api import Page

from tests.browser.model import counted

_NOTE: Final = """() => {
  const words = selector => [...document.querySelectorAll(selector)]
    .filter(one => one.checkVisibility())
    .map(one => one.innerText.replace(/\\s+/g, " ").trim()).filter(text => text);
  let before = "";
  const look = () => {
    const now = [words("#messages .chat-bubble, #talk .bubble, #tail .bubble"),
                 words("#progress .chat-bubble, #draft-text")];
    const text = JSON.stringify(now);
    if (text !== before && document.readyState === "complete") window.noteTexts(now);
    before = text;
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}"""


@dataclass
class Watched:
    """What a page has shown.

    Attributes:
        frames: the finished texts, and those in progress, each time that they changed.
    """

    frames: list[tuple[list[str], list[str]]] = field(default_factory=list[Any])

    @classmethod
    async def begin(cls, page: Page) -> "Watched":
        """Watch a page from its next address on, also after it is loaded again."""
        watched = cls()

        def note(_source: object, texts: list[list[str]]) -> None:
            watched.frames.append((texts[0], texts[1]))

        untyped: Any = page
        await untyped.expose_binding("noteTexts", note)
        await page.add_init_script(f"({_NOTE})()")
        return watched

    def faults(self, texts: list[str], last: int) -> list[str]:
        """Return what was shown and should not have been.

        Args:
            texts: all finished texts, in order.
            last: how far the model counts in the one text that is watched while it grows.
        """
        whole, found = counted(last).split(), list[str]()
        for said, drafts in self.frames:
            if said != texts[: len(said)]:
                found.append(f"the texts were {said}")
            for draft in drafts:
                numbers = draft.split()
                if numbers[0] == whole[0] and numbers != whole[: len(numbers)]:
                    found.append(f"the text in progress was {draft}")
                if any(text.startswith(draft) for text in said[-1:]) and len(numbers) > 1:
                    found.append(f"there was also a text in progress: {draft}")
        return found
