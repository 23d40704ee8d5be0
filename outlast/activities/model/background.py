"""Model calls whose response the provider makes in the background, however long that takes.

The first attempt of a `CallModel` begins the response, and its id is recorded. A second `CallModel`
with this id then looks for the response: as long as the provider makes it, each attempt fails, and
the engine tries again later. Between two attempts, no worker is needed.
"""

from outlast.activities.errors import EffectError, mistake, model_code, of_model
from outlast.activities.inner_spans import ModelSpan
from outlast.activities.invocation import Invocation
from outlast.agents.config.model_settings import ModelSettings
from outlast.agents.tools.hosted import HostedTool
from outlast.contract import failures
from outlast.loop.calls import BegunResponse
from outlast.ports.model import (
    BackgroundModel,
    ModelError,
    ModelRequest,
    ModelResponse,
    ResponseLost,
)

MOST_BEGUN = 3
"""How many responses are begun for a model call, if the provider fails to make them."""


async def begin_response(
    invocation: Invocation, model: object, request: ModelRequest, before: BegunResponse | None
) -> BegunResponse:
    """Begin a response in the background.

    Args:
        invocation: the model call.
        model: the agent's model.
        request: what the model is asked.
        before: the response that was begun before and is lost; None for the first one.

    Raises:
        EffectError: the model has no responses in the background, or the provider refused.
    """
    if not isinstance(model, BackgroundModel):
        raise mistake(
            f"The model {type(model).__name__} of agent {invocation.agent.name!r} makes no "
            "responses in the background: ModelSettings(background=True) is for models behind "
            "the Responses API, or with begin_response, read_response and cancel_response."
        )
    with model_code(f"begin_response of {type(model).__name__}"):
        response_id = await model.begin_response(request)
    return BegunResponse(response_id=response_id, number=1 if before is None else before.number + 1)


async def read_response(
    invocation: Invocation,
    model: object,
    label: str,
    begun: BegunResponse,
    settings: ModelSettings,
) -> ModelResponse | None:
    """Return the response that was begun, or None if another one has to be begun.

    Args:
        invocation: the model call.
        model: the agent's model, as it is now.
        label: its name for people.
        begun: the response.
        settings: the settings of the call.

    Raises:
        EffectError: the provider still makes it, could not be asked, or failed for good.
    """
    if not isinstance(model, BackgroundModel):  # since a deploy
        return None
    hosted = [tool for tool in invocation.agent.tools if isinstance(tool, HostedTool)]
    request = ModelRequest(
        instructions=None,
        input=(),
        hosted_tools=hosted,
        settings=settings,
        run_id=invocation.run_id,
    )
    try:
        with model_code(f"read_response of {type(model).__name__}", besides=ResponseLost):
            response = await model.read_response(begun.response_id, request)
    except ResponseLost as error:
        if error.retryable and begun.number < MOST_BEGUN:
            return None
        raise of_model(_final(error)) from error
    if response is None:
        raise EffectError(
            failures.MODEL_WORKING,
            f"The provider is still making the response {begun.response_id}.",
            retryable=True,
        )
    with ModelSpan(label, request, model) as span:
        return span(response)


def _final(error: ResponseLost) -> ModelError:
    return ModelError(error.message, code=error.code, retryable=False, status=error.status)
