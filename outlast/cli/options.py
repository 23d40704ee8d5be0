"""Options shared by several commands, with their names and help texts."""

from typing import Annotated, TypeAlias

import typer

from outlast.contract import names

Address: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--address",
        help="Host and port of the Temporal server. Default: what TEMPORAL_ADDRESS or the profile "
        "file says, or else the server of `outlast dev`, or else localhost:7233.",
        rich_help_panel="Server",
    ),
]

Namespace: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        help="Default: what TEMPORAL_NAMESPACE or the profile file says, or else `default`.",
        rich_help_panel="Server",
    ),
]

Codec: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--codec",
        metavar="MODULE:NAME",
        help="The payload codec that encrypts the runs. Default: OUTLAST_CODEC, or none.",
        rich_help_panel="Server",
    ),
]

AsJson: TypeAlias = Annotated[
    bool, typer.Option("--json", help="JSON instead of text: one document, or one a line.")
]

TaskQueue: TypeAlias = Annotated[
    str, typer.Option("--task-queue", help="Where runs and their workers meet.")
]

RunId: TypeAlias = Annotated[
    str, typer.Argument(metavar="ID", help="The run's id.", show_default=False)
]

Detach: TypeAlias = Annotated[
    bool, typer.Option("--detach", "-d", help="Do not wait for the answer.")
]

DEFAULT_TASK_QUEUE = names.TASK_QUEUE
