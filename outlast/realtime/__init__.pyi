from outlast.realtime.agents import RealtimeAgent as RealtimeAgent
from outlast.realtime.agents import RealtimeAgentHooks as RealtimeAgentHooks
from outlast.realtime.agents import RealtimeRunHooks as RealtimeRunHooks
from outlast.realtime.agents import realtime_handoff as realtime_handoff
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
from outlast.realtime.openai.model import OpenAIRealtimeSIPModel as OpenAIRealtimeSIPModel
from outlast.realtime.openai.model import (
    OpenAIRealtimeWebSocketModel as OpenAIRealtimeWebSocketModel,
)
from outlast.realtime.openai.model import get_api_key as get_api_key
from outlast.realtime.openai.settings import DEFAULT_MODEL_SETTINGS as DEFAULT_MODEL_SETTINGS
from outlast.realtime.openai.settings import DEFAULT_REALTIME_MODEL as DEFAULT_REALTIME_MODEL
from outlast.realtime.openai.settings import (
    to_realtime_audio_format as to_realtime_audio_format,
)
from outlast.realtime.openai.socket import TransportConfig as TransportConfig
from outlast.realtime.port.config import RealtimeAudioConfig as RealtimeAudioConfig
from outlast.realtime.port.config import RealtimeAudioFormat as RealtimeAudioFormat
from outlast.realtime.port.config import RealtimeAudioInputConfig as RealtimeAudioInputConfig
from outlast.realtime.port.config import RealtimeAudioOutputConfig as RealtimeAudioOutputConfig
from outlast.realtime.port.config import RealtimeClientMessage as RealtimeClientMessage
from outlast.realtime.port.config import RealtimeCustomVoice as RealtimeCustomVoice
from outlast.realtime.port.config import RealtimeGuardrailsSettings as RealtimeGuardrailsSettings
from outlast.realtime.port.config import (
    RealtimeInputAudioNoiseReductionConfig as RealtimeInputAudioNoiseReductionConfig,
)
from outlast.realtime.port.config import (
    RealtimeInputAudioTranscriptionConfig as RealtimeInputAudioTranscriptionConfig,
)
from outlast.realtime.port.config import RealtimeModelName as RealtimeModelName
from outlast.realtime.port.config import RealtimeModelTracingConfig as RealtimeModelTracingConfig
from outlast.realtime.port.config import RealtimeReasoningConfig as RealtimeReasoningConfig
from outlast.realtime.port.config import RealtimeReasoningEffort as RealtimeReasoningEffort
from outlast.realtime.port.config import RealtimeRunConfig as RealtimeRunConfig
from outlast.realtime.port.config import (
    RealtimeSessionModelSettings as RealtimeSessionModelSettings,
)
from outlast.realtime.port.config import RealtimeToolExecutionConfig as RealtimeToolExecutionConfig
from outlast.realtime.port.config import RealtimeTurnDetectionConfig as RealtimeTurnDetectionConfig
from outlast.realtime.port.config import RealtimeUserInput as RealtimeUserInput
from outlast.realtime.port.config import RealtimeUserInputImage as RealtimeUserInputImage
from outlast.realtime.port.config import RealtimeUserInputMessage as RealtimeUserInputMessage
from outlast.realtime.port.config import RealtimeUserInputText as RealtimeUserInputText
from outlast.realtime.port.config import RealtimeVoice as RealtimeVoice
from outlast.realtime.port.items import AssistantAudio as AssistantAudio
from outlast.realtime.port.items import AssistantMessageItem as AssistantMessageItem
from outlast.realtime.port.items import AssistantText as AssistantText
from outlast.realtime.port.items import InputAudio as InputAudio
from outlast.realtime.port.items import InputImage as InputImage
from outlast.realtime.port.items import InputText as InputText
from outlast.realtime.port.items import RealtimeItem as RealtimeItem
from outlast.realtime.port.items import RealtimeMessageItem as RealtimeMessageItem
from outlast.realtime.port.items import RealtimeResponse as RealtimeResponse
from outlast.realtime.port.items import RealtimeToolCallItem as RealtimeToolCallItem
from outlast.realtime.port.items import SystemMessageItem as SystemMessageItem
from outlast.realtime.port.items import UserMessageItem as UserMessageItem
from outlast.realtime.port.model import RealtimeModel as RealtimeModel
from outlast.realtime.port.model import RealtimeModelConfig as RealtimeModelConfig
from outlast.realtime.port.model import RealtimeModelListener as RealtimeModelListener
from outlast.realtime.port.model import RealtimePlaybackState as RealtimePlaybackState
from outlast.realtime.port.model import RealtimePlaybackTracker as RealtimePlaybackTracker
from outlast.realtime.port.model_events import RealtimeConnectionStatus as RealtimeConnectionStatus
from outlast.realtime.port.model_events import (
    RealtimeModelAudioDoneEvent as RealtimeModelAudioDoneEvent,
)
from outlast.realtime.port.model_events import RealtimeModelAudioEvent as RealtimeModelAudioEvent
from outlast.realtime.port.model_events import (
    RealtimeModelAudioInterruptedEvent as RealtimeModelAudioInterruptedEvent,
)
from outlast.realtime.port.model_events import (
    RealtimeModelCachedTokensDetails as RealtimeModelCachedTokensDetails,
)
from outlast.realtime.port.model_events import (
    RealtimeModelConnectionStatusEvent as RealtimeModelConnectionStatusEvent,
)
from outlast.realtime.port.model_events import (
    RealtimeModelEndOfStreamEvent as RealtimeModelEndOfStreamEvent,
)
from outlast.realtime.port.model_events import RealtimeModelErrorEvent as RealtimeModelErrorEvent
from outlast.realtime.port.model_events import RealtimeModelEvent as RealtimeModelEvent
from outlast.realtime.port.model_events import (
    RealtimeModelExceptionEvent as RealtimeModelExceptionEvent,
)
from outlast.realtime.port.model_events import (
    RealtimeModelInputAudioTimeoutTriggeredEvent as RealtimeModelInputAudioTimeoutTriggeredEvent,
)
from outlast.realtime.port.model_events import (
    RealtimeModelInputAudioTranscriptionCompletedEvent as RealtimeModelInputAudioTranscriptionCompletedEvent,
)
from outlast.realtime.port.model_events import (
    RealtimeModelInputTokensDetails as RealtimeModelInputTokensDetails,
)
from outlast.realtime.port.model_events import (
    RealtimeModelItemDeletedEvent as RealtimeModelItemDeletedEvent,
)
from outlast.realtime.port.model_events import (
    RealtimeModelItemUpdatedEvent as RealtimeModelItemUpdatedEvent,
)
from outlast.realtime.port.model_events import RealtimeModelOtherEvent as RealtimeModelOtherEvent
from outlast.realtime.port.model_events import (
    RealtimeModelOutputTextDeltaEvent as RealtimeModelOutputTextDeltaEvent,
)
from outlast.realtime.port.model_events import (
    RealtimeModelOutputTokensDetails as RealtimeModelOutputTokensDetails,
)
from outlast.realtime.port.model_events import (
    RealtimeModelRawServerEvent as RealtimeModelRawServerEvent,
)
from outlast.realtime.port.model_events import (
    RealtimeModelToolCallEvent as RealtimeModelToolCallEvent,
)
from outlast.realtime.port.model_events import (
    RealtimeModelTranscriptDeltaEvent as RealtimeModelTranscriptDeltaEvent,
)
from outlast.realtime.port.model_events import (
    RealtimeModelTurnEndedEvent as RealtimeModelTurnEndedEvent,
)
from outlast.realtime.port.model_events import (
    RealtimeModelTurnStartedEvent as RealtimeModelTurnStartedEvent,
)
from outlast.realtime.port.model_events import RealtimeModelUsageEvent as RealtimeModelUsageEvent
from outlast.realtime.port.model_inputs import (
    RealtimeModelInputImageContent as RealtimeModelInputImageContent,
)
from outlast.realtime.port.model_inputs import (
    RealtimeModelInputTextContent as RealtimeModelInputTextContent,
)
from outlast.realtime.port.model_inputs import (
    RealtimeModelRawClientMessage as RealtimeModelRawClientMessage,
)
from outlast.realtime.port.model_inputs import RealtimeModelSendAudio as RealtimeModelSendAudio
from outlast.realtime.port.model_inputs import RealtimeModelSendEvent as RealtimeModelSendEvent
from outlast.realtime.port.model_inputs import (
    RealtimeModelSendInterrupt as RealtimeModelSendInterrupt,
)
from outlast.realtime.port.model_inputs import (
    RealtimeModelSendRawMessage as RealtimeModelSendRawMessage,
)
from outlast.realtime.port.model_inputs import (
    RealtimeModelSendSessionUpdate as RealtimeModelSendSessionUpdate,
)
from outlast.realtime.port.model_inputs import (
    RealtimeModelSendToolOutput as RealtimeModelSendToolOutput,
)
from outlast.realtime.port.model_inputs import (
    RealtimeModelSendUserInput as RealtimeModelSendUserInput,
)
from outlast.realtime.port.model_inputs import RealtimeModelUserInput as RealtimeModelUserInput
from outlast.realtime.port.model_inputs import (
    RealtimeModelUserInputMessage as RealtimeModelUserInputMessage,
)
from outlast.realtime.runner import RealtimeRunner as RealtimeRunner
from outlast.realtime.session import RealtimeSession as RealtimeSession
