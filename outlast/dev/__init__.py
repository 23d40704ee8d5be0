"""What a developer's machine needs: a Temporal server, and a model that works without a key.

Owns: starting and stopping them. Must not know: agents, runs, workers, clients of runs.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outlast.dev.data_dir import ServerInfo, default_data_dir, running_server
    from outlast.dev.offline_model import OfflineModel
    from outlast.dev.server import EmbeddedServer
    from outlast.dev.temporal_cli import find_temporal_cli

__all__ = [
    "EmbeddedServer",
    "OfflineModel",
    "ServerInfo",
    "default_data_dir",
    "find_temporal_cli",
    "running_server",
]

_HOMES = {
    "EmbeddedServer": "server",
    "OfflineModel": "offline_model",
    "ServerInfo": "data_dir",
    "default_data_dir": "data_dir",
    "find_temporal_cli": "temporal_cli",
    "running_server": "data_dir",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
