"""Agent2Agent: agents of others as tools. `outlast serve` is the other end."""

from outlast.edges import lazy

lazy.attach(__name__)
