"""Says what is wrong with a request to a model, by the published rules of its API."""

from collections.abc import Iterable, Sequence
from typing import Any

from tests.wire_rules.chat import check_chat
from tests.wire_rules.found import Found, check_numbers, check_texts
from tests.wire_rules.responses import check_responses
from tests.wire_rules.table import EVERY_SERVER, Api, Server

USUAL_SERVERS: frozenset[Server] = EVERY_SERVER - {"mistral"}
"""The servers whose rules every request keeps.

Mistral also wants an assistant's message between an output and a user's message, which a run's history
may lack.
"""


def faults(
    request: dict[str, Any],
    api: Api,
    *,
    history: Sequence[dict[str, Any]] = (),
    servers: Iterable[Server] = USUAL_SERVERS,
) -> list[str]:
    """Return what is wrong with a request, each as `rule: place: detail`.

    Args:
        request: the body of the request, as JSON.
        api: the API to which it is sent.
        history: the items as the provider made them, which tell what reasoning belongs to what.
        servers: the servers whose rules count.
    """
    found = Found(api, servers)
    check_texts(found, request)
    check_numbers(found, request)
    named = isinstance(request.get("model"), str) and request["model"]
    found.check(named or request.get("prompt") is not None, "model-named", "model")
    if api == "chat":
        check_chat(found, request)
    else:
        check_responses(found, request, history)
    return found.faults
