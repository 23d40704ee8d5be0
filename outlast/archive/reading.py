"""Reads from the archive what the server has deleted, through the same handles as before."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import (
    Client,
    DescribeWorkflowInput,
    FetchWorkflowHistoryEventsInput,
    Interceptor,
    OutboundInterceptor,
    WorkflowExecutionDescription,
    WorkflowHandle,
    WorkflowHistoryEventAsyncIterator,
    WorkflowHistoryEventFilterType,
)
from temporalio.converter import DataConverter
from temporalio.service import RPCError, RPCStatusCode

from outlast.archive.archive import Archive, described
from outlast.archive.entries import ArchivedHistory
from outlast.archive.locations import archive_of

_NO_HISTORY: Final = "Requested workflow history not found"
"""What a server says that may read archives of its own, as the one of docker-compose.yml: not that
there is no such execution, but that the request is invalid."""


def as_not_found(error: RPCError) -> RPCError:
    """Return a server's error; where it has no such history, the one that every server should send."""
    if error.status is RPCStatusCode.INVALID_ARGUMENT and _NO_HISTORY in error.message:
        return RPCError(error.message, RPCStatusCode.NOT_FOUND, error.raw_grpc_status)
    return error


def workflow_handle(
    client: Client, run_id: str, execution_id: str | None = None, *, first: str | None = None
) -> WorkflowHandle[Any, Any]:
    """Return a handle whose description, events and result outlast the server's retention.

    Without an archive it is the client's own handle. An execution that the server has always comes
    from the server. With `first`, the first execution of a run, updates and cancellations do not
    reach a later run with the id.
    """
    reading = _reading_client(client)
    if first is None:
        return reading.get_workflow_handle(run_id, run_id=execution_id)
    return reading.get_workflow_handle(run_id, run_id=execution_id, first_execution_run_id=first)


_reading: WeakKeyDictionary[Client, tuple[Archive, Client]] = WeakKeyDictionary()


def _reading_client(client: Client) -> Client:
    archive = archive_of(client)
    if archive is None or not isinstance(client, Client):  # pyright: ignore[reportUnnecessaryIsInstance]  a double in a test
        return client
    known = _reading.get(client)
    if known is None or known[0] is not archive:
        options = client.config(active_config=True)
        reader = _ArchiveReader(archive, client.namespace, client.data_converter)
        options["interceptors"] = [*options["interceptors"], reader]
        options["plugins"] = []  # the client has already applied them
        known = _reading[client] = archive, Client(**options)
    return known[1]


@dataclass(eq=False)
class _ArchiveReader(Interceptor):
    """Answers what the server does not have any more; keeps no reference to the client."""

    archive: Archive
    namespace: str
    converter: DataConverter

    def intercept_client(
        self,
        next: OutboundInterceptor,  # noqa: A002  as in the base class
    ) -> OutboundInterceptor:
        """Put the archive behind the server."""
        return _BehindServer(next, self)


class _BehindServer(OutboundInterceptor):
    def __init__(self, server: OutboundInterceptor, reader: _ArchiveReader) -> None:
        super().__init__(server)
        self._reader = reader

    async def describe_workflow(
        self,
        input: DescribeWorkflowInput,  # noqa: A002  as in the base class
    ) -> WorkflowExecutionDescription:
        try:
            return await self.next.describe_workflow(input)
        except RPCError as error:
            entry = await self.entry(input.id, input.run_id, error)
        return await WorkflowExecutionDescription._from_raw_description(  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            described(entry), self._reader.namespace, self._reader.converter
        )

    def fetch_workflow_history_events(
        self,
        input: FetchWorkflowHistoryEventsInput,  # noqa: A002  as in the base class
    ) -> WorkflowHistoryEventAsyncIterator:
        return _Events(self.next.fetch_workflow_history_events(input), self, input)

    async def entry(self, run_id: str, execution_id: str | None, why: RPCError) -> ArchivedHistory:
        """Return the entry of what the server has not, or raise the server's error."""
        why = as_not_found(why)
        if why.status is not RPCStatusCode.NOT_FOUND:
            raise why
        archive, namespace = self._reader.archive, self._reader.namespace
        if execution_id:
            found = await archive.find(namespace, run_id, execution_id)
        else:
            found = await archive.newest(namespace, run_id)
        if found is None:
            raise why
        return found

    async def events(self, entry: ArchivedHistory) -> Sequence[HistoryEvent]:
        """Return the events of a history."""
        return await self._reader.archive.events(entry)


class _Events(WorkflowHistoryEventAsyncIterator):
    """Pages of the server, and the rest from the archive where the server has no more."""

    def __init__(
        self,
        server: WorkflowHistoryEventAsyncIterator,
        behind: _BehindServer,
        request: FetchWorkflowHistoryEventsInput,
    ) -> None:
        super().__init__(cast("Client", None), request)  # only `fetch_next_page` uses the client
        self._server = server
        self._behind = behind
        self._seen = 0

    async def fetch_next_page(self, *, page_size: int | None = None) -> None:
        """Fetch the next page of the server, or all that remains from the archive."""
        try:
            await self._server.fetch_next_page(page_size=page_size)
        except RPCError as error:
            entry = await self._behind.entry(self._input.id, self._input.run_id, error)
            events = await self._behind.events(entry)
            if self._input.event_filter_type is WorkflowHistoryEventFilterType.CLOSE_EVENT:
                events = events[-1:]
            page, token = [one for one in events if one.event_id > self._seen], None
        else:
            page, token = self._server.current_page or (), self._server.next_page_token
        self._current_page, self._current_page_index = page, 0
        self._next_page_token = token
        self._seen = page[-1].event_id if page else self._seen
