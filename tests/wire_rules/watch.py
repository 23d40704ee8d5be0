"""Checks every request of a test to a model: what it puts on a wire, and what any model is asked.

A request to a scripted model goes on no wire. It is checked as the body that it would have in both
APIs. Modules are changed when they are imported, so that tests of the loop need not import them.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from tests.wire_rules.table import Api
from tests.wire_rules.validator import faults

MARKER = "breaks_rules"
"""Marks a test that breaks rules on purpose; its arguments are the names of the rules."""

_APIS: Mapping[str, Api] = {
    "/responses": "responses",
    "/responses/compact": "responses",
    "/chat/completions": "chat",
}
_SEPARATOR = {"role": "user", "content": "The next response."}


class Watch:
    """The faults of requests since the last look, and the items that models have made."""

    def __init__(self) -> None:
        self._faults: list[str] = []
        self._made: list[dict[str, Any]] = []

    def take(self) -> list[str]:
        """Return the faults since the last look, each once, and forget what models have made."""
        found = list(dict.fromkeys(self._faults))
        self._faults.clear()
        self.forget()
        return found

    def forget(self) -> None:
        """Forget what models have made: another conversation begins."""
        self._made.clear()

    def sent(self, path: str, body: dict[str, Any]) -> None:
        """Check the body of a request."""
        if (api := _APIS.get(path)) is not None:
            self._check(body, api, f"POST {path}")

    def asked(self, request: Any) -> None:
        """Check the body that a request to any model would have in both APIs."""
        chat = import_module("outlast.models.openai.chat_request")
        responses = import_module("outlast.models.openai.responses")
        try:
            body = chat.chat_body(request, "m")
        except chat.UnsupportedItemError:
            body = None
        if body is not None:
            self._check(body, "chat", "as Chat Completions")
        self._check(responses.responses_body(request, "m"), "responses", "as Responses")

    def made(self, output: Sequence[dict[str, Any]]) -> None:
        """Remember the items of a response, which tell what reasoning belongs to what."""
        self._made += (_SEPARATOR, *output)

    def _check(self, body: dict[str, Any], api: Api, how: str) -> None:
        self._faults += (f"{how}: {fault}" for fault in faults(body, api, history=self._made))


WATCH = Watch()


def _watch_connection(owner: Any) -> None:
    post, stream = owner.post, owner.stream

    @wraps(post)
    def watched_post(self: Any, target: Any, body: Any, settings: Any) -> Any:
        WATCH.sent(target.path, body)
        return post(self, target, body, settings)

    @wraps(stream)
    def watched_stream(self: Any, target: Any, body: Any, settings: Any, **how: Any) -> Any:
        WATCH.sent(target.path, body)
        return stream(self, target, body, settings, **how)

    owner.post, owner.stream = watched_post, watched_stream


def _watch_server(module: Any) -> None:
    """Watch what workers in other processes send to the server of the demo."""
    begin = module.ResponsesServer.__init__

    @wraps(begin)
    def watched(self: Any, answer: Any, **options: Any) -> None:
        def watched_answer(body: dict[str, Any]) -> Any:
            WATCH.sent("/responses", body)
            return answer(body)

        begin(self, watched_answer, **options)

    module.ResponsesServer.__init__ = watched


def _watch_answers(module: Any) -> None:
    answer = module._answer

    @wraps(answer)
    async def watched(model: Any, request: Any, *rest: Any) -> Any:
        WATCH.asked(request)
        response = await answer(model, request, *rest)
        WATCH.made(response.output)
        return response

    module._answer = watched


_CHANGES: dict[str, Callable[[Any], None]] = {
    "outlast.activities.model.response": _watch_answers,
    "outlast.testing.demo.responses_server": _watch_server,
    "outlast.models.litellm": lambda module: _watch_connection(module.LitellmConnection),
    "outlast.models.openai.connection": lambda module: _watch_connection(module.OpenAIConnection),
    "outlast.models.openai.socket_connection": lambda module: _watch_connection(
        module.SocketConnection
    ),
}


class _Changing(Loader):
    def __init__(self, name: str, loader: Loader) -> None:
        self._name = name
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _CHANGES[self._name](module)


class _Finder(MetaPathFinder):
    def __init__(self) -> None:
        self._looking = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _CHANGES or self._looking:
            return None
        self._looking = True
        try:
            spec = find_spec(fullname)
        finally:
            self._looking = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Changing(fullname, spec.loader)
        return spec


def install() -> None:
    """Watch the modules that are imported from now on, and those that are there already."""
    for name, change in _CHANGES.items():
        if name in sys.modules:
            change(sys.modules[name])
    sys.meta_path.insert(0, _Finder())
