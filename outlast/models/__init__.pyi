from outlast.agents.config.model_defaults import (
    gpt_5_reasoning_settings_required as gpt_5_reasoning_settings_required,
)
from outlast.models.defaults import DEFAULT_MODEL as DEFAULT_MODEL
from outlast.models.defaults import get_default_model as get_default_model
from outlast.models.defaults import get_default_model_settings as get_default_model_settings
from outlast.models.defaults import is_gpt_5_default as is_gpt_5_default
from outlast.models.defaults import set_default_openai_api as set_default_openai_api
from outlast.models.defaults import set_default_openai_client as set_default_openai_client
from outlast.models.defaults import set_default_openai_key as set_default_openai_key
from outlast.models.defaults import (
    set_default_openai_responses_transport as set_default_openai_responses_transport,
)
from outlast.models.litellm import LitellmModel as LitellmModel
from outlast.models.litellm import LitellmProvider as LitellmProvider
from outlast.models.multi_provider import MultiProvider as MultiProvider
from outlast.models.multi_provider import MultiProviderMap as MultiProviderMap
from outlast.models.openai.chat_completions import ChatCompletionsModel as ChatCompletionsModel
from outlast.models.openai.chat_completions import (
    OpenAIChatCompletionsModel as OpenAIChatCompletionsModel,
)
from outlast.models.openai.connection import OpenAIConnection as OpenAIConnection
from outlast.models.openai.provider import OpenAIProvider as OpenAIProvider
from outlast.models.openai.responses import OpenAIResponsesModel as OpenAIResponsesModel
from outlast.models.openai.responses import ResponsesModel as ResponsesModel
from outlast.models.openai.responses_websocket import (
    OpenAIResponsesWebSocketOptions as OpenAIResponsesWebSocketOptions,
)
from outlast.models.openai.responses_websocket import (
    OpenAIResponsesWSModel as OpenAIResponsesWSModel,
)
