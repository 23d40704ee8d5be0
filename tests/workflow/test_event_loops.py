"""Several event loops: each question is one request, however the loops come and go."""

from collections import Counter
from pathlib import Path

import pytest

from tests.servers import TemporalServer
from tests.unit.models.chat_api import completion
from tests.unit.models.model_server import ModelServer
from tests.unit.models.responses_api import message, response
from tests.workflow.test_scripts import output_of

RUNS = 3

WAYS = {
    "responses": "lambda: Ask(OpenAIResponsesModel('responses', client()))",
    "chat": "lambda: Ask(OpenAIChatCompletionsModel('chat', client()))",
    "default": "lambda: set_default_openai_client(client()) or Ask('default')",
    "provider": "lambda: Ask('provider', OpenAIProvider(openai_client=client()))",
    "own_pool": "lambda: Ask(OpenAIResponsesModel('own_pool', client(own_pool())))",
    "no_client": "lambda: Ask('no_client', OpenAIProvider(api_key='k', base_url=url))",
}

MAKE = """
import sys, threading
import httpx2
from openai import AsyncOpenAI
from outlast import (
    OpenAIChatCompletionsModel, OpenAIProvider, OpenAIResponsesModel, RunConfig,
    set_default_openai_client,
)

url = {url!r}

def client(http_client=None):
    return AsyncOpenAI(base_url=url, api_key="k", http_client=http_client)

def own_pool():
    return httpx2.AsyncClient(headers={{"x-desk": "7"}})

class Ask:
    def __init__(self, model, provider=None):
        self.agent = Agent(name="Clerk", model=model)
        self.config = RunConfig(model_provider=provider)

    async def here(self):
        result = await Runner.run(self.agent, "question", run_config=self.config)
        sys.stdout.write(result.final_output + "\\n")

    def sync(self):
        result = Runner.run_sync(self.agent, "question", run_config=self.config)
        sys.stdout.write(result.final_output + "\\n")  # in one piece, unlike print

def in_threads(call):
    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

for make in ({ways}):
    ask = make()
"""

LOOPS = {
    "run_sync": "for _ in range(3): ask.sync()",
    "threads": "in_threads(lambda: asyncio.run(ask.here()))",
}


@pytest.mark.parametrize("loops", ["run_sync", "threads"])
async def test_a_question_is_one_request_in_whichever_loop_it_is_asked(
    loops: str, tmp_path: Path, server: TemporalServer
):
    # A program's own client stays in one loop; a connection that outlast opens may be in any.
    ways = WAYS if loops == "run_sync" else {"no_client": WAYS["no_client"]}
    async with ModelServer() as models:
        for way in ways:
            for _ in range(RUNS):
                is_chat = way == "chat"
                yes = completion({"content": "Yes."}) if is_chat else response(message("Yes."))
                models.answer(yes)
        script = (
            MAKE.format(url=models.base_url, ways=", ".join(ways.values()) + ",")
            + f"    {LOOPS[loops]}"
        )
        answers = await output_of(script, tmp_path, address=server.address)
        assert Counter(one.body["model"] for one in models.requests) == dict.fromkeys(ways, RUNS)
        assert answers == ["Yes."] * RUNS * len(ways)
        desks = {
            one.headers.get("x-desk") for one in models.requests if one.body["model"] == "own_pool"
        }
        assert desks == ({"7"} if "own_pool" in ways else set()), "the client's own headers stay"
