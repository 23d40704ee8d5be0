from outlast.agents.realtime import RealtimeAgent as RealtimeAgent
from outlast.agents.realtime import RealtimeAgentHooks as RealtimeAgentHooks
from outlast.agents.realtime import RealtimeRunHooks as RealtimeRunHooks
from outlast.agents.realtime import realtime_handoff as realtime_handoff
from outlast.models.openai.realtime import OpenAIRealtimeSIPModel as OpenAIRealtimeSIPModel
from outlast.models.openai.realtime import (
    OpenAIRealtimeWebSocketModel as OpenAIRealtimeWebSocketModel,
)
from outlast.models.openai.realtime import get_api_key as get_api_key
from outlast.models.openai.realtime_settings import DEFAULT_MODEL_SETTINGS as DEFAULT_MODEL_SETTINGS
from outlast.models.openai.realtime_settings import DEFAULT_REALTIME_MODEL as DEFAULT_REALTIME_MODEL
from outlast.models.openai.realtime_settings import (
    to_realtime_audio_format as to_realtime_audio_format,
)
from outlast.models.openai.realtime_socket import TransportConfig as TransportConfig
from outlast.ports.realtime.config import RealtimeAudioConfig as RealtimeAudioConfig
from outlast.ports.realtime.config import RealtimeAudioFormat as RealtimeAudioFormat
from outlast.ports.realtime.config import RealtimeAudioInputConfig as RealtimeAudioInputConfig
from outlast.ports.realtime.config import RealtimeAudioOutputConfig as RealtimeAudioOutputConfig
from outlast.ports.realtime.config import RealtimeClientMessage as RealtimeClientMessage
from outlast.ports.realtime.config import RealtimeCustomVoice as RealtimeCustomVoice
from outlast.ports.realtime.config import RealtimeGuardrailsSettings as RealtimeGuardrailsSettings
from outlast.ports.realtime.config import (
    RealtimeInputAudioNoiseReductionConfig as RealtimeInputAudioNoiseReductionConfig,
)
from outlast.ports.realtime.config import (
    RealtimeInputAudioTranscriptionConfig as RealtimeInputAudioTranscriptionConfig,
)
from outlast.ports.realtime.config import RealtimeModelName as RealtimeModelName
from outlast.ports.realtime.config import RealtimeModelTracingConfig as RealtimeModelTracingConfig
from outlast.ports.realtime.config import RealtimeReasoningConfig as RealtimeReasoningConfig
from outlast.ports.realtime.config import RealtimeReasoningEffort as RealtimeReasoningEffort
from outlast.ports.realtime.config import RealtimeRunConfig as RealtimeRunConfig
from outlast.ports.realtime.config import (
    RealtimeSessionModelSettings as RealtimeSessionModelSettings,
)
from outlast.ports.realtime.config import RealtimeToolExecutionConfig as RealtimeToolExecutionConfig
from outlast.ports.realtime.config import RealtimeTurnDetectionConfig as RealtimeTurnDetectionConfig
from outlast.ports.realtime.config import RealtimeUserInput as RealtimeUserInput
from outlast.ports.realtime.config import RealtimeUserInputImage as RealtimeUserInputImage
from outlast.ports.realtime.config import RealtimeUserInputMessage as RealtimeUserInputMessage
from outlast.ports.realtime.config import RealtimeUserInputText as RealtimeUserInputText
from outlast.ports.realtime.config import RealtimeVoice as RealtimeVoice
from outlast.ports.realtime.items import AssistantAudio as AssistantAudio
from outlast.ports.realtime.items import AssistantMessageItem as AssistantMessageItem
from outlast.ports.realtime.items import AssistantText as AssistantText
from outlast.ports.realtime.items import InputAudio as InputAudio
from outlast.ports.realtime.items import InputImage as InputImage
from outlast.ports.realtime.items import InputText as InputText
from outlast.ports.realtime.items import RealtimeItem as RealtimeItem
from outlast.ports.realtime.items import RealtimeMessageItem as RealtimeMessageItem
from outlast.ports.realtime.items import RealtimeResponse as RealtimeResponse
from outlast.ports.realtime.items import RealtimeToolCallItem as RealtimeToolCallItem
from outlast.ports.realtime.items import SystemMessageItem as SystemMessageItem
from outlast.ports.realtime.items import UserMessageItem as UserMessageItem
from outlast.ports.realtime.model import RealtimeModel as RealtimeModel
from outlast.ports.realtime.model import RealtimeModelConfig as RealtimeModelConfig
from outlast.ports.realtime.model import RealtimeModelListener as RealtimeModelListener
from outlast.ports.realtime.model import RealtimePlaybackState as RealtimePlaybackState
from outlast.ports.realtime.model import RealtimePlaybackTracker as RealtimePlaybackTracker
from outlast.ports.realtime.model_events import RealtimeConnectionStatus as RealtimeConnectionStatus
from outlast.ports.realtime.model_events import (
    RealtimeModelAudioDoneEvent as RealtimeModelAudioDoneEvent,
)
from outlast.ports.realtime.model_events import RealtimeModelAudioEvent as RealtimeModelAudioEvent
from outlast.ports.realtime.model_events import (
    RealtimeModelAudioInterruptedEvent as RealtimeModelAudioInterruptedEvent,
)
from outlast.ports.realtime.model_events import (
    RealtimeModelCachedTokensDetails as RealtimeModelCachedTokensDetails,
)
from outlast.ports.realtime.model_events import (
    RealtimeModelConnectionStatusEvent as RealtimeModelConnectionStatusEvent,
)
from outlast.ports.realtime.model_events import (
    RealtimeModelEndOfStreamEvent as RealtimeModelEndOfStreamEvent,
)
from outlast.ports.realtime.model_events import RealtimeModelErrorEvent as RealtimeModelErrorEvent
from outlast.ports.realtime.model_events import RealtimeModelEvent as RealtimeModelEvent
from outlast.ports.realtime.model_events import (
    RealtimeModelExceptionEvent as RealtimeModelExceptionEvent,
)
from outlast.ports.realtime.model_events import (
    RealtimeModelInputAudioTimeoutTriggeredEvent as RealtimeModelInputAudioTimeoutTriggeredEvent,
)
from outlast.ports.realtime.model_events import (
    RealtimeModelInputAudioTranscriptionCompletedEvent as RealtimeModelInputAudioTranscriptionCompletedEvent,
)
from outlast.ports.realtime.model_events import (
    RealtimeModelInputTokensDetails as RealtimeModelInputTokensDetails,
)
from outlast.ports.realtime.model_events import (
    RealtimeModelItemDeletedEvent as RealtimeModelItemDeletedEvent,
)
from outlast.ports.realtime.model_events import (
    RealtimeModelItemUpdatedEvent as RealtimeModelItemUpdatedEvent,
)
from outlast.ports.realtime.model_events import RealtimeModelOtherEvent as RealtimeModelOtherEvent
from outlast.ports.realtime.model_events import (
    RealtimeModelOutputTextDeltaEvent as RealtimeModelOutputTextDeltaEvent,
)
from outlast.ports.realtime.model_events import (
    RealtimeModelOutputTokensDetails as RealtimeModelOutputTokensDetails,
)
from outlast.ports.realtime.model_events import (
    RealtimeModelRawServerEvent as RealtimeModelRawServerEvent,
)
from outlast.ports.realtime.model_events import (
    RealtimeModelToolCallEvent as RealtimeModelToolCallEvent,
)
from outlast.ports.realtime.model_events import (
    RealtimeModelTranscriptDeltaEvent as RealtimeModelTranscriptDeltaEvent,
)
from outlast.ports.realtime.model_events import (
    RealtimeModelTurnEndedEvent as RealtimeModelTurnEndedEvent,
)
from outlast.ports.realtime.model_events import (
    RealtimeModelTurnStartedEvent as RealtimeModelTurnStartedEvent,
)
from outlast.ports.realtime.model_events import RealtimeModelUsageEvent as RealtimeModelUsageEvent
from outlast.ports.realtime.model_inputs import (
    RealtimeModelInputImageContent as RealtimeModelInputImageContent,
)
from outlast.ports.realtime.model_inputs import (
    RealtimeModelInputTextContent as RealtimeModelInputTextContent,
)
from outlast.ports.realtime.model_inputs import (
    RealtimeModelRawClientMessage as RealtimeModelRawClientMessage,
)
from outlast.ports.realtime.model_inputs import RealtimeModelSendAudio as RealtimeModelSendAudio
from outlast.ports.realtime.model_inputs import RealtimeModelSendEvent as RealtimeModelSendEvent
from outlast.ports.realtime.model_inputs import (
    RealtimeModelSendInterrupt as RealtimeModelSendInterrupt,
)
from outlast.ports.realtime.model_inputs import (
    RealtimeModelSendRawMessage as RealtimeModelSendRawMessage,
)
from outlast.ports.realtime.model_inputs import (
    RealtimeModelSendSessionUpdate as RealtimeModelSendSessionUpdate,
)
from outlast.ports.realtime.model_inputs import (
    RealtimeModelSendToolOutput as RealtimeModelSendToolOutput,
)
from outlast.ports.realtime.model_inputs import (
    RealtimeModelSendUserInput as RealtimeModelSendUserInput,
)
from outlast.ports.realtime.model_inputs import RealtimeModelUserInput as RealtimeModelUserInput
from outlast.ports.realtime.model_inputs import (
    RealtimeModelUserInputMessage as RealtimeModelUserInputMessage,
)
from outlast.realtime.events import RealtimeAgentEndEvent as RealtimeAgentEndEvent
from outlast.realtime.events import RealtimeAgentStartEvent as RealtimeAgentStartEvent
from outlast.realtime.events import RealtimeAudio as RealtimeAudio
from outlast.realtime.events import RealtimeAudioEnd as RealtimeAudioEnd
from outlast.realtime.events import RealtimeAudioInterrupted as RealtimeAudioInterrupted
from outlast.realtime.events import RealtimeError as RealtimeError
from outlast.realtime.events import RealtimeEventInfo as RealtimeEventInfo
from outlast.realtime.events import RealtimeGuardrailTripped as RealtimeGuardrailTripped
from outlast.realtime.events import RealtimeHandoffEvent as RealtimeHandoffEvent
from outlast.realtime.events import RealtimeHistoryAdded as RealtimeHistoryAdded
from outlast.realtime.events import RealtimeHistoryUpdated as RealtimeHistoryUpdated
from outlast.realtime.events import (
    RealtimeInputAudioTimeoutTriggered as RealtimeInputAudioTimeoutTriggered,
)
from outlast.realtime.events import RealtimeRawModelEvent as RealtimeRawModelEvent
from outlast.realtime.events import RealtimeReconnected as RealtimeReconnected
from outlast.realtime.events import RealtimeSessionEvent as RealtimeSessionEvent
from outlast.realtime.events import RealtimeToolApprovalRequired as RealtimeToolApprovalRequired
from outlast.realtime.events import RealtimeToolEnd as RealtimeToolEnd
from outlast.realtime.events import RealtimeToolStart as RealtimeToolStart
from outlast.realtime.runner import RealtimeRunner as RealtimeRunner
from outlast.realtime.session import RealtimeSession as RealtimeSession
