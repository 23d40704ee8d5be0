"""OpenAI's webhooks about responses in the background."""

from typing import TYPE_CHECKING

from outlast.agents.json_values import as_object, as_text
from outlast.deliveries.webhooks import ResponseReady, WebhookEvent
from outlast.models.openai.responses import RUN_ID

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_ENDS = frozenset(
    {"response.completed", "response.failed", "response.incomplete", "response.cancelled"}
)


async def background_response(
    event: WebhookEvent, *, openai_client: "AsyncOpenAI | None" = None
) -> ResponseReady | None:
    """Return which run a webhook of OpenAI is about, for `ModelSettings(background=True)`.

    The webhook only has the response's id, so the response is fetched: its metadata names the run.

    Args:
        event: a webhook that `openai(secrets)` has verified.
        openai_client: a client for the account of the response; None for one of the environment.

    Returns:
        What to do, to be returned by the function of the webhook; None if the event is about
        something else.

    Raises:
        openai.OpenAIError: the response could not be fetched, so that OpenAI sends the event again.
    """
    value = as_object(event.value) or {}
    response_id = as_text((as_object(value.get("data")) or {}).get("id"))
    if value.get("type") not in _ENDS or not response_id:
        return None
    from openai import AsyncOpenAI, NotFoundError  # slow to import

    client = openai_client or AsyncOpenAI()
    try:
        response = await client.responses.retrieve(response_id)
    except NotFoundError:
        return None
    finally:
        if openai_client is None:
            await client.close()
    run_id = (response.metadata or {}).get(RUN_ID)
    return ResponseReady(run_id) if run_id else None
