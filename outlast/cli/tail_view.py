"""A run on the screen while it happens: its entries as lines, and below them what is being said.

Owns: how that looks: on a terminal the newest text grows in place and goes when the entry that
has it all is printed; anywhere else there are only the lines. Must not know: where it comes from.
"""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from outlast.cli import run_view, terminal
from outlast.cli.run_events import RunEvent
from outlast.contract.delta_reader import GAP, RESTARTED
from outlast.loop.values import JsonObject

_SAID = frozenset({"response.output_text.delta", "response.refusal.delta"})
_CALLED = "response.function_call_arguments.delta"
_ROOM_ABOVE = 4
"""Lines of the screen that a growing text leaves free."""

_FRAMES_PER_SECOND = 12


class TailView:
    """Prints a run on a console. To be entered, so that a terminal is left as it was."""

    def __init__(self, console: Console) -> None:
        """Take in where to print."""
        self._console = console
        self._agent = ""
        self._said = ""
        self._is_behind = False
        self._calls: dict[int, str] = {}
        self._live: Live | None = None

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
        calls = [run_view.shortened(call) for _, call in sorted(self._calls.items())]
        said = self._said + ("…" if self._is_behind else "")
        return "\n".join([*([said] if said else []), *calls])

    def _begin(self, raw: JsonObject) -> None:
        item = raw.get("item")
        if isinstance(item, dict) and "name" in item:
            self._calls[int(raw.get("output_index", 0))] = f"→ {item['name']} "
            self._show()

    def _show(self) -> None:
        if not self._console.is_terminal:
            return
        if self._live is None:
            self._live = Live(
                console=self._console,
                transient=True,
                refresh_per_second=_FRAMES_PER_SECOND,
                get_renderable=self._renderable,
            )
            self._live.start(refresh=True)

    def _renderable(self) -> Table:
        width = max(self._console.width - run_view.WHO_WIDTH - 1, 20)
        room = max(self._console.height - _ROOM_ABOVE, 1)
        # Of a long text no more than fits, because this runs for every frame.
        lines = Text(self.text()[-room * width :], style="green").wrap(self._console, width)
        who, _ = run_view.entry_cells(self._agent, "")
        grid = Table.grid(padding=(0, 1))
        grid.add_column(min_width=run_view.WHO_WIDTH, no_wrap=True)
        grid.add_column()
        grid.add_row(who, Text("\n").join(lines[-room:]))
        return grid

    def _clear(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        self._said = ""
        self._is_behind = False
        self._calls.clear()
