"""What tests say about model calls, beside the replies that `outlast.testing` writes down."""

from typing import Any

from outlast.ports.model import ModelError, ModelRequest


def model_error(code: str = "server_error", *, retryable: bool, **fields: Any) -> ModelError:
    """A failure of the provider."""
    return ModelError(f"The provider failed: {code}.", code=code, retryable=retryable, **fields)


def last_user_text(request: ModelRequest) -> str:
    """What the user said last."""
    said = [item["content"] for item in request.input if item.get("role") == "user"]
    return str(said[-1])


def outputs(request: ModelRequest) -> dict[str, Any]:
    """What the calls came to so far, by call id, as the model reads it."""
    return {
        item["call_id"]: item["output"]
        for item in request.input
        if item.get("type") == "function_call_output"
    }
