"""Internal. The definitions of users: agents, tools, handoffs, guardrails, run settings.

Plain Python, without Temporal and without a provider's package. The packages and modules, from the
top; each may import those below it, and import-linter enforces the order:

    approval_points.py         what policies of an operators' file can be about
    agent.py, registry.py      agents, and a worker's registry of agents by name
    agent_tools/               agents as tools of other agents
    config/                    settings of runs and models, handlers of failed runs
    mcp/  tools/               tools of MCP servers; functions and hosted tools
    handoffs/  guardrails/     passing a conversation on; checks of inputs, outputs and tool calls
    hooks.py  prompt.py        callbacks of a run's steps; prompts that the provider stores
    approvals/                 who decides about calls, and until when
    schemas/                   JSON schemas of functions and of final outputs
    context/                   the context of callables, and its storage
    items/                     the items of a run, and the events of its stream
    (other modules)            used by all of them
"""
