"""Internal. OpenAI's Realtime API over WebSocket."""
