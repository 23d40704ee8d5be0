from typing import Any, get_args

import pytest

from outlast.cli import options
from outlast.contract import names


@pytest.mark.parametrize(
    ("alias", "spelled"),
    [
        (options.Address, "--address"),
        (options.Namespace, "--namespace"),
        (options.AsJson, "--json"),
        (options.TaskQueue, "--task-queue"),
        (options.Detach, "--detach"),
    ],
)
def test_every_shared_option_is_explained(alias: Any, spelled: str) -> None:
    _, option = get_args(alias)

    assert spelled in option.param_decls or option.default == spelled
    assert option.help.endswith(".")


def test_runs_meet_workers_where_neither_says_where() -> None:
    assert names.TASK_QUEUE == options.DEFAULT_TASK_QUEUE
