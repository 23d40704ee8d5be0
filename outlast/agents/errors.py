"""The exceptions that users see: one tree of classes, each with a stable code.

    AgentsException
    ├── UserError                     the program is wrong: fix the code or the call
    │   ├── RunNotFound               no run has this id
    │   ├── ScheduleNotFound          no schedule of outlast has this id
    │   ├── ScheduleAlreadyExists     the id belongs to another schedule
    │   ├── RunAlreadyStarted         the id belongs to a run that was started differently
    │   ├── RunBusy                   the run takes it later: repeat it
    │   ├── RunClosed                 the run has ended and takes no more messages
    │   └── ToolFailed                a tool failed, and its error is not shown to the model
    ├── RunTerminated                 an operator or a limit of the server ended the run
    ├── MaxTurnsExceeded              the run reached its limit of model calls
    ├── ModelBehaviorError            the model's reply is invalid
    ├── ModelRefusalError             the model refused to answer
    ├── ModelCallFailed               the provider refused the request or failed on every attempt
    ├── ModelTimeoutError             the model exceeded its timeout on every attempt
    ├── ToolTimeoutError              a tool exceeded its timeout, which is not shown to the model
    ├── InputGuardrailTripwireTriggered       a guardrail refused the input of the run
    ├── OutputGuardrailTripwireTriggered      a guardrail refused the final output
    ├── ToolInputGuardrailTripwireTriggered   a guardrail refused a tool call
    ├── ToolOutputGuardrailTripwireTriggered  a guardrail refused a tool's output
    ├── SessionFailed                 the session could not be written
    ├── ConversationFull              the run is too large to take more
    ├── ContentUnavailable            the store of large content cannot be reached
    ├── RunCancelled                  somebody cancelled the run
    ├── ApprovalExpired               nobody decided an approval in time
    ├── BudgetExceeded                a budget is used up, and nobody extended it
    ├── DecisionRefused               an approval decision was late, unknown or forged
    ├── DeliveryRefused               nothing waits for a value, or it does not fit
    ├── WaitTimeout                   what a tool waits for did not come in time
    ├── MCPTaskEnded                  a task of an MCP server ended without a result
    ├── WaitDropped                   a tool's call is dropped while it waits
    ├── IdentityRefused               nothing proves who a person is
    └── ServerUnavailable             no Temporal server answers

A code is the same in the program and on the wire.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, ClassVar, Self


class AgentsException(Exception):
    """Base class of the errors that outlast raises.

    Attributes:
        code: stable name of the kind of failure, the same on the wire.
        message: the failure, and how to fix it.
        run_data: the run up to the failure (a `RunErrorDetails`), if there was a run.
        details: further data, such as the HTTP status of a provider's refusal.
    """

    code: ClassVar[str] = "agents_error"
    run_data: Any
    details: dict[str, Any] | None = None

    def __init__(self, message: str = "", *, run_data: Any = None) -> None:
        super().__init__(message)
        self.message = message
        self.run_data = run_data


class UserError(AgentsException):
    """The program is wrong: an unknown agent, a bad argument, a missing registration."""

    code = "user_error"


@contextmanager
def as_user_error(kind: type[Exception]) -> Generator[None]:
    """Raise errors of a kind as a `UserError` with the same words, and without a cause."""
    try:
        yield
    except kind as error:
        raise UserError(str(error)) from None


def no_namespace(namespace: str) -> UserError:
    """Return the error for a namespace that the Temporal server does not have."""
    return UserError(
        f"The namespace {namespace!r} does not exist on this server. Name another one, with "
        "TEMPORAL_NAMESPACE or --namespace, or create it: "
        f"`temporal operator namespace create {namespace}`."
    )


class RunNotFound(UserError):
    """No run has this id on this server and namespace."""

    code = "run_not_found"


class ScheduleNotFound(UserError):
    """No schedule of outlast has this id on this server and namespace."""

    code = "schedule_not_found"


class ScheduleAlreadyExists(UserError):
    """The id belongs to a schedule that was created with other arguments."""

    code = "schedule_already_exists"


class RunAlreadyStarted(UserError):
    """The id belongs to a run that was started with another agent or another input."""

    code = "run_already_started"


class RunTerminated(AgentsException):
    """The Temporal server ended the run.

    An operator or a limit of the server did so; the message has the reason.
    """

    code = "terminated"


class RunBusy(UserError):
    """The run has too much to do at present: repeat it later."""

    code = "run_busy"


class RunClosed(UserError):
    """The run has ended and takes no more messages or decisions."""

    code = "run_closed"


class MaxTurnsExceeded(AgentsException):
    """The run reached its limit of model calls without an answer."""

    code = "max_turns_exceeded"


class ModelBehaviorError(AgentsException):
    """The model's reply is invalid, such as a call of a tool that does not exist."""

    code = "model_behavior"


class ModelRefusalError(AgentsException):
    """The model refused to answer.

    Attributes:
        refusal: the model's refusal text, if available.
    """

    code = "model_refusal"

    def __init__(
        self, message: str = "", *, refusal: str | None = None, run_data: Any = None
    ) -> None:
        super().__init__(message, run_data=run_data)
        self.refusal: str = message if refusal is None else refusal


class ModelCallFailed(AgentsException):
    """The provider refused the request, or failed on every attempt."""

    code = "model_call_failed"


class ModelTimeoutError(AgentsException):
    """The model took longer than `ModelSettings.timeout` on every attempt.

    Attributes:
        timeout_seconds: the timeout of one attempt, if available.
    """

    code = "model_timeout"

    def __init__(
        self,
        message: str | float = "",
        *,
        timeout_seconds: float | None = None,
        run_data: Any = None,
    ) -> None:
        if not isinstance(message, str):  # as in the SDK: the timeout alone
            timeout_seconds, message = message, f"The model took longer than {message:g} seconds."
        super().__init__(message, run_data=run_data)
        self.timeout_seconds = timeout_seconds


class ToolFailed(UserError):
    """A tool failed on every attempt, and its error may not be shown to the model."""

    code = "tool_failed"


class ToolTimeoutError(AgentsException):
    """A tool exceeded its timeout, which may not be shown to the model.

    Attributes:
        tool_name: the tool's name, if available.
        timeout_seconds: the timeout of one attempt, if available.
    """

    code = "tool_timeout"

    def __init__(
        self,
        message: str = "",
        seconds: float | None = None,
        *,
        tool_name: str | None = None,
        timeout_seconds: float | None = None,
        run_data: Any = None,
    ) -> None:
        if seconds is not None:  # as in the SDK: the name and the timeout
            message, tool_name, timeout_seconds = "", message, seconds
        if not message and tool_name is not None and timeout_seconds is not None:
            message = f"The tool {tool_name} timed out after {timeout_seconds:g} seconds."
        super().__init__(message, run_data=run_data)
        self.tool_name = tool_name
        self.timeout_seconds = timeout_seconds

    @classmethod
    def after(cls, seconds: float, tool_name: str) -> Self:
        """Return the error of an attempt that took longer than the timeout."""
        return cls(tool_name=tool_name, timeout_seconds=seconds)


class _GuardrailTripwire(Exception):
    """An agent's guardrail stopped the run. Takes a message or, as in the SDK, the result."""

    def __init__(
        self, message: Any = "", *, guardrail_result: Any = None, run_data: Any = None
    ) -> None:
        if not isinstance(message, str):
            message, guardrail_result = "", message
        if guardrail_result is not None:
            message = message or _triggered(getattr(guardrail_result, "guardrail", None))
        super().__init__(message)
        self.run_data: Any = run_data
        self.guardrail_result: Any = guardrail_result

    @property
    def guardrail_name(self) -> str | None:
        """The name of the guardrail, if it is known."""
        result = self.guardrail_result
        return None if result is None else result.guardrail.get_name()


def _triggered(guardrail: object) -> str:
    kind = "guardrail" if guardrail is None else type(guardrail).__name__
    return f"A {kind} triggered its tripwire."


class InputGuardrailTripwireTriggered(_GuardrailTripwire, AgentsException):
    """An input guardrail refused the input of a run.

    Attributes:
        guardrail_result: the guardrail's `InputGuardrailResult`.
    """

    code = "input_guardrail_tripwire"


class OutputGuardrailTripwireTriggered(_GuardrailTripwire, AgentsException):
    """An output guardrail refused the final output.

    Attributes:
        guardrail_result: the guardrail's `OutputGuardrailResult`.
    """

    code = "output_guardrail_tripwire"


class _ToolGuardrailTripwire(Exception):
    """A tool's guardrail stopped the run. Takes a message or, as in the SDK, guardrail and output."""

    def __init__(
        self, message: Any = "", output: Any = None, *, guardrail: Any = None, run_data: Any = None
    ) -> None:
        if not isinstance(message, str):
            message, guardrail = "", message
        if guardrail is not None:
            message = message or _triggered(guardrail)
        super().__init__(message)
        self.run_data: Any = run_data
        self.guardrail: Any = guardrail
        self.output: Any = output

    @property
    def guardrail_name(self) -> str | None:
        """The name of the guardrail, if it is known."""
        return None if self.guardrail is None else self.guardrail.get_name()


class ToolInputGuardrailTripwireTriggered(_ToolGuardrailTripwire, AgentsException):
    """A tool input guardrail refused a call and ended the run.

    Attributes:
        guardrail: the `ToolInputGuardrail`.
        output: the guardrail's `ToolGuardrailFunctionOutput`.
    """

    code = "tool_input_guardrail_tripwire"


class ToolOutputGuardrailTripwireTriggered(_ToolGuardrailTripwire, AgentsException):
    """A tool output guardrail refused a tool's output and ended the run.

    Attributes:
        guardrail: the `ToolOutputGuardrail`.
        output: the guardrail's `ToolGuardrailFunctionOutput`.
    """

    code = "tool_output_guardrail_tripwire"


class SessionFailed(AgentsException):
    """The session could not be written on any attempt, and may lack the answer."""

    code = "session_failed"


class ConversationFull(AgentsException):
    """The run is too large to take more; it stays open and readable."""

    code = "conversation_full"


class ContentUnavailable(AgentsException):
    """A run's large content cannot be read from or written to its blob store."""

    code = "content_unavailable"


class RunCancelled(AgentsException):
    """Somebody cancelled the run."""

    code = "cancelled"


class ApprovalExpired(AgentsException):
    """Nobody decided an approval in time, and its terms end the question then."""

    code = "approval_expired"


class BudgetExceeded(AgentsException):
    """A budget of the run is used up, and nobody extended it."""

    code = "budget_exceeded"


class DecisionRefused(AgentsException):
    """The run refused an approval decision.

    The decision was late, unknown, malformed, or for other arguments than the reviewer saw.
    """

    code = "decision_refused"


class DeliveryRefused(AgentsException):
    """A run refused a value that a program delivered to one of its calls.

    The call goes on waiting. Nothing waits for it, it came too late or after another delivery, or it does not fit the schema.
    """

    code = "delivery_refused"


class WaitTimeout(AgentsException):
    """A tool waited in vain for something outside of the run."""

    code = "wait_timeout"


class MCPTaskEnded(AgentsException):
    """A task with which an MCP server answered a call ended without a result.

    Attributes:
        outcome: how it ended, without the server's own words.
        words: the server's words of the error with which it failed; empty without one.
    """

    code = "mcp_task_ended"

    def __init__(
        self, message: str = "", *, outcome: str = "", words: str = "", run_data: Any = None
    ) -> None:
        super().__init__(message, run_data=run_data)
        self.outcome = outcome
        self.words = words


class WaitDropped(AgentsException):
    """A tool's call is dropped while it waits: the tool ends what it began."""

    code = "wait_dropped"


class IdentityRefused(AgentsException):
    """Nothing proves who a person is.

    The token is invalid, or the headers are not from a trusted proxy.
    """

    code = "identity_refused"


class ServerUnavailable(AgentsException):
    """No Temporal server answers at the address."""

    code = "server_unavailable"
