"""Options shared by several commands, with their names and help texts."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from outlast.contract import names

AppDir: TypeAlias = Annotated[
    Path, typer.Option("--app-dir", help="The directory to search for the target first.")
]

AsJson: TypeAlias = Annotated[
    bool, typer.Option("--json", help="JSON instead of text: one document, or one a line.")
]

TaskQueue: TypeAlias = Annotated[
    str, typer.Option("--task-queue", help="The task queue of the run's workers.")
]

RunId: TypeAlias = Annotated[
    str, typer.Argument(metavar="ID", help="The run's id.", show_default=False)
]

Text: TypeAlias = Annotated[
    str, typer.Argument(metavar="TEXT", help="The message.", show_default=False)
]

Limit: TypeAlias = Annotated[
    int, typer.Option("--limit", min=1, help="The maximum number of runs.")
]

Group: TypeAlias = Annotated[
    str | None, typer.Option("--group", help="Only what this group or person decides.")
]

Customer: TypeAlias = Annotated[
    str | None,
    typer.Option("--customer", metavar="ID", help="For whom the run works, as you call them."),
]

Target: TypeAlias = Annotated[
    str | None,
    typer.Argument(
        metavar="[TARGET]",
        help="Where the agents are, as for `outlast worker`; they are compared.",
        show_default=False,
    ),
]

Approvals: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--approvals",
        envvar="OUTLAST_APPROVALS",
        help="A TOML file that changes the approval policies of the code.",
    ),
]

Stream: TypeAlias = Annotated[
    bool,
    typer.Option("--stream", help="Let `outlast tail` show answers while the model writes them."),
]

Detach: TypeAlias = Annotated[
    bool, typer.Option("--detach", "-d", help="Do not wait for the answer.")
]

DEFAULT_TASK_QUEUE = names.TASK_QUEUE
