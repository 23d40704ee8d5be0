"""Where conversations are remembered between runs: adapters behind `outlast.ports.session`."""
