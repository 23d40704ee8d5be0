"""Who uses the command line."""

import pytest

from outlast.agents.errors import UserError
from outlast.cli.caller import sender
from outlast.client.identity import os_user
from outlast.contract.names import METHOD_NAMED


def test_the_user_of_the_system_has_its_groups_and_another_name_has_none() -> None:
    user = os_user()
    assert sender(None) == sender(user.subject) == user
    ann = sender("ann")
    assert (ann.subject, ann.groups, ann.method) == ("ann", (), METHOD_NAMED)
    with pytest.raises(UserError, match="is empty"):
        sender("")
