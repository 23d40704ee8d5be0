"""The workflow's input, made from the arguments of `Runner` and checked before it is sent."""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypedDict, Unpack, cast

from outlast.agents.agent import Agent
from outlast.agents.checks import (
    check_argument_names,
    check_name,
    check_printable,
    with_checked_arguments,
)
from outlast.agents.config.run_config import RunConfig, as_run_config
from outlast.agents.config.run_error import RunErrorHandlers, check_error_handlers
from outlast.agents.config.session_input import check_session
from outlast.agents.config.settings import (
    AS_ITEMS,
    ERROR_HANDLERS,
    HOOKS,
    NameOf,
    as_name,
    write_run_config,
)
from outlast.agents.context.codec import context_class, write_context
from outlast.agents.context.encoding import type_name
from outlast.agents.errors import UserError
from outlast.agents.hooks import RunHooks, RunHooksBase, check_run_hooks, overrides
from outlast.agents.installed_sdk import refuse_agent
from outlast.agents.references import RunReferences, base_name
from outlast.client.start.customer import as_customer
from outlast.client.start.tenant import Tenant, as_tenant
from outlast.client.transport.messages import check_input
from outlast.client.transport.outages import patience_of
from outlast.contract import failures, names, records
from outlast.loop.canonical import LONGEST_NAME
from outlast.loop.events import ServerThread
from outlast.loop.items import only_text
from outlast.loop.start import Customer
from outlast.loop.values import DEFAULT_MAX_TURNS, JsonObject
from outlast.ports.blobs import BlobStore, check_blob_store
from outlast.ports.engine import check_client
from outlast.ports.session import DescribedSession, OpeningSession, Session, store_name_of

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
        customer: for whom the run works, as a `Customer` or an id, and so do its nested runs. Runs
            are found and deleted by it, and a policy with `exclude_requester` keeps it from deciding.
        author: the member of the team who writes the input; None: the customer does. A policy with
            `exclude_requester` keeps the authors of a question from deciding about it.
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
    customer: Customer | str | None
    author: str | None
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

    Besides these, the options with which a run starts: `context`, `customer`, `author`,
    `max_turns`, `hooks`, `run_config`, `error_handlers`, `previous_response_id`, `auto_previous_response_id`,
    `conversation_id` and `session`.

    Attributes:
        id: the run's id, which is the workflow id; default: a new one.
        client: a connected Temporal client.
        task_queue: the task queue of the workers that host the run.
        patience: how long to wait for a server that does not answer, such as one that restarts;
            default: OUTLAST_PATIENCE_SECONDS, or five minutes, and 45 seconds where this process hosts
            the run.
        blob_store: the store for large content; the workers need the same one.
        tenant: whose run it is, a name or a `Tenant` with a weight: tenants take turns where tasks
            wait for workers.
        program: the program for which the run begins, such as the name of its API key; kept in the
            run's memo. The desk shows a program with such a key the runs that it began.
    """

    id: str | None
    client: "Client | None"
    task_queue: str | None
    patience: timedelta | None
    blob_store: BlobStore | None
    tenant: Tenant | str | None
    program: str | None


def check_names(options: Mapping[str, Any], kind: type[Any], *, caller: str) -> None:
    """Refuse unknown options, as Python does for a plain list of parameters."""
    check_argument_names(caller, options, kind.__optional_keys__)


def run_input(
    starting_agent: Any,
    input: str | list[JsonObject],
    *,
    references: RunReferences | None = None,
    keep_open: bool = False,
    stream: bool = False,
    **options: Unpack[StartOptions],
) -> records.RunInput:
    """Return the input of the run's workflow; refuse invalid arguments and combinations.

    `references` gets the objects that the settings name.
    """
    name_of = (references or RunReferences()).name
    context, session = options.get("context"), options.get("session")
    max_turns = options.get("max_turns", DEFAULT_MAX_TURNS)
    name = agent_name(starting_agent)
    _check_max_turns(max_turns)
    content = check_input(input)
    config = as_run_config(options.get("run_config"))
    thread = _thread(
        options.get("conversation_id"),
        options.get("previous_response_id"),
        chained=options.get("auto_previous_response_id", False),
    )
    if thread is not None:
        _check_thread(thread, starting_agent, config, session)
    handlers = _handler_names(options.get("error_handlers"), name_of)
    settings = write_run_config(config, name_of) | _further_settings(
        options.get("hooks"), handlers, session, name_of, stream=stream
    )
    if (customer := as_customer(options.get("customer"))) is not None:
        settings[names.SETTING_CUSTOMER] = records.write(customer)
    if isinstance(content, list) and only_text(content) is not None:
        settings[AS_ITEMS] = True
    return records.RunInput(
        agent=name,
        input=content,
        context=write_context(context) if context is not None else None,
        context_type=None if (kind := context_class(context)) is None else type_name(kind),
        max_turns=max_turns,
        keep_open=keep_open,
        settings=settings or None,
        session=session is not None,
        thread=thread,
        handled=tuple(CODES[kind] for kind in handlers),
        authors=authors_of(options.get("author")),
    )


def start_options(options: RunOptions) -> StartOptions:
    """Return the options with which a run starts."""
    names = StartOptions.__optional_keys__
    return cast("StartOptions", {name: options[name] for name in names & options.keys()})


class Placed:
    """A runner whose calls have default options: those of its runs' place."""

    _place: ClassVar[RunOptions] = {}
    """The options set by `using`."""

    @classmethod
    @with_checked_arguments
    def using(
        cls,
        *,
        client: "Client | None" = None,
        task_queue: str | None = None,
        patience: timedelta | None = None,
        blob_store: BlobStore | None = None,
        tenant: Tenant | str | None = None,
    ) -> type[Self]:
        """Return a runner with the same methods and other default options.

        With `runner = Runner.using(client=client, task_queue="desk")`, `runner.run(agent, "Hi")` is
        `Runner.run(agent, "Hi", client=client, task_queue="desk")`. An option of the call itself
        outranks these; `RunOptions` describes them.

        Raises:
            UserError: an argument does not fit.
        """
        check_place(client=client, task_queue=task_queue)
        check_blob_store(blob_store)
        options = RunOptions(
            client=client,
            task_queue=task_queue,
            patience=None if patience is None else patience_of(patience),
            blob_store=blob_store,
            tenant=as_tenant(tenant),
        )
        place = {"_place": cls._with_defaults(options), "__doc__": cls.__doc__}
        return cast("type[Self]", type(cls.__name__, (cls,), place))

    @classmethod
    def _with_defaults(cls, options: RunOptions) -> RunOptions:
        passed = {name: value for name, value in options.items() if value is not None}
        return cast("RunOptions", {**options, **cls._place, **passed})


_OF_NESTED: Final = re.compile(r".*/[^/]*-[0-9]+", re.DOTALL)
"""Ids of nested runs, such as `X/ask_judge-3`: a run replaces whatever has the id of its child."""


def _check_new_id(id: object) -> None:
    if isinstance(id, str):
        check_printable("id=", id)
        if id in {".", ".."}:  # clients leave them out of addresses: nobody could open the run
            raise UserError(f"id={id!r} is no id that fits into an address. Choose another one.")
    if isinstance(id, str) and _OF_NESTED.fullmatch(id):
        raise UserError(
            f"id={id!r:.200} has the form of the id of a nested run, which its parent may end. "
            "Choose one without a slash, such as 'customer:case-3'."
        )


def check_place(
    id: object = None, client: object = None, task_queue: object = None, *, is_new: bool = False
) -> None:
    """Refuse invalid values of the options that locate a run, or place a new one."""
    for name, value in (("id", id), ("task_queue", task_queue)):
        if value is None:
            continue
        if not isinstance(value, str) or not value.strip():
            raise UserError(f"{name}= must be a non-empty string or None, not {value!r}.")
        if "\0" in value:
            # A server on PostgreSQL would try to store it until the caller gives up.
            raise UserError(f"{name}={value!r} holds a NUL character. Choose one without it.")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise UserError(
                f"{name}={value!r} holds a lone surrogate. Choose one without it."
            ) from None
    if task_queue is not None:
        check_printable("task_queue=", cast("str", task_queue))
    if is_new:
        _check_new_id(id)
    if client is not None:
        check_client(client, what="client=")


def agent_name(agent: object) -> str:
    """Return the name of the starting agent."""
    refuse_agent(agent)
    name = agent if isinstance(agent, str) else getattr(agent, "name", None)
    if not isinstance(name, str) or not name.strip():
        raise UserError(f"A run starts with an Agent or an agent's name, not {agent!r}.")
    return name


def _further_settings(
    hooks: object,
    handlers: dict[str, str],
    session: Session | None,
    name_of: NameOf,
    *,
    stream: bool,
) -> JsonObject:
    settings: JsonObject = {
        HOOKS: None if hooks is None else _hooks_name(hooks, name_of),
        ERROR_HANDLERS: handlers,
        names.SETTING_SESSION: None if session is None else _session_data(session, name_of),
        names.SETTING_STREAM: stream,
        names.SETTING_RUN_START: isinstance(hooks, RunHooksBase)
        and overrides(cast("RunHooksBase[Any, Any]", hooks), "on_run_start"),
    }
    return {key: value for key, value in settings.items() if value}


def authors_of(author: object) -> tuple[str, ...]:
    """Return the members of the team who write the input of a start; refuse an empty name."""
    if author is None:
        return ()
    check_name("author=", author)
    check_printable("author=", cast("str", author), is_name=True)
    return (cast("str", author)[:LONGEST_NAME],)


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
        checked = cast("object", value)
        if checked is not None and (not isinstance(checked, str) or not checked):
            raise UserError(f"{name}= must be a non-empty string, not {checked!r}.")
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
    if thread.conversation_id is not None:
        option, without = "conversation_id=", "without conversation_id="
    else:
        option = "previous_response_id="
        without = "without previous_response_id= and auto_previous_response_id="
    if session is not None:
        raise UserError(
            f"Session persistence with {option} would store the conversation twice, and the model would "
            f"read both. Use the session, or run {without}."
        )
    if config.handoff_input_filter is not None:
        raise UserError(
            "Server-managed conversations do not support handoff input filters such as "
            "RunConfig(handoff_input_filter=...), which cannot change the provider's copy. "
            f"Leave the filter out, or run {without}."
        )
    if config.call_model_output_filter is not None:
        raise UserError(
            "Server-managed conversations do not support RunConfig(call_model_output_filter=...), "
            f"which cannot change the provider's copy. Leave the filter out, or run {without}."
        )
    definition = cast("Agent[Any]", agent) if isinstance(agent, Agent) else None
    own = definition.output_guardrails if definition is not None else []
    owner = f"Agent {definition.name!r}" if definition is not None and own else "RunConfig"
    if own or config.output_guardrails:
        raise UserError(
            f"{owner} has output_guardrails, but an answer that they block would stay in the "
            f"server-managed conversation history. Leave them out, or run {without}."
        )


def _hooks_name(hooks: object, name_of: NameOf) -> str:
    if not isinstance(hooks, str):
        check_run_hooks(hooks)
    return as_name(hooks, name_of)


def _handler_names(handlers: object, name_of: NameOf) -> dict[str, str]:
    if isinstance(handlers, Mapping):
        named = cast("Mapping[str, Any]", handlers)
        checked = {
            kind: None if isinstance(handler, str) else handler for kind, handler in named.items()
        }
        check_error_handlers(checked)
        return {
            kind: as_name(handler, name_of)
            for kind, handler in named.items()
            if handler is not None
        }
    check_error_handlers(handlers)
    return {}


def _session_data(session: Session, name_of: NameOf) -> JsonObject:
    """Return the data to find a session: its description, or its name, id and store."""
    check_session(session)
    if isinstance(session, OpeningSession) and not session.is_open:
        return {"ref": ""}  # only checked: the run's own record is made once the session is open
    description = session.describe() if isinstance(session, DescribedSession) else None
    if description:
        name_of(session)  # a worker of this process may open the file of the run's own session
        return description
    store = store_name_of(session)
    return {
        "ref": name_of(session),
        "factory": base_name(session),
        "session_id": session.session_id,
        **({"store": store} if store else {}),
    }
