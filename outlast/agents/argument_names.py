"""Unknown names of arguments, answered with the name that was probably meant."""

import difflib
from collections.abc import Iterable
from typing import Final

_SETTING: Final = "model_settings=ModelSettings({}=...)"
_CONFIG: Final = "run_config=RunConfig({}=...)"
_TRACING_OFF: Final = "run_config=RunConfig(tracing_disabled=True)"

FOREIGN_NAMES: Final[dict[str, dict[str, str]]] = {
    "Agent": {
        "description": "handoff_description=",
        "functions": "tools=",
        "guardrails": "input_guardrails= or output_guardrails=",
        "llm": "model=",
        "max_tokens": _SETTING.format("max_tokens"),
        "model_provider": f"Runner.run(..., {_CONFIG.format('model_provider')})",
        "output_guardrail": "output_guardrails=[...]",
        "output_schema": "output_type=",
        "parallel_tool_calls": _SETTING.format("parallel_tool_calls"),
        "reasoning": _SETTING.format("reasoning"),
        "response_format": "output_type=",
        "response_model": "output_type=",
        "result_type": "output_type=",
        "session": "Runner.run(..., session=...)",
        "sub_agents": "handoffs=, or tools=[agent.as_tool(...)]",
        "system_prompt": "instructions=",
        "temperature": _SETTING.format("temperature"),
        "tool_choice": _SETTING.format("tool_choice"),
        "top_p": _SETTING.format("top_p"),
    },
    "GuardrailFunctionOutput": {
        "info": "output_info=",
        "message": "output_info=",
        "reason": "output_info=",
        "triggered": "tripwire_triggered=",
        "tripwire": "tripwire_triggered=",
    },
    "ModelSettings": {
        "max_completion_tokens": "max_tokens=",
        "max_output_tokens": "max_tokens=",
        "n": "extra_args={'n': ...}",
        "output_type": "Agent(output_type=...)",
        "reasoning_effort": "reasoning={'effort': ...}",
        "response_format": "Agent(output_type=...)",
        "seed": "extra_args={'seed': ...}",
        "stop": "extra_args={'stop': [...]}, where the provider has it",
        "stop_sequences": "extra_args={'stop': [...]}, where the provider has it",
        "top_k": "extra_args={'top_k': ...}, where the provider has it",
    },
    "RunConfig": {
        "disable_tracing": "tracing_disabled=",
        "enable_tracing": "tracing_disabled=",
        "provider": "model_provider=",
        "temperature": _SETTING.format("temperature"),
    },
    "Runner": {
        "agent": "starting_agent=",
        "config": "run_config=",
        "disable_tracing": _TRACING_OFF,
        "message": "input=",
        "messages": "input=",
        "model": _CONFIG.format("model"),
        "model_provider": _CONFIG.format("model_provider"),
        "model_settings": _CONFIG.format("model_settings"),
        "prompt": "input=",
        "query": "input=",
        "run_id": "id=",
        "session_id": "session=, such as SQLiteSession(session_id)",
        "state": "input=, which takes a RunState",
        "stream": "Runner.run_streamed(...)",
        "thread_id": "conversation_id= or session=",
        "tracing_disabled": _TRACING_OFF,
    },
    "Runner.start": {"starting_agent": "agent="},
    "as_tool": {
        "agent_name": "tool_name=",
        "description": "tool_description=",
        "name": "tool_name=",
        "output_extractor": "custom_output_extractor=",
        "tool_description_override": "tool_description=",
        "tool_name_override": "tool_name=",
    },
    "function_tool": {
        "description": "description_override=",
        "name": "name_override=",
        "strict": "strict_mode=",
        "tool_description": "description_override=",
        "tool_name": "name_override=",
    },
    "handoff": {
        "description": "tool_description_override=",
        "name": "tool_name_override=",
        "tool_description": "tool_description_override=",
        "tool_name": "tool_name_override=",
    },
}
"""By callable: names that other frameworks and descriptions have, and what is used here."""


def advice_on(where: str, name: str, allowed: Iterable[str]) -> str:
    """Return a sentence on an unknown argument, after a space; empty if there is no better name.

    Args:
        where: the callable, such as `Runner.run`.
        name: the unknown argument.
        allowed: the arguments of the callable.
    """
    ours = None
    for place in (where, where.partition(".")[0]):
        ours = ours or FOREIGN_NAMES.get(place, {}).get(name)
    return f" Use {ours}." if ours else near_name(name, allowed)


def near_name(name: str, allowed: Iterable[str]) -> str:
    """Return the question for a name that looks misspelt, after a space; empty if none is near."""
    by_folded = {one.casefold(): one for one in allowed}
    near = difflib.get_close_matches(name.casefold(), list(by_folded), n=1)
    return f" Did you mean {by_folded[near[0]]!r}?" if near else ""
