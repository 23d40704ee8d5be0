"""Internal. Models behind OpenAI's two APIs, at OpenAI and at every compatible server.

- `provider.py`: finds models by name
- `responses.py`, `chat_completions.py`: the two APIs; `chat_request.py` and `chat_reply.py` convert
  between them
- `socket_connection.py`, `sockets.py`: the Responses API over WebSocket
- `connection.py`: HTTP, by `http_session.py`, which uses aiohttp, or by the `openai` package
"""
