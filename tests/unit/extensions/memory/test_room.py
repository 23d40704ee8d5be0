"""The place where users look for sessions with dependencies of their own."""

import subprocess
import sys

import pytest

from outlast.extensions import memory
from outlast.extensions.memory import SQLAlchemySession
from outlast.sessions import sql_alchemy


def test_the_session_is_the_one_of_its_adapter() -> None:
    assert SQLAlchemySession is sql_alchemy.SQLAlchemySession
    assert "SQLAlchemySession" in dir(memory)


def test_another_name_is_not_there() -> None:
    with pytest.raises(AttributeError, match="RedisSession"):
        memory.RedisSession  # noqa: B018  asking for it is the test
    with pytest.raises(ImportError):
        exec("from outlast.extensions.memory import RedisSession")


def test_looking_here_does_not_load_sqlalchemy() -> None:
    program = "import sys, outlast.extensions.memory; print('sqlalchemy' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
