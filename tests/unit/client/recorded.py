"""Histories as Temporal records them, written down by tests, and a server that has them.

Owns: `Recording`, which makes history records, and `FakeClient`, which answers from recordings as
a server does. Must not know: what a reader makes of them.
"""

import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from temporalio.api.common.v1 import Payload, Payloads
from temporalio.api.enums.v1 import EventType
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.client import WorkflowExecutionStatus
from temporalio.converter import DataConverter
from temporalio.service import RPCError, RPCStatusCode

from outlast.contract import names, records
from outlast.contract.records import RunInput

START_MS = 1_000_000
Kind = EventType


def payload_of(value: Any) -> Payload:
    return DataConverter.default.payload_converter.to_payload(value)


def payloads_of(*values: Any) -> Payloads:
    return Payloads(payloads=[payload_of(value) for value in values])


UNDECODABLE = Payloads(payloads=[Payload(metadata={"encoding": b"json/plain"}, data=b"{")])
"""What no converter can read."""


def application_failure(code: str, message: str, *details: Any) -> Failure:
    """An error of ours, as a failed activity records it."""
    failure = Failure(message=message)
    failure.application_failure_info.type = code
    if details:
        failure.application_failure_info.details.CopyFrom(payloads_of(*details))
    return failure


class Recording:
    """The history of one run of a workflow, record after record.

    A second passes with every workflow task.
    """

    def __init__(self) -> None:
        self.events: list[HistoryEvent] = []
        self._now_ms = START_MS

    @property
    def last(self) -> int:
        return len(self.events)

    def add(self, kind: "EventType.ValueType", **attributes: Any) -> int:
        """Add a record, and return its number."""
        event = HistoryEvent(event_id=self.last + 1, event_type=kind)
        event.event_time.FromMilliseconds(self._now_ms)
        if attributes:
            suffix = EventType.Name(kind).removeprefix("EVENT_TYPE_").lower()
            target = getattr(event, f"{suffix}_event_attributes")
            for name, value in attributes.items():
                if isinstance(value, int | str):
                    setattr(target, name, value)
                else:
                    getattr(target, name).CopyFrom(value)
        self.events.append(event)
        return self.last

    def started(self, *values: Any, continues: str = "") -> int:
        return self.add(
            Kind.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED,
            input=payloads_of(*values),
            continued_execution_run_id=continues,
        )

    def asked(self, **fields: Any) -> int:
        """The run starts with a question."""
        return self.started(records.write(RunInput(agent="Triage", input="Hello", **fields)))

    def task(self) -> tuple[int, int]:
        """A workflow task: scheduled, started, completed. Returns the last two numbers."""
        self.add(Kind.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED)
        self._now_ms += 1_000
        begun = self.add(Kind.EVENT_TYPE_WORKFLOW_TASK_STARTED)
        return begun, self.complete(begun)

    def complete(self, begun: int) -> int:
        return self.add(Kind.EVENT_TYPE_WORKFLOW_TASK_COMPLETED, started_event_id=begun)

    def signal(self, name: str, *values: Any, input: Payloads | None = None) -> int:  # noqa: A002
        return self.add(
            Kind.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED,
            signal_name=name,
            input=input or payloads_of(*values),
        )

    def update(self, name: str, value: Any, *, before: int) -> int:
        """An update is accepted; `before` is the record that it was delivered after."""
        number = self.add(
            Kind.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED,
            accepted_request_sequencing_event_id=before,
        )
        accepted = self.events[-1].workflow_execution_update_accepted_event_attributes
        accepted.accepted_request.input.name = name
        accepted.accepted_request.input.args.CopyFrom(payloads_of(value))
        return number

    def schedule(self, activity_id: str) -> int:
        return self.add(Kind.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, activity_id=activity_id)

    def activity(self, activity_id: int, result: Any) -> int:
        """An activity runs and completes."""
        scheduled = self.schedule(str(activity_id))
        return self.add(
            Kind.EVENT_TYPE_ACTIVITY_TASK_COMPLETED,
            scheduled_event_id=scheduled,
            result=payloads_of(result),
        )

    def failed_activity(self, activity_id: int, failure: Failure) -> int:
        scheduled = self.schedule(str(activity_id))
        return self.add(
            Kind.EVENT_TYPE_ACTIVITY_TASK_FAILED, scheduled_event_id=scheduled, failure=failure
        )

    def local(
        self, activity_id: int, result: Any, *, task: int, end_ms: int | None, **fields: Any
    ) -> int:
        """The marker of a local activity that ran within a workflow task."""
        number = self.add(
            Kind.EVENT_TYPE_MARKER_RECORDED,
            marker_name="core_local_activity",
            workflow_task_completed_event_id=task,
            **fields,
        )
        end = (
            None if end_ms is None else {"seconds": end_ms // 1000, "nanos": end_ms % 1000 * 10**6}
        )
        data = {"seq": 1, "activity_id": str(activity_id), "complete_time": end}
        marker = self.events[-1].marker_recorded_event_attributes
        marker.details["data"].payloads.append(Payload(data=json.dumps(data).encode()))
        if "failure" not in fields:
            marker.details["result"].CopyFrom(payloads_of(result))
        return number

    def close(self, kind: "EventType.ValueType", **attributes: Any) -> int:
        return self.add(kind, **attributes)

    def prepared(self) -> None:
        """The usual beginning: the agent is looked up within the first workflow task."""
        _, completed = self.task()
        self.local(1, {}, task=completed, end_ms=START_MS + 1_500)

    def answered(self, text: str = "Hi", effect: int = 2) -> None:
        """The model answers."""
        content = [{"type": "output_text", "text": text}]
        message = {"type": "message", "role": "assistant", "content": content}
        self.activity(effect, {"items": [message]})
        self.task()


class Pages:
    """The pages of a history, one for each fetch.

    A failure stands for a long poll that broke; it breaks once, whoever reads the pages.
    """

    def __init__(
        self, pages: Sequence[Sequence[HistoryEvent] | Exception], broken: list[Exception]
    ) -> None:
        self._pages = [page for page in pages if page not in broken]
        self._broken = broken
        self.current_page: Sequence[HistoryEvent] | None = None
        self.next_page_token: bytes | None = None

    async def fetch_next_page(self) -> None:
        page = self._pages.pop(0)
        if isinstance(page, Exception):
            self._broken.append(page)
            raise page
        self.current_page = page
        self.next_page_token = b"more" if self._pages else None


class FirstPage(Pages):
    """The beginning of a history, looked up when it is fetched."""

    def __init__(self, pages: Callable[[], Sequence[Sequence[HistoryEvent] | Exception]]) -> None:
        super().__init__([], [])
        self._look_up = pages

    async def fetch_next_page(self) -> None:
        whole = (page for page in self._look_up() if not isinstance(page, Exception))
        self.current_page = next(whole, None)


class FakeHandle:
    """A workflow handle that answers from a recording."""

    def __init__(self, client: "FakeClient", run_id: str | None, parent_id: str = "") -> None:
        self._client = client
        self._parent = parent_id or None
        self._run = run_id or client.newest
        self.run_id = run_id

    def _pages(self) -> Sequence[Sequence[HistoryEvent] | Exception]:
        pages = self._client.runs.get(self._run)
        if pages is None:
            raise refused(RPCStatusCode.NOT_FOUND)
        return pages

    async def describe(self) -> Any:
        self._client.note("describe", self.run_id)
        self._pages()
        return SimpleNamespace(
            run_id=self._run,
            status=self._client.status,
            close_time=None if self._client.status is None else "then",
            task_queue=self._client.task_queue,
            workflow_type=self._client.workflow_type,
            parent_id=self._parent,
            raw_description=SimpleNamespace(
                pending_activities=[],
                HasField=self._client.pending.__contains__,
                workflow_execution_info=WorkflowExecutionInfo(first_run_id=self._client.first),
            ),
            memo_value=_no_memo,
        )

    async def query(self, name: str, *, rpc_timeout: timedelta) -> None:
        assert rpc_timeout > timedelta(seconds=10)
        self._client.note(f"query {name}", self.run_id)
        if self._client.refuses_queries:
            raise refused(RPCStatusCode.DEADLINE_EXCEEDED)

    async def fetch_history(self) -> Any:
        if self._client.present is not None:
            return SimpleNamespace(events=self._client.present)
        pages = [page for page in self._pages() if not isinstance(page, Exception)]
        return SimpleNamespace(events=[event for page in pages for event in page])

    def fetch_history_events(
        self, *, page_size: int | None = None, wait_new_event: bool = False
    ) -> Pages:
        if page_size == 1:  # to see how it began
            return FirstPage(self._pages)
        assert wait_new_event
        self._client.note("fetch", self.run_id)
        return Pages(self._pages(), self._client.broken)

    async def result(self) -> Any:
        return await self._client.answer("result")

    async def signal(self, name: str, payload: Any) -> Any:
        return await self._client.answer("signal", name, payload)

    async def cancel(self) -> Any:
        return await self._client.answer("cancel")

    async def execute_update(self, name: str, payload: Any, *, id: str) -> Any:  # noqa: A002
        return await self._client.answer("update", name, payload, id)


async def _no_memo(_name: str, default: Any) -> Any:
    return default


class FakeClient:
    """A client of a server that has recordings.

    Attributes:
        runs: pages of history by run id.
        first: the first execution of the run, as the server says; empty for an old server.
        status: how the workflow ended; None while it runs.
        answers: what calls that change something are answered with, or raise.
        calls: what was called.
        task_queue: where the run is.
        workflow_type: what kind of workflow it is.
        nested: what has other runs, by their workflow ids.
        pending: fields of a description that are set, such as a workflow task that nobody has done.
        refuses_queries: whether no worker answers a query in time.
        present: what there is when a history is fetched; the pages have more. None: all of them.
    """

    namespace = "default"
    data_converter = DataConverter.default

    def __init__(
        self,
        *pages: Sequence[HistoryEvent] | Exception,
        status: WorkflowExecutionStatus | None = None,
        answer: Any = None,
    ) -> None:
        self.runs: dict[str, Sequence[Sequence[HistoryEvent] | Exception]] = {}
        self.newest = self.first = "run-1"
        if pages or not (answer is None or isinstance(answer, RPCError)):
            self.runs["run-1"] = pages or ([],)
        self.status = status
        self.answers: list[Any] = [answer]
        self.calls: list[tuple[Any, ...]] = []
        self.broken: list[Exception] = []
        self.task_queue = "outlast"
        self.workflow_type = names.WORKFLOW
        self.nested: dict[str, FakeClient] = {}
        self.pending: set[str] = set()
        self.refuses_queries = False
        self.present: Sequence[HistoryEvent] | None = None

    def get_workflow_handle(
        self,
        workflow_id: str,
        *,
        run_id: str | None = None,
        first_execution_run_id: str | None = None,
    ) -> FakeHandle:
        assert first_execution_run_id in {None, self.first}
        if workflow_id == "support-42":
            return FakeHandle(self, run_id)
        nobody = FakeClient(answer=refused(RPCStatusCode.NOT_FOUND))
        parent_id = workflow_id.rpartition("/")[0]  # as the ids of nested runs say
        return FakeHandle(self.nested.get(workflow_id, nobody), run_id, parent_id)

    def note(self, *call: Any) -> None:
        self.calls.append(call)

    async def answer(self, *call: Any) -> Any:
        self.note(*call)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer


def refused(status: RPCStatusCode, message: str = "refused") -> RPCError:
    return RPCError(message, status, b"")
