"""Sessions that OpenAI's compaction keeps short."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from outlast.agents.callables import check_callable
from outlast.agents.checks import InvalidValue, check_choice, check_count
from outlast.agents.errors import UserError
from outlast.agents.logs import get_logger
from outlast.loop.values import JsonObject
from outlast.models.openai.connection import OpenAIConnection
from outlast.models.openai.conversations_session import OpenAIConversationsSession
from outlast.models.openai.responses import compacted_items, supported_items
from outlast.ports.session import OpenAIResponsesCompactionArgs, Session
from outlast.sessions.wrapped import EVERYTHING, WrappedSession, replace_items

if TYPE_CHECKING:
    from openai import AsyncOpenAI

logger: Final = get_logger(__name__)

OpenAIResponsesCompactionMode: TypeAlias = Literal["previous_response_id", "input", "auto"]
"""What a compaction reads: the provider's copy of a response, or the session's items."""

DEFAULT_COMPACTION_THRESHOLD = 10
"""The number of items besides questions from which on a session is compacted."""

_PATH = "/responses/compact"


def select_compaction_candidate_items(items: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the items that are neither questions nor compactions."""
    return [
        item for item in items if item.get("role") != "user" and item.get("type") != "compaction"
    ]


def default_should_trigger_compaction(context: dict[str, Any]) -> bool:
    """Whether a session has enough items for a compaction."""
    return len(context["compaction_candidate_items"]) >= DEFAULT_COMPACTION_THRESHOLD


class OpenAIResponsesCompactionSession(WrappedSession):
    """A session that OpenAI's compaction keeps short.

    It stores its items in another session. `/responses/compact` replaces a long history by a
    shorter one: the worker compacts after an answer is saved, if `should_trigger_compaction` says
    so. Items that were added in the meantime stay. A compaction that fails is logged, and the
    history stays as it is.

    Attributes:
        model: the model that compacts.
        compaction_mode: what a compaction reads.
        should_trigger_compaction: decides about each compaction.
        max_rollback_items: how many items a session may have for a compaction.
    """

    def __init__(
        self,
        session_id: str,
        underlying_session: Session,
        *,
        client: "AsyncOpenAI | None" = None,
        model: str = "gpt-4.1",
        compaction_mode: OpenAIResponsesCompactionMode = "auto",
        should_trigger_compaction: Callable[[dict[str, Any]], bool] | None = None,
        max_rollback_items: int | None = None,
    ) -> None:
        """Wrap a session.

        Args:
            session_id: the id of the conversation.
            underlying_session: the session that stores the items.
            client: the client to use, which the caller closes; None means the default client, else
                one with the key of the environment.
            model: the OpenAI model that compacts.
            compaction_mode: `input` sends the session's items, `previous_response_id` refers to the
                provider's copy of a response. `auto` refers to a response that `run_compaction` is
                called with, and else sends the items.
            should_trigger_compaction: called with a dict of `response_id`, `compaction_mode`,
                `compaction_candidate_items` and `session_items`; default: there are ten candidates.
            max_rollback_items: a session with more items is not compacted; None for no limit.

        Raises:
            UserError: an argument is invalid.
        """
        if isinstance(underlying_session, OpenAIConversationsSession):
            raise InvalidValue(
                "OpenAIResponsesCompactionSession cannot wrap OpenAIConversationsSession, whose "
                "history the provider keeps. Wrap a session that stores items, such as "
                "SQLiteSession."
            )
        if not is_openai_model_name(model):
            raise InvalidValue(
                f"Unsupported model {model!r} for OpenAIResponsesCompactionSession: it must be the "
                "name of an OpenAI model, such as 'gpt-4.1'."
            )
        choices = ("previous_response_id", "input", "auto")
        place = "OpenAIResponsesCompactionSession(compaction_mode=...)"
        check_choice(place, compaction_mode, choices)
        if max_rollback_items is not None:
            place = "OpenAIResponsesCompactionSession: max_rollback_items"
            check_count(place, max_rollback_items, expected="positive")
        super().__init__(session_id, underlying_session)
        decides = should_trigger_compaction
        if decides is None:
            decides = default_should_trigger_compaction
        check_callable(decides, ("context",), what="should_trigger_compaction")
        self.model = model
        self.compaction_mode: OpenAIResponsesCompactionMode = compaction_mode
        self.should_trigger_compaction = decides
        self.max_rollback_items = max_rollback_items
        self._response_id: str | None = None
        self._is_stored = True  # the response, by the provider
        self._connection = OpenAIConnection(client=client)

    async def run_compaction(self, args: OpenAIResponsesCompactionArgs | None = None) -> None:
        """Replace the history by a shorter one, if `should_trigger_compaction` says so.

        Args:
            args: `force` compacts in any case; `response_id` is the last response, for the mode
                `previous_response_id`, and `store` whether the provider stored it.

        Raises:
            UserError: the mode needs a response id, or the session has more items than
                `max_rollback_items`.
            openai.OpenAIError: the provider refused or failed.
        """
        args = args or {}
        if response_id := args.get("response_id"):
            self._response_id = response_id
            self._is_stored = args.get("store") is not False
        mode = self._mode(args)
        items: list[JsonObject] = await self.underlying_session.get_items(limit=EVERYTHING)
        if self.max_rollback_items is not None and len(items) > self.max_rollback_items:
            raise UserError(
                f"The session {self.session_id!r} has {len(items)} items, more than "
                f"max_rollback_items={self.max_rollback_items}, and is not compacted."
            )
        situation: dict[str, Any] = {
            "response_id": self._response_id,
            "compaction_mode": mode,
            "compaction_candidate_items": select_compaction_candidate_items(items),
            "session_items": items,
        }
        if not args.get("force") and not (items and self.should_trigger_compaction(situation)):
            return
        compacted = await self._compact(mode, items)
        if not compacted:
            why = "a compaction returned no items"
        elif await replace_items(self.underlying_session, items, compacted):
            return
        else:
            why = "it was changed while it was compacted"
        logger.warning("The session %r stays as it is: %s.", self.session_id, why)

    def _mode(
        self, args: OpenAIResponsesCompactionArgs
    ) -> Literal["previous_response_id", "input"]:
        mode: OpenAIResponsesCompactionMode = args.get("compaction_mode") or self.compaction_mode
        if mode == "auto":
            is_kept = self._response_id and self._is_stored and args.get("store") is not False
            return "previous_response_id" if is_kept else "input"
        if mode == "previous_response_id" and self._response_id is None:
            raise InvalidValue(
                "A previous_response_id compaction needs a response: "
                "run_compaction({'response_id': ...}). Runs compact in the modes auto and input."
            )
        return mode

    async def _compact(self, mode: str, items: Sequence[JsonObject]) -> list[JsonObject]:
        client: Any = await self._connection.client(_PATH)
        source: dict[str, Any] = {"previous_response_id": self._response_id}
        if mode == "input":
            source = {"input": supported_items(items)}
        answer = await client.responses.compact(model=self.model, **source)
        return compacted_items([_as_json(item) for item in answer.output])


def _as_json(item: Any) -> JsonObject:
    if isinstance(item, dict):
        return cast("JsonObject", item)
    # Its user messages are no output, and pydantic would warn.
    return item.model_dump(exclude_unset=True, warnings=False)


def is_openai_model_name(model: object) -> bool:
    """Whether a name is that of an OpenAI model, such as `gpt-4.1` or `o3`."""
    if not isinstance(model, str):
        return False
    name = model.strip().rpartition("/")[2].removeprefix("ft:")
    return name.startswith("gpt-") or (name[:1] == "o" and name[1:2].isdigit())
