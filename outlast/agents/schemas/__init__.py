"""The JSON Schemas in model requests: of tools, from their functions' signatures, and of outputs."""
