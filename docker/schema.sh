#!/bin/sh
# Brings both of Temporal's databases to the schema of this version. Does nothing where it is so.
set -eu

prepare() {
    tool="temporal-sql-tool --plugin postgres12 --endpoint postgres --port 5432 --user temporal --database $1"
    # The first time there is nothing to update yet, so this fails and the rest creates it.
    if $tool update-schema --schema-name "postgresql/v12/$2" 2>/dev/null; then
        return
    fi
    $tool create-database
    $tool setup-schema --version 0.0
    $tool update-schema --schema-name "postgresql/v12/$2"
}

prepare temporal temporal
prepare temporal_visibility visibility
