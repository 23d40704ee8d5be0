"""A run on the screen while it happens: its entries as lines, and below them what is being said.

Owns: how that looks: on a terminal the newest text grows in place and goes when the entry that
has it all is printed; anywhere else there are only the lines. Must not know: where it comes from.
"""

from types import TracebackType
from typing import Self

from outlast.cli import run_view, terminal
from outlast.cli.run_events import RunEvent
from outlast.contract.delta_reader import GAP, RESTARTED
from outlast.loop.values import JsonObject
from outlast.rendering import LONGEST_EXCERPT, cut

_SAID = frozenset({"response.output_text.delta", "response.refusal.delta"})
_CALLED = "response.function_call_arguments.delta"


class TailView:
    """Prints a run on a console. To be entered, so that a terminal is left as it was."""

    def __init__(self, console: terminal.Screen) -> None:
        """Take in where to print."""
        self._console = console
        self._agent = ""
        self._said = ""
        self._is_behind = False
        self._calls: dict[int, str] = {}
        self._growing = terminal.Growing(console, run_view.WHO_WIDTH)

    def __enter__(self) -> Self:
        """Begin with nothing being said."""
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Remove what is not said to its end."""
        self._clear()

    def happened(self, event: RunEvent) -> None:
        """Print an entry, if it tells people anything."""
        if event.text:
            run_view.say_event(self._console, event)

    def note(self, text: str) -> None:
        """Print a remark about the run."""
        terminal.say(self._console, (text, "dim"))

    def said(self, agent: str, raw: JsonObject) -> None:
        """Take in a piece of what a model says."""
        self._agent = agent
        match raw.get("type"):
            case "response.created" | "response.completed":
                self._clear()
            case "response.output_item.added":
                self._begin(raw)
            case kind if kind == RESTARTED:
                self._clear()
                self.note(f"attempt {raw['attempt']}: {agent or 'the model'} is asked again")
            case kind if kind == GAP:
                self._is_behind = True
                self._show()
            case kind if kind in _SAID:
                self._is_behind = False
                self._said += str(raw.get("delta", ""))
                self._show()
            case kind if kind == _CALLED:
                index = int(raw.get("output_index", 0))
                self._calls[index] = self._calls.get(index, "→ ") + str(raw.get("delta", ""))
                self._show()
            case _:
                pass

    def text(self) -> str:
        """Return what is being said, and with which arguments what is called."""
        calls = [cut(call, LONGEST_EXCERPT) for _, call in sorted(self._calls.items())]
        said = self._said + ("…" if self._is_behind else "")
        return "\n".join([*([said] if said else []), *calls])

    def _begin(self, raw: JsonObject) -> None:
        item = raw.get("item")
        if isinstance(item, dict) and "name" in item:
            self._calls[int(raw.get("output_index", 0))] = f"→ {item['name']} "
            self._show()

    def _show(self) -> None:
        self._growing.show(run_view.who_cell(self._agent), self.text)

    def _clear(self) -> None:
        self._growing.clear()
        self._said = ""
        self._is_behind = False
        self._calls.clear()
