"""The port to realtime models: settings, items, events and the abstract model.

- `config.py`: the settings of a session and of a run
- `items.py`: the items of a conversation
- `model.py`: `RealtimeModel`, its listener and the playback tracker
- `model_events.py`: the events that a model sends
- `model_inputs.py`: the messages that a model accepts
- `audio.py`: the duration of audio in each format
"""
