from outlast.dev.data_dir import ServerInfo as ServerInfo
from outlast.dev.data_dir import default_data_dir as default_data_dir
from outlast.dev.data_dir import running_server as running_server
from outlast.dev.server import EmbeddedServer as EmbeddedServer
from outlast.dev.temporal_cli import find_temporal_cli as find_temporal_cli
