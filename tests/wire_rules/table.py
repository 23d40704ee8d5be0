"""The published rules of requests to models, each with its public source.

A rule belongs to an API, and to the servers that refuse what breaks it. `openai` publishes a rule in
its specification or in an error message. The other servers speak Chat Completions and are stricter:
`anthropic` and `gemini` also behind LiteLLM and OpenRouter, `parsing` for servers that parse the
history before the model reads it, such as vLLM and llama.cpp, `mistral`, and `deepseek`, which also
stands for Qwen.
"""

from dataclasses import dataclass
from typing import Final, Literal

Api = Literal["chat", "responses"]
Server = Literal["openai", "anthropic", "gemini", "parsing", "mistral", "deepseek"]

EVERY_SERVER: Final[frozenset[Server]] = frozenset({
    "openai", "anthropic", "gemini", "parsing", "mistral", "deepseek",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rule:
    """What a server refuses.

    Attributes:
        text: the rule in a sentence.
        source: where the rule, or the error message of its breach, is published.
        servers: who refuses a request that breaks it.
        apis: the APIs that have it.
    """

    text: str
    source: str
    servers: frozenset[Server] = frozenset({"openai"})
    apis: frozenset[Api] = frozenset({"chat", "responses"})


_CHAT: Final[frozenset[Api]] = frozenset({"chat"})
_RESPONSES: Final[frozenset[Api]] = frozenset({"responses"})
_ALL = EVERY_SERVER
_ANTHROPIC: Final[frozenset[Server]] = frozenset({"anthropic"})
_STRICT: Final[frozenset[Server]] = frozenset({"anthropic", "gemini"})

_SPEC = "https://github.com/openai/openai-openapi/blob/f85dbe22/openapi.yaml"
_STRUCTURED = "https://platform.openai.com/docs/guides/structured-outputs#supported-schemas"
_GITHUB = "https://github.com/"

OF_BOTH: Final[dict[str, Rule]] = {
    "text-encodable": Rule(
        "Text has no lone surrogate: the body is UTF-8.",
        f"{_GITHUB}anthropics/claude-code/issues/3277",
        _ALL,
    ),
    "text-nul": Rule(
        "Text has no NUL: bodies with it are cut, and servers' databases refuse it.",
        f"{_GITHUB}anthropics/claude-code/issues/94055 {_GITHUB}aegra/aegra/issues/370",
        frozenset({"anthropic", "parsing"}),
    ),
    "text-length": Rule("A text has at most 10,485,760 characters.", f"{_SPEC} InputTextContentParam"),
    "model-named": Rule("`model` is a name.", f"{_SPEC} CreateChatCompletionRequest", _ALL),
    "number-range": Rule(
        "Numbers are in their range: `temperature` to 2, `top_p` to 1, penalties from -2 to 2,"
        " `top_logprobs` to 20, `max_output_tokens` from 16.",
        f"{_SPEC} ModelResponseProperties",
    ),
    "metadata-size": Rule(
        "`metadata` has at most 16 texts of 512 characters, under keys of 64.", f"{_SPEC} Metadata"
    ),
    "tools-many": Rule(
        "At most 128 tools.", f"{_GITHUB}0x4m4/hexstrike-ai/issues/29", apis=_CHAT
    ),
    "tools-empty": Rule(
        "`tools` is not empty.", f"{_GITHUB}vllm-project/vllm/issues/39741", _ALL, _CHAT
    ),
    "tools-type": Rule("Each tool has a type that the API knows.", f"{_SPEC} Tool"),
    "tool-name": Rule(
        "A tool's name has 1 to 64 letters, digits, underscores and dashes (128 in Responses).",
        f"{_SPEC} FunctionObject, FunctionToolParam",
        _ALL,
    ),
    "tool-names-unique": Rule(
        "No two tools have one name.", f"{_GITHUB}tailcallhq/forgecode/issues/892", _STRICT
    ),
    "tool-description": Rule(
        "A tool's description has at most 1,024 characters.",
        f"{_GITHUB}getsentry/sentry-mcp/issues/106",
        apis=_CHAT,
    ),
    "tool-parameters": Rule(
        "A tool's parameters are a JSON Schema of an object.", f"{_SPEC} FunctionParameters", _ALL
    ),
    "choice-without-tools": Rule(
        "`tool_choice` and `parallel_tool_calls` need `tools`.",
        f"{_GITHUB}Upsonic/Upsonic/issues/323",
    ),
    "choice-known": Rule(
        "`tool_choice` is `none`, `auto`, `required`, or names a tool that is there.",
        f"{_SPEC} ToolChoiceParam",
        _ALL,
    ),
    "strict-schema": Rule(
        "A strict schema is an object without `anyOf`, whose objects require every property and allow"
        " no other, of the published keywords.",
        f"{_STRUCTURED} {_GITHUB}lastmile-ai/openai-agents-mcp/issues/2",
    ),
    "strict-schema-size": Rule(
        "A strict schema has at most 5,000 properties, 10 levels, 1,000 enum values and 120,000"
        " characters in names and values.",
        f"{_STRUCTURED} https://jsonschemaprofiles.unitvectorylabs.com/schemas/openai",
    ),
    "format-name": Rule(
        "The name of an answer's format has 1 to 64 letters, digits, underscores and dashes.",
        f"{_SPEC} ResponseFormatJsonSchema",
    ),
    "role-known": Rule("A message has a role that the API knows.", f"{_SPEC} InputMessage", _ALL),
    "content-shape": Rule(
        "A message's content is a text or a list of at least one part.",
        f"{_SPEC} ChatCompletionRequestUserMessage {_GITHUB}vllm-project/vllm/pull/49130",
        _ALL,
    ),
    "content-empty": Rule(
        "No message and no part of text is empty, or of spaces only.",
        f"{_GITHUB}anthropics/claude-code/issues/23440 {_GITHUB}BerriAI/litellm/pull/39723",
        _STRICT,
    ),
    "part-type": Rule(
        "A part has a type that its role can have.",
        f"{_GITHUB}jeremychone/rust-genai/pull/119 {_SPEC} InputContent",
        _ALL,
    ),
    "image-address": Rule(
        "An image has a URL of http or a data URL of base64, or in Responses a file's id.",
        f"{_SPEC} InputImageContent https://platform.openai.com/docs/guides/images-vision",
        _ALL,
    ),
    "image-type": Rule(
        "An image is a PNG, a JPEG, a GIF or a WebP, by its type and by its first bytes.",
        f"{_GITHUB}CosmosShadow/gptpdf/issues/6 {_GITHUB}anomalyco/opencode/pull/5704",
        _ALL,
    ),
    "image-size": Rule(
        "An image's URL has at most 20,971,520 characters.", f"{_SPEC} InputImageContentParamAutoParam"
    ),
    "file-data": Rule(
        "A file has an id, a URL (in Responses) or data of at most 73,400,320 characters.",
        f"{_SPEC} InputFileContentParam",
        _ALL,
    ),
    "call-id": Rule(
        "A call's id has 1 to 64 characters (40 in Chat Completions).",
        f"{_SPEC} FunctionCallOutputItemParam {_GITHUB}microsoft/autogen/issues/6377"
        f" {_GITHUB}openai/codex/issues/14355",
    ),
    "call-id-unique": Rule(
        "No two calls have one id.",
        f"{_GITHUB}HKUDS/nanobot/pull/4444 {_GITHUB}NVIDIA-NeMo/Switchyard/issues/502",
        _STRICT,
    ),
    "call-name": Rule(
        "A call names a tool in the form of tools' names.",
        f"{_GITHUB}continuedev/continue/issues/11645",
        _ALL,
    ),
    "call-arguments": Rule(
        "A call's arguments are the text of a JSON object.",
        f"{_GITHUB}vllm-project/vllm/pull/48922 {_GITHUB}openai/openai-agents-python/issues/2061",
        frozenset({"anthropic", "gemini", "parsing", "mistral"}),
    ),
    "call-answered": Rule(
        "Each call has exactly one output, behind it; in Chat Completions, at once behind it.",
        f"{_GITHUB}BerriAI/litellm/issues/28995 {_GITHUB}langchain-ai/open_deep_research/issues/164"
        f" {_GITHUB}tjardoo/openai-client/pull/124",
        _ALL,
    ),
    "output-called": Rule(
        "Each output belongs to a call before it.",
        f"{_GITHUB}FoundationAgents/OpenManus/issues/744 {_GITHUB}continuedev/continue/issues/10092",
        _ALL,
    ),
}  # fmt: skip

OF_CHAT: Final[dict[str, Rule]] = {
    "messages-empty": Rule(
        "`messages` has at least one message.", f"{_SPEC} CreateChatCompletionRequest", _ALL, _CHAT
    ),
    "fields-known": Rule(
        "A message has no fields of the Responses API or of the program.",
        f"{_SPEC} ChatCompletionRequestMessage",
        _ALL,
        _CHAT,
    ),
    "developer-unknown": Rule(
        "No message has the role `developer`.",
        f"{_GITHUB}losesky/ai-auto-trading/issues/14 {_GITHUB}proma-ai/Proma/issues/1496",
        frozenset({"deepseek"}),
        _CHAT,
    ),
    "answer-content": Rule(
        "An assistant's message has content, a refusal or calls.",
        f"{_SPEC} ChatCompletionRequestAssistantMessage",
        _ALL,
        _CHAT,
    ),
    "answer-readable": Rule(
        "An assistant's message has text or calls: few servers but OpenAI's read a refusal.",
        f"{_GITHUB}OpenHands/OpenHands/issues/10869 {_GITHUB}openai/openai-agents-js/pull/1524",
        frozenset({"anthropic", "gemini", "parsing", "mistral", "deepseek"}),
        _CHAT,
    ),
    "calls-empty": Rule(
        "`tool_calls` is not empty.", f"{_GITHUB}openai/openai-node/pull/1341", _ALL, _CHAT
    ),
    "call-shape": Rule(
        "A call has an id, the type `function`, a name and a text of arguments.",
        f"{_SPEC} ChatCompletionMessageToolCall",
        _ALL,
        _CHAT,
    ),
    "begins-with-call": Rule(
        "A call follows a user's message or an output: none begins the conversation.",
        f"{_GITHUB}FMXExpress/PasClaw/pull/262 {_GITHUB}RightNow-AI/openfang/pull/1011",
        frozenset({"gemini"}),
        _CHAT,
    ),
    "ends-with-answer": Rule(
        "The last message is not the assistant's.",
        f"{_GITHUB}ericc-ch/copilot-api/pull/261 {_GITHUB}crewAIInc/crewAI/pull/6973"
        f" {_GITHUB}crewAIInc/crewAI/issues/2194",
        frozenset({"anthropic", "gemini", "mistral"}),
        _CHAT,
    ),
    "user-after-output": Rule(
        "An assistant's message stands between an output and a user's message.",
        f"{_GITHUB}NousResearch/hermes-agent/issues/20154",
        frozenset({"mistral"}),
        _CHAT,
    ),
}

OF_RESPONSES: Final[dict[str, Rule]] = {
    "input-empty": Rule(
        "`input` has something, unless a prompt, a response or a conversation has it.",
        f"{_SPEC} CreateResponse",
        apis=_RESPONSES,
    ),
    "item-type": Rule(
        "An item has a type that the API knows.", f"{_SPEC} InputItem", apis=_RESPONSES
    ),
    "item-fields": Rule(
        "An item has the fields of its type and no other, and no status that is null.",
        f"{_SPEC} Item {_GITHUB}openai/openai-python/issues/3008",
        apis=_RESPONSES,
    ),
    "item-id": Rule(
        "An item's id begins with its type's prefix and has at most 64 letters, digits, underscores"
        " and dashes.",
        f"{_GITHUB}openai/codex/issues/33176 {_GITHUB}jlcodes99/cockpit-tools/issues/2090"
        f" {_GITHUB}continuedev/continue/pull/11785",
        apis=_RESPONSES,
    ),
    "item-id-unique": Rule(
        "No two items have one id.",
        f"{_GITHUB}earendil-works/pi/issues/5165 {_GITHUB}continuedev/continue/issues/10723",
        apis=_RESPONSES,
    ),
    "reasoning-followed": Rule(
        "Reasoning with an id stands directly before the model's item that followed it, with its id.",
        f"{_GITHUB}openai/openai-node/issues/1567 {_GITHUB}vercel/ai/issues/7099",
        apis=_RESPONSES,
    ),
    "reasoning-kept": Rule(
        "An item that followed reasoning has its id only where the reasoning stands before it.",
        f"{_GITHUB}cline/cline/issues/12242 {_GITHUB}openai/openai-dotnet/issues/1050",
        apis=_RESPONSES,
    ),
    "reasoning-readable": Rule(
        "With `store: false`, reasoning is encrypted, and no item is a reference.",
        f"{_GITHUB}can1357/oh-my-pi/issues/41 {_GITHUB}anomalyco/opencode/issues/8987",
        apis=_RESPONSES,
    ),
    "approval-asked": Rule(
        "An approval of an MCP call answers a request before it.",
        f"{_SPEC} MCPApprovalResponse",
        apis=_RESPONSES,
    ),
    "thread-once": Rule(
        "`previous_response_id` and `conversation` exclude each other.",
        f"{_SPEC} ResponseProperties",
        apis=_RESPONSES,
    ),
    "include-known": Rule(
        "`include` names data that the API has.", f"{_SPEC} IncludeEnum", apis=_RESPONSES
    ),
}

RULES: Final[dict[str, Rule]] = OF_BOTH | OF_CHAT | OF_RESPONSES
"""All rules by name, in the order in which they are listed."""
