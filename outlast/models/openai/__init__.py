"""Models behind OpenAI's two APIs, at OpenAI and at every compatible server.

- `provider.py`: finds models by name
- `responses.py`: the Responses API
- `chat_completions.py`: the Chat Completions API; `chat_request.py` writes its requests, and
  `chat_reply.py` converts its responses to those of the Responses API
- `connection.py`: HTTP through the `openai` package; `pools.py`: connection pools per event loop
"""
