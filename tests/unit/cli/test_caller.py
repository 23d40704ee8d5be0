"""Who uses the command line."""

from pathlib import Path
from typing import Annotated, get_args

import pytest
import typer

from outlast.agents.errors import UserError
from outlast.cli.caller import sender
from outlast.cli.described import parameters_of, summary_of
from outlast.client.identity import os_user
from outlast.contract.names import METHOD_NAMED


def test_the_user_of_the_system_has_its_groups_and_another_name_has_none() -> None:
    user = os_user()
    assert sender(None) == sender(user.subject) == user
    ann = sender("ann")
    assert (ann.subject, ann.groups, ann.method) == ("ann", (), METHOD_NAMED)
    with pytest.raises(UserError, match="is empty"):
        sender("")


async def example(
    target: str,
    name: Annotated[str | None, typer.Argument(show_default=False)] = None,
    keep_open: bool = False,
    tries: Annotated[int, typer.Option(min=1)] = 3,
    run_id: str | None = None,
    undescribed: Path = Path(),
) -> None:
    """Do something.

    It takes a while.

    Command line:
        target (TARGET): Where
            the agents are.
        name ([NAME]): Whose.
        keep_open: Stay open: for `outlast send`.
        tries: How often.
        run_id (--id -i ID): The run's id.
    """


def test_options_are_described_in_the_docstring() -> None:
    assert summary_of(example) == "Do something.\n\nIt takes a while."
    *described, last = parameters_of(example)
    assert last.annotation is Path
    infos = [get_args(one.annotation)[1] for one in described]
    assert [(one.help, one.metavar, getattr(one, "min", None)) for one in infos] == [
        ("Where the agents are.", "TARGET", None),
        ("Whose.", "[NAME]", None),
        ("Stay open: for `outlast send`.", None, None),
        ("How often.", None, 1),
        ("The run's id.", "ID", None),
    ]
    assert [one.param_decls for one in infos[2:]] == [
        ("--keep-open",),
        ("--tries",),
        ("--id", "-i"),
    ]


def test_an_option_that_is_described_and_is_none_is_a_mistake() -> None:
    async def command(text: str) -> None:
        """Do something.

        Command line:
            txet: A text.
        """

    with pytest.raises(TypeError, match=r"command describes \['txet'\]"):
        parameters_of(command)
