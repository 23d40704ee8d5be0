"""The settings that a program passes with a `RunState`, compared with those of its run.

A run keeps the settings that it was started with. Programs pass them again when they resume it,
which is fine; another value is refused, because it would have no effect.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from outlast.agents.config.settings import CONFIG_FIELDS, ERROR_HANDLERS, HOOKS
from outlast.agents.errors import UserError
from outlast.agents.references import RunReferences
from outlast.client.handle import RunHandle
from outlast.client.start.options import RunOptions, StartOptions, run_input, start_options
from outlast.client.start.same_run import has_other_owner, start_digest
from outlast.client.start.tenant import as_tenant
from outlast.contract import names
from outlast.contract.records import RunInput, customer_of, write
from outlast.loop.state import LoopState
from outlast.loop.values import Json, JsonObject

_CHOSEN_BY_START: Final = frozenset({"author", "context"})
"""Options of a start that are compared elsewhere, or say only who wrote its input."""

_OF_TRACE: Final = frozenset({"trace_id", "workflow_name", "group_id", "trace_metadata"})
"""Settings that the trace around the start replaces; nothing differs without them."""

_NUMBER: Final = re.compile(r"(?<=\w)#\d+$")
"""The number of one of several objects with the same name."""


@dataclass(frozen=True, slots=True)
class PassedSettings:
    """What a program passes beside a `RunState`."""

    agent: object
    options: RunOptions
    references: RunReferences
    keep_open: bool = False


async def check_resumed(handle: RunHandle, state: LoopState, passed: PassedSettings) -> None:
    """Refuse settings that a resumed run does not have.

    Raises:
        UserError: an option has another value than the run; the message names each.
    """
    options = passed.options
    check_resumed_settings(
        state,
        passed.agent,
        start_options(options),
        run_id=options.get("id"),
        references=passed.references,
    )
    if passed.keep_open and not state.start.keep_open:
        raise _refusal(state, ["keep_open=True (the run closes after its answer)"])
    tenant = as_tenant(options.get("tenant"))
    if tenant is None:
        return
    customer: JsonObject = write(state.start.customer)
    record = RunInput(settings={names.SETTING_CUSTOMER: customer} if customer else None)
    description = await handle.check()
    digest = await description.memo_value(names.MEMO_INPUT_DIGEST, "")
    if has_other_owner(digest, start_digest(record, tenant)):
        raise _refusal(state, [f"tenant={tenant.name!r} (the run has another)"])


def check_resumed_settings(
    state: LoopState,
    agent: object,
    options: StartOptions,
    *,
    run_id: str | None = None,
    references: RunReferences | None = None,
) -> None:
    """Refuse settings of a start that a resumed run does not have.

    `references` gets the objects that the settings name: the run may need them again.

    Raises:
        UserError: an option has another value than the run; the message names each.
    """
    passed = {
        name
        for name, value in options.items()
        if (value is not None or name == "max_turns") and name not in _CHOSEN_BY_START
    }
    problems = [] if run_id in {None, state.run_id} else [f"id={run_id!r} (it is {state.run_id!r})"]
    if passed:
        given = cast("StartOptions", {name: options[name] for name in passed})
        record = run_input(agent, "", references=references, **given)
        found = _differences(record, state)
        problems += [problem for name, problem in found if name in passed]
    if problems:
        raise _refusal(state, problems)


def _refusal(state: LoopState, problems: list[str]) -> UserError:
    return UserError(
        f"The run {state.run_id!r} keeps the settings that it was started with, and these differ: "
        f"{', '.join(problems)}. Pass the same or leave them out; for other settings, start a new "
        "run."
    )


def _differences(record: RunInput, state: LoopState) -> Iterator[tuple[str, str]]:
    """Yield the options in which a record of a start differs from a run, with the values."""
    for name, given, own in _compared(record, state):
        if given != own and name == "session":  # where it is stored may hold a password
            yield name, f"session= (the run has {'another' if own else 'none'})"
        elif given != own:
            yield name, f"{name}={given!r:.100} (the run has {own!r:.100})"
    before, now = state.start.settings or {}, record.settings or {}
    for key in sorted(CONFIG_FIELDS.keys() - _OF_TRACE):
        given, own = _named(now.get(key)), _named(before.get(key))
        if given != own and (given is not None or key != "tracing_disabled"):
            yield "run_config", f"RunConfig({CONFIG_FIELDS[key]}=...)"


def _compared(record: RunInput, state: LoopState) -> Iterator[tuple[str, Json, Json]]:
    """Yield the options of a start with the value that is passed, and that of the run."""
    before, now = state.start.settings or {}, record.settings or {}
    thread, of_run = record.thread, state.server.thread
    yield "max_turns", record.max_turns, state.start.max_turns
    yield "customer", customer_of(now).id, customer_of(before).id
    for name, key in (("hooks", HOOKS), ("error_handlers", ERROR_HANDLERS)):
        yield name, _named(now.get(key)), _named(before.get(key))
    session = names.SETTING_SESSION
    yield "session", _session(now.get(session)), _session(before.get(session))
    own_conversation = of_run and of_run.conversation_id
    yield "conversation_id", thread and thread.conversation_id, own_conversation
    previous = thread and thread.previous_response_id
    yield "previous_response_id", previous, state.start.previous_response_id
    is_chained = bool(of_run and of_run.chained)
    yield "auto_previous_response_id", bool(thread and thread.chained) or is_chained, is_chained


def _named(value: Json) -> Json:
    """Return a setting with names of definitions: several objects of one are not told apart."""
    if isinstance(value, str):
        return _NUMBER.sub("", value)
    if isinstance(value, list):
        return [_named(one) for one in cast("list[Json]", value)]
    if isinstance(value, Mapping):
        return {key: _named(one) for key, one in cast("JsonObject", value).items()}
    return value


def _session(written: Any) -> Json:
    """Return what identifies a session, whichever object of the process it is."""
    if not isinstance(written, Mapping):
        return None
    data = cast("Mapping[str, Any]", written)
    if "ref" not in data:
        return dict(data)
    return {name: data.get(name) for name in ("factory", "session_id", "store")}
