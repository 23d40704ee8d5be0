"""Carries out `CallModel`: calls an agent's model, and plans its reply.

In order: start hooks, the agent's tools, instructions and prompt, the input filter, the model call
between its hooks, the plan.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from hashlib import sha256
from typing import Any, Final, cast

from outlast.activities.attempt import FIRST, Attempt
from outlast.activities.content import ATTEMPTS, whole_request
from outlast.activities.errors import (
    EffectError,
    failure_of,
    mistake,
    of_user_code,
    user_code,
    worker_lookup,
)
from outlast.activities.inner_spans import ModelSpan
from outlast.activities.invocation import Invocation, annotated_type
from outlast.activities.model.background import begin_response, read_response
from outlast.activities.model.choice import (
    check_models,
    check_price,
    chosen_model,
    compacting_model,
    has_next,
    model_of,
    offer_next,
    priced,
)
from outlast.activities.model.input import sent_after_filter, sent_input, shown_items
from outlast.activities.model.refusals import Found, answer_without, refusal_about
from outlast.activities.model.response import OnEvent, ask
from outlast.activities.model.retry import FailedAttempt, apply_retry_settings
from outlast.activities.nested_stream import NestedStream
from outlast.activities.planning.offered_tools import OfferedTools, offered_tools
from outlast.activities.planning.plan import Plan, plan_reply
from outlast.activities.planning.plan_callbacks import servers_away
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.agent import Agent
from outlast.agents.callables import call
from outlast.agents.checks import json_problem
from outlast.agents.config.fallback_model import ModelChoice
from outlast.agents.config.model_defaults import UNSET, settings_of_model
from outlast.agents.config.model_settings import ModelSettings, read_model_settings
from outlast.agents.config.run_config import (
    CallModelData,
    CallModelOutputData,
    ModelInputData,
    ModelOutputData,
)
from outlast.agents.config.settings import read_tool_execution
from outlast.agents.context.wrapper import show_turn
from outlast.agents.errors import UserError
from outlast.agents.hooks import call_hooks
from outlast.agents.items.raw_items import as_json, copies
from outlast.agents.prompt import prompt_of
from outlast.agents.registry import handoffs_of, target_of
from outlast.agents.schemas.agent_output import output_schema_of
from outlast.agents.schemas.provider_names import provider_name, with_own_names
from outlast.agents.tools.use_behavior import JUDGED
from outlast.contract.effects import EffectRequest
from outlast.contract.names import SETTING_INSTRUCTIONS, SETTING_STREAM
from outlast.contract.streams.delta_reader import UNJUDGED
from outlast.loop.call_forms import FUNCTION, MCP_APPROVAL, form_of
from outlast.loop.calls import BegunResponse, CompactionNeed, ModelReply, PlannedCall
from outlast.loop.checks import INPUT_CHECKS
from outlast.loop.effects import CallModel
from outlast.loop.items import Item
from outlast.loop.values import Failure, JsonObject, Usage
from outlast.ports.model import (
    Model,
    ModelRequest,
    ModelResponse,
    OutputSpec,
)
from outlast.ports.model_arguments import CallObjects, ModelTracing, output_spec
from outlast.ports.run_response import RunResponse
from outlast.tracing.provider import get_current_span

OUTPUT_FILTER: Final = "call_model_output_filter"
DIGEST: Final = 12
"""How many characters of the digest of its instructions a reply has."""


async def call_model(
    worker: WorkerDeps, request: EffectRequest[CallModel], attempt: Attempt = FIRST
) -> ModelReply:
    """Call the agent's model with the conversation so far.

    User code before the model call may fail and be retried. A failure after the call is part of the
    reply, so that no retry pays twice.

    Raises:
        EffectError: user code or the provider failed before there was a reply.
    """
    turn = ModelTurn(invocation_of(worker, request.effect), request, attempt)
    try:
        return await _model_call(worker, turn, request.effect)
    except EffectError as error:
        offer_next(turn.invocation, request, error, attempt.shown)
        raise


async def _model_call(worker: WorkerDeps, turn: "ModelTurn", effect: CallModel) -> ModelReply:
    invocation, attempt = turn.invocation, turn.attempt
    response, refusal = None, None
    if effect.begun is not None:
        try:
            response = await turn.read(effect.begun)
        except EffectError as error:
            if not refusal_about(error):
                raise
            refusal = error
        is_last = attempt.number >= ATTEMPTS
        turn.request = await whole_request(worker, turn.request, is_last=is_last)
    elif _has_new_checks(invocation, effect):
        return ModelReply(items=(), required_steps=invocation.required_steps(), unchecked=True)
    elif effect.turn > 1 and attempt.is_stopped is not None and await attempt.is_stopped():
        return ModelReply(items=(), withheld=True)
    async with NestedStream(invocation, effect) as stream:
        if effect.begun is None:
            await stream.turn(effect, turn.request.items, attempt=attempt.number)
        show_turn(invocation.wrapper, partial(_question, turn.request))
        if response is None:
            reply = await turn.ask(stream, refusal)
        else:
            turn.offer = await offered_tools(invocation, attempt=attempt.number)
            reply = await turn.reply(Found(response, (), ()))
        if reply.begun is None:
            await stream.reply(effect, reply)
    return reply


def _has_new_checks(invocation: Invocation, effect: CallModel) -> bool:
    """Whether the agent has new input guardrails that did not run for the question.

    A conversation may be open for days: its required steps may date from before a deploy.
    """
    return effect.turn == 1 and not INPUT_CHECKS.intersection(invocation.required_steps()) <= {
        *effect.required_steps
    }


class ModelTurn:
    """One attempt of a model call: what it offers, whom and what it asks, and the reply.

    Attributes:
        offer: the agent's tools and handoffs.
        model: the model that is asked, and its name for people, `label`.
        settings: the settings of the call.
    """

    offer: OfferedTools
    model: Model
    label: str
    settings: ModelSettings
    instructions: str = ""

    def __init__(
        self, invocation: Invocation, request: EffectRequest[CallModel], attempt: Attempt
    ) -> None:
        self.invocation = invocation
        self.request = request
        self.attempt = attempt
        self._has_begun = False  # whether readers may have seen a part of the reply

    async def read(self, begun: BegunResponse) -> ModelResponse | None:
        """Return a response begun in the background; None if another one has to be begun."""
        invocation = self.invocation
        self.model, self.label = model_of(invocation)
        has_prompt = invocation.agent.prompt is not None
        self.settings = _settings(invocation, self.model, has_prompt=has_prompt)
        return await read_response(invocation, self.model, self.label, begun, self.settings)

    async def ask(self, stream: NestedStream, refusal: EffectError | None) -> ModelReply:
        """Ask the model, or begin a response in the background.

        `refusal` is how the provider refused the request in the background.
        """
        invocation, effect, attempt = self.invocation, self.request.effect, self.attempt
        if effect.starts:
            # These hooks may still change the agent.
            await invocation.call_agent_hooks(
                "on_agent_start", "on_start", turn_input=lambda: invocation.wrapper.turn_input
            )
        self.offer = await offered_tools(invocation, attempt=attempt.number)
        self.model, self.label = model_of(invocation)
        # What is wrong fails now, before the model call is paid for.
        check_price(invocation.settings, self.model, self.label)
        if effect.starts:
            check_models(invocation)
        invocation.reference(OUTPUT_FILTER)
        _check_compaction(invocation)
        request = await self._request(self.request.items)
        self.settings = request.settings
        self.instructions = _digest(request.instructions)
        await _call_start_hooks(invocation, request)
        is_read = invocation.parent_call is None or stream.has_callback
        streams = is_read and (effect.streams or invocation.settings.get(SETTING_STREAM) is True)
        retry = request.settings.retry
        policy = retry.policy if retry is not None else None
        policy = invocation.named(policy) if isinstance(policy, str) else policy
        try:
            if request.settings.background and refusal is None:
                begun = await begin_response(invocation, self.model, request, effect.begun)
                changes = invocation.changes()
                return ModelReply(items=(), model=self.label, changes=changes, begun=begun)
            found = await self._answer_to(request, refusal, stream, streams=streams)
        except EffectError as error:
            failed = FailedAttempt(
                number=attempt.number, request=request, stream=streams, model=self.model
            )
            await apply_retry_settings(error, failed, policy)
            raise
        return await self.reply(found)

    async def reply(self, found: Found[ModelResponse]) -> ModelReply:
        """Return what the run does with an answer: the plan of its calls, or the run's answer."""
        invocation, items, offer = self.invocation, self.request.items, self.offer
        response, failure = await _filtered(invocation, _with_own_names(found.answer, offer))
        usage = priced(response.usage, self.model, self.label)
        reply = await planned_reply(
            invocation, items, offer, response, self.label, usage=usage, failure=failure
        )
        if self.instructions:
            reply = replace(reply, instructions=self.instructions)
        keeps_usage = self.settings.preserve_raw_usage is True
        if not (found.refused or keeps_usage):
            return reply
        for other in found.others:
            usage = usage.plus(priced(other.usage, self.model, self.label))
        raw_usage = response.raw_usage if keeps_usage else None
        return replace(reply, refused=found.refused, usage=usage, raw_usage=raw_usage)

    async def _answer_to(
        self,
        request: ModelRequest,
        refusal: EffectError | None,
        stream: NestedStream,
        *,
        streams: bool,
    ) -> Found[ModelResponse]:
        """Return the answer to a request, or to the same without what the provider refuses.

        Raises:
            EffectError: the model failed, or refused the request for another reason.
        """
        try:
            if refusal is None:
                return Found(await self._shown_answer(request, stream, streams=streams), (), ())
        except EffectError as error:
            refusal = error
        found = None
        if not self._has_begun:
            found = await answer_without(refusal, self.request.items, self._answer_without)
        if found is None:
            raise refusal
        return found

    async def _answer_without(self, items: tuple[Item, ...]) -> ModelResponse:
        request = await self._request(items)
        request = replace(request, settings=replace(request.settings, background=None))
        with self._span_of_call(request) as span:
            return span(await self._answer(request))

    async def _shown_answer(
        self, request: ModelRequest, stream: NestedStream, *, streams: bool
    ) -> ModelResponse:
        """Ask the model; those who read along get the text while the model writes it."""
        with self._span_of_call(request) as span:
            is_read_along = streams or self.attempt.is_watched()
            on_event = span.timed(self._to_readers()) if is_read_along else None
            if streams:
                on_event = self._noted(on_event, is_read=stream.has_callback)
            elif on_event is not None:
                return span(await self._answer_to_watchers(request, on_event, stream))
            return span(await self._answer(request, on_event, stream))

    def _span_of_call(self, request: ModelRequest) -> ModelSpan:
        return ModelSpan(self.label, request, self.model, self.request.effect.tried)

    async def _answer(
        self,
        request: ModelRequest,
        on_event: OnEvent | None = None,
        stream: NestedStream | None = None,
    ) -> ModelResponse:
        """Ask the model, in a span of its own; nobody reads along without the two."""
        invocation = self.invocation
        objects = _objects(invocation, self.offer)
        of = invocation.agent_name
        return await ask(self.model, request, on_event, stream, of=of, objects=objects)

    async def _answer_to_watchers(
        self, request: ModelRequest, on_event: OnEvent, stream: NestedStream
    ) -> ModelResponse:
        """Stream a call only because of readers in this process, who must not change the run.

        A model that refuses to stream is called again without.
        """
        settings = replace(request.settings, include_usage=True)
        begun = False

        def forward(event: JsonObject) -> None:
            nonlocal begun
            begun = True
            on_event(event)

        try:
            return await self._answer(replace(request, settings=settings), forward, stream)
        except EffectError as error:
            if begun or error.retryable:
                raise
        return await self._answer(request, None, stream)

    def _noted(self, on_event: OnEvent | None, *, is_read: bool) -> OnEvent | None:
        """Return a reader of a stream that also notes that text has left; None if nobody reads."""
        shown = self.attempt.shown
        if shown is None or not (is_read or on_event is not None):
            return on_event
        shown.decides = has_next(self.invocation)

        def forward(event: JsonObject) -> None:
            shown.note(event)
            if on_event is not None:
                on_event(event)

        return forward

    def _to_readers(self) -> OnEvent | None:
        """Return what gives readers of the run the text while the model writes it; None if none may.

        Not that of a nested run, which a callback reads, nor an answer that a person has to
        approve. Its first event says whether output guardrails judge the text later, or a filter
        changes it, so that customers do not read it before.
        """
        invocation, on_event = self.invocation, self.attempt.on_event
        approval = invocation.agent.output_approval
        is_approved_later = invocation.approval_policy("answer", "", approval) is not None
        if on_event is None or invocation.parent_call is not None or is_approved_later:
            return None
        is_judged = bool(invocation.output_guardrails()) or OUTPUT_FILTER in invocation.settings
        says_unjudged = not is_judged

        def forward(event: JsonObject) -> None:
            nonlocal says_unjudged
            self._has_begun = self._has_begun or str(event.get("type")).endswith(".delta")
            on_event({**event, UNJUDGED: True} if says_unjudged else event)
            says_unjudged = False

        return forward

    async def _request(self, items: Sequence[Item]) -> ModelRequest:
        invocation, effect, offer = self.invocation, self.request.effect, self.offer
        instructions, prompt = await _instructions_and_prompt(invocation)
        instructions = _with_servers_away(instructions, offer)
        instructions, sent = await _apply_input_filter(invocation, instructions, items)
        settings = _settings(invocation, self.model, has_prompt=prompt is not None)
        resets = effect.tools_used and invocation.agent.reset_tool_choice
        if settings.tool_choice is not None and (resets or _forces_missing(settings, offer)):
            settings = replace(settings, tool_choice=None)
        elif isinstance(settings.tool_choice, str):
            settings = replace(settings, tool_choice=provider_name(settings.tool_choice))
        entries = offer.entries()
        return ModelRequest(
            instructions=instructions,
            input=sent,
            tools=offer.specs(),
            hosted_tools=list(entries.values()),
            hosted_positions=list(entries),
            output=_output(invocation.agent),
            settings=settings,
            previous_response_id=effect.previous_response_id,
            conversation_id=effect.conversation_id,
            prompt=prompt,
            run_id=invocation.run_id,
        )


def _check_compaction(invocation: Invocation) -> None:
    """Refuse a model whose provider is to make conversations shorter and cannot.

    That is known before a long conversation has been paid for.
    """
    compaction = invocation.agent.compaction
    if compaction is not None and compaction.by == "provider" and not invocation.server_managed:
        compacting_model(invocation, compaction)


def _compaction_needs(
    invocation: Invocation, calls: tuple[PlannedCall, ...], usage: Usage
) -> tuple[CompactionNeed, tuple[PlannedCall, ...]]:
    """Return the compaction that the agent needs, and the calls with that of their target agents.

    A handoff may lead to an agent whose model has a smaller window.
    """
    registry, compaction = invocation.worker.registry, invocation.agent.compaction
    if compaction is None and all(one.kind != "handoff" for one in calls):
        return "", calls

    def need_of(agent: Agent[Any]) -> CompactionNeed:
        return "" if agent.compaction is None else agent.compaction.need_after(usage)

    calls = tuple(
        replace(one, target_compaction=need_of(registry.agent(one.target)))
        if one.kind == "handoff" and one.target in registry.names
        else one
        for one in calls
    )
    return need_of(invocation.agent), calls


async def _call_start_hooks(invocation: Invocation, request: ModelRequest) -> None:
    if not invocation.hooked("on_llm_start"):
        return
    calls = invocation.hook_calls(
        "on_llm_start",
        invocation.wrapper,
        invocation.agent,
        request.instructions,
        list(request.input),
    )
    with user_code(f"on_llm_start of agent {invocation.agent.name!r}"):
        await call_hooks(*calls)


def _with_own_names(response: ModelResponse, offer: OfferedTools) -> ModelResponse:
    output = cast("object", response.output)
    names = [*offer.tools, *offer.handoffs]
    if "".join(names).isascii() or not isinstance(output, list | tuple):
        return response
    items = cast("Sequence[object]", output)
    if not all(isinstance(item, dict) for item in items):
        return response
    return replace(response, output=with_own_names(cast("Sequence[JsonObject]", items), names))


def _question(request: EffectRequest[CallModel]) -> list[JsonObject]:
    """Return the input of the question: the items before those that the run added."""
    items = request.items[: request.effect.history]
    if not request.effect.starts:  # only a starting agent's call has the number
        inputs = (at for at, item in enumerate(items, 1) if item.kind in {"input", "history"})
        items = items[: max(inputs, default=0)]
    return [item.raw for item in items]


def invocation_of(worker: WorkerDeps, effect: CallModel) -> Invocation:
    """Return the invocation of a model call.

    Raises:
        EffectError: the worker lacks the agent, or an agent that it hands over to.
    """
    with worker_lookup():
        agent = worker.registry.agent(effect.agent)
        for entry in handoffs_of(agent):
            if not entry.picks_agent:
                target_of(entry)  # fails now, before the model call is paid for
    invocation = Invocation.of(worker, effect, annotated_type(agent))
    invocation.server_managed = effect.conversation_id is not None or effect.chained
    invocation.decided = effect.decided
    return invocation


_model_defaults = lru_cache(maxsize=256)(settings_of_model)
"""The default settings of a model, which nothing changes."""


def _settings(invocation: Invocation, model: Model, *, has_prompt: bool) -> ModelSettings:
    chosen = chosen_model(invocation)
    own = invocation.agent.model_settings if chosen.settings is None else chosen.settings
    if own is UNSET:
        own = _model_defaults(_name_with_defaults(chosen, model, has_prompt=has_prompt))
    return own.resolve(read_model_settings(invocation.settings.get("model_settings")))


def _name_with_defaults(choice: ModelChoice, model: Model, *, has_prompt: bool) -> str:
    """Return the name of the model that the defaults apply to; empty for none.

    A model object, and a model that a stored prompt may choose, have no defaults.
    """
    chosen = choice.model
    if chosen is None and not has_prompt:
        chosen = getattr(model, "name", None)
    return chosen if isinstance(chosen, str) else ""


async def _instructions_and_prompt(invocation: Invocation) -> tuple[str | None, JsonObject | None]:
    agent = invocation.agent
    if callable(agent.instructions) and callable(agent.prompt):
        return await asyncio.gather(instructions_of(invocation), stored_prompt_of(invocation))
    return await instructions_of(invocation), await stored_prompt_of(invocation)


async def instructions_of(invocation: Invocation) -> str | None:
    """Return the agent's instructions, or those that a fork has instead.

    Raises:
        EffectError: the callable that makes them failed.
    """
    agent = invocation.agent
    others = invocation.settings.get(SETTING_INSTRUCTIONS)
    if isinstance(others, dict) and invocation.agent_name in others:
        return str(cast("JsonObject", others)[invocation.agent_name])
    if agent.instructions is None or isinstance(agent.instructions, str):
        return agent.instructions
    what = f"The instructions of agent {agent.name!r}"
    with user_code(what):
        text: object = await call(agent.instructions, invocation.wrapper, agent)
    if not isinstance(text, str):
        raise mistake(f"{what} returned {type(text).__name__} instead of a string.")
    return text


def _digest(instructions: str | None) -> str:
    """Return the beginning of the digest of instructions; empty for none."""
    written = (instructions or "").encode(errors="surrogatepass")
    return sha256(written).hexdigest()[:DIGEST] if written else ""


def _with_servers_away(instructions: str | None, offer: OfferedTools) -> str | None:
    if not offer.away:
        return instructions
    notice = f"{servers_away(offer.away)} If they are needed, say so instead of guessing."
    return notice if not instructions else f"{instructions}\n\n{notice}"


def _forces_missing(settings: ModelSettings, offer: OfferedTools) -> bool:
    """Whether tool_choice names a tool of an unavailable server."""
    if not offer.away or settings.tool_choice in {"auto", "none"}:
        return False
    if settings.tool_choice == "required":
        return not (offer.specs() or offer.entries())
    return isinstance(settings.tool_choice, str) and settings.tool_choice not in {
        *offer.tools,
        *offer.handoffs,
        *offer.hosted_kinds(),
    }


async def stored_prompt_of(invocation: Invocation) -> JsonObject | None:
    """Return the agent's stored prompt.

    Raises:
        EffectError: the callable that chooses it failed.
    """
    agent = invocation.agent
    if agent.prompt is None:
        return None
    with user_code(f"The prompt of agent {agent.name!r}"):
        return await prompt_of(agent.prompt, invocation.wrapper, agent)


def _output(agent: Agent[Any]) -> OutputSpec | None:
    try:
        return output_spec(output_schema_of(agent.output_type))
    except Exception as error:  # a schema may be the user's own class
        raise of_user_code(f"The output type of agent {agent.name!r}", error) from error


async def _apply_input_filter(
    invocation: Invocation, instructions: str | None, items: Sequence[Item]
) -> tuple[str | None, list[JsonObject]]:
    """Return the instructions and the input, after the run's input filter.

    User code gets copies: its changes affect the request, and not the run.
    """
    chosen = invocation.reference("call_model_input_filter")
    if chosen is None:
        sent = sent_input(invocation, items)
        is_seen = invocation.hooked("on_llm_start")
        return instructions, copies(sent) if is_seen else sent
    what = "call_model_input_filter"
    shown = shown_items(invocation, items)
    copied = ModelInputData(input=copies(shown), instructions=instructions)
    call_data = CallModelData[Any](
        model_data=copied, agent=invocation.agent, context=invocation.wrapper.context
    )
    with user_code(what):
        changed: object = await call(chosen, call_data)
    if not isinstance(changed, ModelInputData):
        raise mistake(f"{what} returned {type(changed).__name__}: return ModelInputData(...).")
    _check_filter_result(changed.input, changed.instructions, what)
    return changed.instructions, sent_after_filter(invocation, shown, changed.input)


def _check_filter_result(items: object, instructions: object, what: str) -> None:
    is_list = isinstance(items, list | tuple)
    if not is_list or not all(isinstance(item, dict) for item in cast("list[object]", items)):
        wrong, fits = cast("object", items), "input= must be a list of input items (dicts)"
    elif instructions is not None and not isinstance(instructions, str):
        wrong, fits = instructions, "instructions= must be a string or None"
    else:
        return
    raise mistake(f"{what} returned ModelInputData with {wrong!r:.80}: {fits}.")


async def _filtered(
    invocation: Invocation, response: ModelResponse
) -> tuple[ModelResponse, Failure | None]:
    """Return the response after the run's output filter, or without output why that failed.

    Raises nothing that the filter raises, because the model is paid.
    """
    chosen = invocation.reference(OUTPUT_FILTER)
    if chosen is None or not _is_output(response.output):  # the plan says what is wrong with it
        return response, None
    try:
        output = await _changed_output(invocation, chosen, response)
    except Exception as error:  # noqa: BLE001  user code after the paid call
        return replace(response, output=[]), failure_of(OUTPUT_FILTER, error)
    return replace(response, output=output), None


async def _changed_output(
    invocation: Invocation, chosen: Callable[..., Any], response: ModelResponse
) -> Sequence[JsonObject]:
    data = CallModelOutputData[Any](
        model_data=ModelOutputData(output=copies(response.output)),
        agent=invocation.agent,
        context=invocation.wrapper.context,
    )
    changed: object = await call(chosen, data)
    if not isinstance(changed, ModelOutputData):
        kind = type(changed).__name__
        raise UserError(f"{OUTPUT_FILTER} returned {kind}: return ModelOutputData(...).")
    returned: Any = changed.output
    listed = cast("Sequence[object]", returned) if isinstance(returned, list | tuple) else [None]
    items = [as_json(item) for item in listed]
    if not _is_output(items):
        raise UserError(
            f"{OUTPUT_FILTER} returned ModelOutputData with {returned!r:.80}: output= must be a "
            "list of output items (dicts of plain data)."
        )
    return items


def _is_output(output: object) -> bool:
    is_list = isinstance(output, list | tuple)
    items = cast("Sequence[object]", output) if is_list else [None]
    return all(isinstance(item, dict) for item in items) and json_problem(output) is None


def _objects(invocation: Invocation, offer: OfferedTools) -> CallObjects:
    span = get_current_span()
    if span is None or not span.is_recorded:
        tracing = ModelTracing.DISABLED
    elif invocation.settings.get("trace_include_sensitive_data") is False:
        tracing = ModelTracing.ENABLED_WITHOUT_DATA
    else:
        tracing = ModelTracing.ENABLED
    return CallObjects(
        tools=offer.all_tools(),
        handoffs=[*offer.handoffs.values()],
        output_schema=output_schema_of(invocation.agent.output_type),
        tracing=tracing,
    )


async def planned_reply(
    invocation: Invocation,
    history: Sequence[Item],
    offer: OfferedTools,
    response: ModelResponse,
    label: str,
    *,
    usage: Usage,
    failure: Failure | None = None,
) -> ModelReply:
    """Return a model's reply with its plan; raises nothing, because the model is paid.

    `usage` is what is recorded, with its cost if that is known. `failure` says why the run cannot go
    on, whatever the reply holds.
    """
    invocation.usage.add(response.usage)  # user code after the call sees its usage
    if failure is not None:
        plan = Plan(items=(), failure=failure)
    else:
        plan = await plan_reply(response.output, offer, history, invocation)
    failure, changes = await _after(invocation, plan, response), ()
    try:
        changes = invocation.changes()
    except EffectError as error:
        failure = failure or Failure(code=error.code, message=error.message)
    need, calls = "", plan.calls
    if not (invocation.server_managed or invocation.is_live):
        need, calls = _compaction_needs(invocation, calls, usage)
    return ModelReply(
        items=plan.items,
        usage=usage,
        calls=calls,
        final=plan.final,
        value=plan.value,
        failure=failure,
        changes=changes,
        model=label,
        response_id=response.response_id,
        request_id=response.request_id,
        required_steps=invocation.required_steps(),
        judged=plan.ends_with == JUDGED,
        checks=plan.checks,
        parallel=_at_once(invocation, plan),
        answer_terms=None if plan.approval is None else plan.approval.terms,
        answer_reason=None if plan.approval is None else plan.approval.reason,
        compaction=need,
    )


def _at_once(invocation: Invocation, plan: Plan) -> int | None:
    """Return how many calls may run in parallel; one if several use the same machine.

    A model that writes two patches or commands expects them to run in order.
    """
    forms = [form_of(plan.items[call.item]) for call in plan.calls]
    machines = [form for form in forms if form not in {FUNCTION, MCP_APPROVAL}]
    if len(machines) > len(set(machines)):
        return 1
    return read_tool_execution(invocation.settings).max_function_tool_concurrency


async def _after(invocation: Invocation, plan: Plan, response: ModelResponse) -> Failure | None:
    if not plan.reuses_call_id and invocation.hooked("on_llm_end"):
        seen = RunResponse.of(response)
        calls = invocation.hook_calls("on_llm_end", invocation.wrapper, invocation.agent, seen)
        try:
            await call_hooks(*reversed(calls))  # the agent's first, as in the SDK
        except Exception as error:  # noqa: BLE001  a hook's error fails the run without a retry
            what = f"on_llm_end of agent {invocation.agent.name!r}"
            return plan.failure or failure_of(what, error)
    return plan.failure
