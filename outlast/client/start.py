"""The workflow's input, made from the arguments of `Runner`.

Everything is checked before anything is sent.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack, cast

from outlast.agents.agent import Agent
from outlast.agents.config.run_config import RunConfig, as_run_config
from outlast.agents.config.run_error import RunErrorHandlers, check_error_handlers
from outlast.agents.config.session_input import check_session
from outlast.agents.config.settings import AS_ITEMS, ERROR_HANDLERS, HOOKS, write_run_config
from outlast.agents.context.codec import write_context
from outlast.agents.errors import UserError
from outlast.agents.hooks import RunHooks, check_run_hooks
from outlast.agents.references import register, register_session
from outlast.agents.registry import type_name
from outlast.client.messages import check_input
from outlast.contract import failures, names, records
from outlast.loop.events import ServerThread
from outlast.loop.items import only_text
from outlast.loop.values import DEFAULT_MAX_TURNS, JsonObject
from outlast.ports.blobs import BlobStore
from outlast.ports.engine import check_client
from outlast.ports.session import DescribedSession, Session

if TYPE_CHECKING:
    from temporalio.client import Client

CODES: Final = {
    "max_turns": failures.MAX_TURNS_EXCEEDED,
    "model_refusal": failures.MODEL_REFUSAL,
    "invalid_final_output": failures.INVALID_OUTPUT,
}
"""The failure code that each kind of error handler may turn into an answer."""


class StartOptions(TypedDict, total=False):
    """The options with which a run starts, besides the agent and the input.

    Attributes:
        context: a pydantic model, dataclass or JSON value for the agent's callables.
        max_turns: the maximum number of model calls for one answer; None for no limit; default 10.
        hooks: `RunHooks`, or their registered name at the worker.
        run_config: settings of the run, or a dict of them.
        error_handlers: handlers that answer instead of failing.
        previous_response_id: the response on the provider's server that this run continues.
        auto_previous_response_id: each response continues the previous one on that server.
        conversation_id: the conversation on the provider's server.
        session: stores the conversation between runs.
    """

    context: Any
    max_turns: int | None
    hooks: RunHooks[Any] | str | None
    run_config: RunConfig | Mapping[str, Any] | None
    error_handlers: RunErrorHandlers[Any] | None
    previous_response_id: str | None
    auto_previous_response_id: bool
    conversation_id: str | None
    session: Session | None


class RunOptions(StartOptions, total=False):
    """The options of `Runner.run`, `run_sync`, `run_streamed` and `start`.

    Besides these, the options with which a run starts: `context`, `max_turns`, `hooks`,
    `run_config`, `error_handlers`, `previous_response_id`, `auto_previous_response_id`,
    `conversation_id` and `session`.

    Attributes:
        id: the run's id, which is the workflow id; default: a new one.
        client: a connected Temporal client.
        task_queue: the task queue of the workers that host the run.
        patience: how long to wait for a server that does not answer, such as one that restarts;
            default: OUTLAST_PATIENCE_SECONDS, or five minutes.
        blob_store: the store for large content; the workers need the same one.
    """

    id: str | None
    client: "Client | None"
    task_queue: str | None
    patience: timedelta | None
    blob_store: BlobStore | None


def check_names(options: Mapping[str, Any], kind: type[Any], *, caller: str) -> None:
    """Refuse unknown options, as Python does for a plain list of parameters.

    Raises:
        TypeError: one of them is not in the TypedDict `kind`.
    """
    for name in options:
        if name not in kind.__optional_keys__:
            raise TypeError(f"{caller}() got an unexpected keyword argument {name!r}")


def run_input(
    starting_agent: Any,
    input: str | list[JsonObject],
    *,
    keep_open: bool = False,
    stream: bool = False,
    **options: Unpack[StartOptions],
) -> records.RunInput:
    """Return the input of the run's workflow.

    Args:
        starting_agent: an `Agent`, its name, or an object with its `name`.
        input: a text, or Responses items.
        keep_open: stay open after the answer and accept further messages.
        stream: the run's model calls stream.
        **options: those of `StartOptions`.

    Raises:
        UserError: an argument is invalid, or arguments exclude each other; the message says what to
        do.
        TypeError: the hooks are not run hooks.
    """
    context, session = options.get("context"), options.get("session")
    max_turns = options.get("max_turns", DEFAULT_MAX_TURNS)
    name = agent_name(starting_agent)
    _check_max_turns(max_turns)
    asked = check_input(input)
    config = as_run_config(options.get("run_config"))
    thread = _thread(
        options.get("conversation_id"),
        options.get("previous_response_id"),
        chained=options.get("auto_previous_response_id", False),
    )
    if thread is not None:
        _check_thread(thread, starting_agent, config, session)
    handlers = _handler_names(options.get("error_handlers"))
    settings = write_run_config(config) | _given(
        options.get("hooks"), handlers, session, stream=stream
    )
    if isinstance(asked, list) and only_text(asked) is not None:
        settings[AS_ITEMS] = True
    return records.RunInput(
        agent=name,
        input=asked,
        context=write_context(context) if context is not None else None,
        context_type=None if (kind := context_class(context)) is None else type_name(kind),
        max_turns=max_turns,
        keep_open=keep_open,
        settings=settings or None,
        session=session is not None,
        thread=thread,
        handled=tuple(CODES[kind] for kind in handlers),
    )


def start_options(options: RunOptions) -> StartOptions:
    """Return the options with which a run starts."""
    names = StartOptions.__optional_keys__
    return cast("StartOptions", {name: options[name] for name in names & options.keys()})


def check_place(id: object = None, client: object = None, task_queue: object = None) -> None:
    """Refuse invalid values of the options that locate a run.

    Raises:
        UserError: a value is invalid; the message names the option.
    """
    for name, given in (("id", id), ("task_queue", task_queue)):
        if given is None:
            continue
        if not isinstance(given, str) or not given.strip():
            raise UserError(f"{name}= must be a non-empty string or None, not {given!r}.")
        if "\0" in given:
            # A server on PostgreSQL would try to store it until the caller gives up.
            raise UserError(f"{name}={given!r} holds a NUL character. Choose one without it.")
        try:
            given.encode()
        except UnicodeEncodeError:
            raise UserError(
                f"{name}={given!r} holds a lone surrogate. Choose one without it."
            ) from None
    if client is not None:
        check_client(client, what="client=")


def agent_name(given: object) -> str:
    """Return the name of the starting agent.

    Raises:
        UserError: the value is neither an agent nor a name.
    """
    name = given if isinstance(given, str) else getattr(given, "name", None)
    if not isinstance(name, str) or not name.strip():
        raise UserError(f"A run starts with an Agent or an agent's name, not {given!r}.")
    return name


def _given(
    hooks: object, handlers: dict[str, str], session: Session | None, *, stream: bool
) -> JsonObject:
    """Return the settings that are passed beside the `RunConfig`."""
    given: JsonObject = {
        HOOKS: hooks if hooks is None or isinstance(hooks, str) else _hooks_name(hooks),
        ERROR_HANDLERS: handlers,
        names.SETTING_SESSION: None if session is None else _described(session),
        names.SETTING_STREAM: stream,
    }
    return {key: value for key, value in given.items() if value}


def _check_max_turns(max_turns: object) -> None:
    is_number = isinstance(max_turns, int) and not isinstance(max_turns, bool)
    if max_turns is not None and (not is_number or cast("int", max_turns) < 0):
        raise UserError(f"max_turns={max_turns!r} must be a positive number or None.")


def _thread(
    conversation_id: str | None, previous_response_id: str | None, *, chained: bool
) -> ServerThread | None:
    for name, value in (
        ("conversation_id", conversation_id),
        ("previous_response_id", previous_response_id),
    ):
        given = cast("object", value)
        if given is not None and (not isinstance(given, str) or not given):
            raise UserError(f"{name}= must be a non-empty string, not {given!r}.")
    if conversation_id is not None and (previous_response_id is not None or chained):
        raise UserError(
            "conversation_id= and previous_response_id= are two ways to keep the conversation on "
            "the provider's server, which exclude each other. Use one of them."
        )
    if conversation_id is None and previous_response_id is None and not chained:
        return None
    return ServerThread(
        conversation_id=conversation_id,
        previous_response_id=previous_response_id,
        chained=chained or previous_response_id is not None,
    )


def _check_thread(thread: ServerThread, agent: object, config: RunConfig, session: object) -> None:
    """Refuse what does not work while the provider's server keeps the conversation."""
    if thread.conversation_id is not None:
        given, without = "conversation_id=", "without conversation_id="
    else:
        given = "previous_response_id="
        without = "without previous_response_id= and auto_previous_response_id="
    if session is not None:
        raise UserError(
            f"session= and {given} would both store the conversation, and the model would read "
            f"it twice. Use the session, or run {without}."
        )
    if config.handoff_input_filter is not None:
        raise UserError(
            "RunConfig(handoff_input_filter=...) cannot change the provider's copy. "
            f"Leave the filter out, or run {without}."
        )
    known = cast("Agent[Any]", agent) if isinstance(agent, Agent) else None
    own = known.output_guardrails if known is not None else []
    owner = f"Agent {known.name!r}" if known is not None and own else "RunConfig"
    if own or config.output_guardrails:
        raise UserError(
            f"{owner} has output_guardrails, but an answer that they block would stay on the "
            f"provider's server. Leave them out, or run {without}."
        )


def _hooks_name(hooks: object) -> str:
    check_run_hooks(hooks)
    return register(hooks)


def _handler_names(handlers: object) -> dict[str, str]:
    """Return the names of the handlers, by kind; a handler may be passed by name."""
    if isinstance(handlers, Mapping):
        given = cast("Mapping[str, Any]", handlers)
        checked = {kind: None if isinstance(one, str) else one for kind, one in given.items()}
        check_error_handlers(checked)
        return {
            kind: one if isinstance(one, str) else register(one)
            for kind, one in given.items()
            if one is not None
        }
    check_error_handlers(handlers)
    return {}


def _described(session: Session) -> JsonObject:
    """Return the data to find a session at a worker: its description, or its registered name."""
    check_session(session)
    described = session.describe() if isinstance(session, DescribedSession) else None
    if described:
        return described
    name, kind = register_session(session)
    return {"ref": name, "factory": kind, "session_id": session.session_id}


def context_class(context: object) -> type[Any] | None:
    """Return the type of a context that workers need; None for plain JSON."""
    plain = (dict, list, str, int, float, bool, type(None))
    kind = cast("type[Any]", type(context))
    return None if issubclass(kind, plain) else kind
