"""The subjects of the comparison: their packages, their programs, and what they cannot do."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

VARIANTS: Final = ("plain", "handoffs", "approvals", "streamed", "replayed")

Store = Literal["temporal", "postgres", "sqlite"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One implementation of the conversation.

    Attributes:
        name: its name in tables.
        environment: the name of its environment; none: it runs in the project's.
        packages: what is installed in its environment, pinned.
        shown: the packages whose versions are reported.
        program: the module of its worker.
        imports: what its users import before they can work.
        store: where its runs are stored.
        cannot: by variant, why it cannot execute it.
        transport: the variant of the program; see `Job.transport`.
    """

    name: str
    program: str
    imports: str
    store: Store
    environment: str = ""
    packages: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    cannot: Mapping[str, str] = field(default_factory=dict[str, str])
    transport: str = "default"


_PROGRAMS: Final = "benchmarks.peers.programs"
_FLOOR: Final = {
    "handoffs": "it has no agents that could hand over",
    "approvals": "it has no approvals",
    "streamed": "it has no streaming",
}
_NOTHING_TO_REPLAY: Final = (
    "it has no cache to go without: it reads what is stored only when a run is resumed"
)

_LANGGRAPH: Final = (
    "langgraph==1.2.22",
    "langchain==1.4.7",
    "langchain-openai==1.7.3",
    "langgraph-checkpoint-postgres==3.2.0",
    "langgraph-checkpoint-sqlite==3.1.2",
    "openai==3.52.0",
    "pydantic==2.14.3",
    "psycopg[binary]==3.3.9",
)
_NOT_ON_LANGGRAPH: Final = {
    "handoffs": "its agent has no handoffs: the application writes them as graph edges",
    "replayed": _NOTHING_TO_REPLAY,
}

SUBJECTS: Final = (
    Subject(
        name="outlast",
        program=f"{_PROGRAMS}.outlast_worker",
        imports="from outlast.worker import AgentWorker",
        store="temporal",
        shown=("outlast", "temporalio", "openai"),
    ),
    Subject(
        name="outlast-activities",
        program=f"{_PROGRAMS}.outlast_worker",
        imports="from outlast.worker import AgentWorker",
        store="temporal",
        shown=("outlast", "temporalio", "openai"),
        transport="activities",
    ),
    Subject(
        name="floor",
        program=f"{_PROGRAMS}.floor_worker",
        imports="import openai, temporalio.client, temporalio.worker",
        store="temporal",
        shown=("temporalio", "openai"),
        cannot=_FLOOR,
    ),
    Subject(
        name="floor-transport",
        program=f"{_PROGRAMS}.floor_worker",
        imports="import openai, temporalio.client, temporalio.worker",
        store="temporal",
        shown=("temporalio", "openai"),
        cannot=_FLOOR,
        transport="worker",
    ),
    Subject(
        name="temporalio-openai-agents",
        environment="temporalio-openai-agents",
        packages=(
            "temporalio-openai-agents==1.1.0",
            "openai-agents==0.22.3",
            "temporalio==1.35.0",
            "openai==3.52.0",
            "pydantic==2.14.3",
        ),
        shown=("temporalio-openai-agents", "openai-agents", "temporalio", "openai"),
        program=f"{_PROGRAMS}.openai_agents_temporal_worker",
        imports="import agents, temporalio.worker, temporalio.openai_agents",
        store="temporal",
    ),
    Subject(
        name="pydantic-ai",
        environment="pydantic-ai",
        packages=(
            "pydantic-ai-slim[openai,temporal]==2.68.0",
            "temporalio==1.35.0",
            "openai==3.52.0",
            "pydantic==2.14.3",
        ),
        shown=("pydantic-ai-slim", "temporalio", "openai"),
        program=f"{_PROGRAMS}.pydantic_ai_temporal_worker",
        imports=(
            "import pydantic_ai.durable_exec.temporal, pydantic_ai.models.openai, "
            "temporalio.client, temporalio.worker"
        ),
        store="temporal",
        cannot={
            "handoffs": (
                "it has no handoffs: its documentation lets the application choose the next agent"
            )
        },
    ),
    Subject(
        name="dbos-openai-agents",
        environment="dbos-openai-agents",
        packages=(
            "dbos-openai-agents==0.3.0",
            "dbos==3.4.0",
            "openai-agents==0.24.0",
            "openai==3.52.0",
            "pydantic==2.14.3",
            "psycopg[binary]==3.3.9",
        ),
        shown=("dbos-openai-agents", "dbos", "openai-agents", "openai"),
        program=f"{_PROGRAMS}.openai_agents_dbos_worker",
        imports="import agents, dbos, dbos_openai_agents",
        store="postgres",
        cannot={
            "streamed": "it raises NotImplementedError: streaming is not supported in durable mode",
            "replayed": _NOTHING_TO_REPLAY,
        },
    ),
    Subject(
        name="langgraph",
        environment="langgraph",
        packages=_LANGGRAPH,
        shown=("langgraph", "langchain", "langchain-openai", "langgraph-checkpoint-postgres"),
        program=f"{_PROGRAMS}.langgraph_worker",
        imports="import langchain.agents, langchain_openai, langgraph.checkpoint.postgres.aio",
        store="postgres",
        cannot=_NOT_ON_LANGGRAPH,
    ),
    Subject(
        name="langgraph-sqlite",
        environment="langgraph",
        packages=_LANGGRAPH,
        shown=("langgraph", "langchain", "langchain-openai", "langgraph-checkpoint-sqlite"),
        program=f"{_PROGRAMS}.langgraph_worker",
        imports="import langchain.agents, langchain_openai, langgraph.checkpoint.sqlite.aio",
        store="sqlite",
        cannot=_NOT_ON_LANGGRAPH,
    ),
)

BY_NAME: Final = {subject.name: subject for subject in SUBJECTS}
