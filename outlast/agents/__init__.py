"""What users define: agents, tools, handoffs, guardrails, and the settings of runs.

Plain Python, without Temporal and without a provider's package. The rooms, from the top; each may
import those below it, and import-linter holds the order:

    agent.py, registry.py      an agent, and the agents that a worker knows by name
    agent_tools/               agents that work as tools of other agents
    config/                    settings of runs and models, what a failed run leads to
    machine/  mcp/             tools that work on a machine; tools of MCP servers
    tools/                     functions and hosted tools, and what their results lead to
    handoffs/  guardrails/     passing a conversation on; checks of inputs, outputs and tool calls
    hooks.py  prompt.py        callbacks of a run's steps; prompts that are stored at the provider
    schemas/                   JSON schemas of functions and of final outputs
    context/                   what callables are given, and how it is stored
    items/                     the items of a run, and the events of its stream
    references.py callables.py checks.py errors.py durations.py usage.py threads.py logs.py
                               for all of them
"""
