"""Internal. Models behind OpenAI's two APIs, at OpenAI and at every compatible server.

- `provider.py`: finds models by name
- `responses.py`: the Responses API
- `chat_completions.py`: the Chat Completions API; `chat_request.py` writes its requests, and
  `chat_reply.py` converts its responses to those of the Responses API
- `responses_websocket.py`: the SDK's names for the Responses API over WebSocket;
  `socket_connection.py` sends and receives, and `sockets.py` keeps the sockets open
- `connection.py`: HTTP, by `http_session.py`, which uses aiohttp, or by the `openai` package;
  `body_encoding.py` and `item_encoding.py` write the JSON, and `server_events.py` splits streams
"""
