"""What the server has no more comes from the archive, in whatever words the server says so."""

from datetime import timedelta
from typing import Any

import pytest
from temporalio.service import RPCError, RPCStatusCode

from outlast.archive.reading import as_not_found
from outlast.client.transport.outages import retry_during_outage
from outlast.client.transport.run_address import unless_gone

INVALID = RPCStatusCode.INVALID_ARGUMENT
GONE = "Requested workflow history not found, may have passed retention period."


@pytest.mark.parametrize(
    ("said", "status", "meant"),
    [
        (GONE, INVALID, RPCStatusCode.NOT_FOUND),
        ("workflow not found for ID: r", RPCStatusCode.NOT_FOUND, RPCStatusCode.NOT_FOUND),
        ("Invalid NextPageToken.", INVALID, INVALID),
        (GONE, RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.PERMISSION_DENIED),
    ],
)
async def test_a_server_that_reads_its_own_archives_says_not_found_in_another_way(
    said: str, status: RPCStatusCode, meant: RPCStatusCode
):
    error = RPCError(said, status, b"")
    assert as_not_found(error).status is meant
    assert as_not_found(error).message == said

    async def refused() -> None:
        raise error

    with pytest.raises(RPCError) as raised:
        await retry_during_outage(_CLIENT, refused, timedelta(0))
    assert raised.value.status is meant
    if meant is RPCStatusCode.NOT_FOUND:
        assert await unless_gone(_CLIENT, "r", refused()) is None


class _Client:
    """Nothing is asked of it."""


_CLIENT: Any = _Client()
