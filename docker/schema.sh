#!/bin/sh
# Brings both of Temporal's databases to the schema of this version. Does nothing where it is so.
set -eu

schemas=/etc/temporal/schema/postgresql/v12

prepare() {
    database=$1
    versions=$2
    tool="temporal-sql-tool --plugin postgres12 --endpoint postgres --port 5432 --user temporal --database $database"
    # Creating fails where it exists; then only the update has something to do.
    $tool create-database || true
    $tool setup-schema --version 0.0 || true
    $tool update-schema --schema-dir "$schemas/$versions/versioned"
}

prepare temporal temporal
prepare temporal_visibility visibility
