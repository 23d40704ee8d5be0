"""PostgreSQL and a full Temporal server, as processes of the stage."""

import asyncio
import shutil
import subprocess
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Final

from google.protobuf.duration_pb2 import Duration
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from benchmarks.postgres_cluster import DYNAMIC_CONFIG, SHARDS, built, postgres_tool

USER: Final = "postgres"
DATABASE_PORT: Final = 5432
SCHEMAS: Final = {"temporal": "temporal", "temporal_visibility": "visibility"}
"""The schema of each database."""


def make_database(data: Path, address: str) -> list[str]:
    """Make an empty PostgreSQL for everybody who reaches the address; return how it is started."""
    data.mkdir()
    shutil.chown(data, USER, USER)
    initdb = [str(postgres_tool("initdb")), "-D", str(data), "-U", "temporal", "-A", "trust"]
    as_user = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups"]
    subprocess.run([*as_user, *initdb, "-E", "UTF8"], check=True, capture_output=True, cwd="/")
    with (data / "pg_hba.conf").open("a") as file:
        file.write("host all all 10.77.0.0/16 trust\n")
    command = [str(postgres_tool("postgres")), "-D", str(data), "-k", str(data)]
    return [*command, "-c", f"listen_addresses={address}", "-p", str(DATABASE_PORT)]


def make_schema(address: str) -> None:
    """Make the tables of the server."""
    common = [str(built("sql")), "--plugin", "postgres12", "--endpoint", address]
    common += ["--port", str(DATABASE_PORT), "--user", "temporal"]
    for database, schema in SCHEMAS.items():
        for step in (
            ["create-database"],
            ["setup-schema", "--version", "0.0"],
            ["update-schema", "--schema-name", f"postgresql/v12/{schema}"],
        ):
            command = [*common, "--database", database, *step]
            subprocess.run(command, check=True, capture_output=True, timeout=120)


def server_binary() -> str:
    """Return the program of the server, which is built if it is missing."""
    return str(built("server"))


def server_settings(address: str, database: str) -> dict[str, str]:
    """Return the environment of the server."""
    ports = {"FRONTEND": 7233, "HISTORY": 7234, "MATCHING": 7235, "WORKER": 7239}
    settings = {
        "DB": "postgres12",
        "DB_PORT": str(DATABASE_PORT),
        "POSTGRES_SEEDS": database,
        "POSTGRES_USER": "temporal",
        "POSTGRES_PWD": "",
        "DBNAME": "temporal",
        "VISIBILITY_DBNAME": "temporal_visibility",
        "NUM_HISTORY_SHARDS": str(SHARDS),
        "BIND_ON_IP": address,
        "DYNAMIC_CONFIG_FILE_PATH": str(DYNAMIC_CONFIG),
        "LOG_LEVEL": "warn",
        "FRONTEND_HTTP_PORT": "7243",
    }
    for service, port in ports.items():
        settings[f"{service}_GRPC_PORT"] = str(port)
        settings[f"{service}_MEMBERSHIP_PORT"] = str(port - 300)
    return settings


async def make_namespace(client: Client) -> None:
    """Make the namespace, and wait until every part of the server has it."""
    retention = Duration()
    retention.FromTimedelta(timedelta(days=1))
    request = RegisterNamespaceRequest(
        namespace=client.namespace, workflow_execution_retention_period=retention
    )
    async with asyncio.timeout(120):
        while True:
            try:
                await client.workflow_service.register_namespace(request)
            except RPCError as error:
                if error.status is RPCStatusCode.ALREADY_EXISTS:
                    break
            await asyncio.sleep(0.5)
        while True:
            with suppress(RPCError):
                await client.count_workflows("")
                return
            await asyncio.sleep(0.5)
