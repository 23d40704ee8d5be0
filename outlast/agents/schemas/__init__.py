"""Internal. JSON Schemas for models: of tools, from their functions, and of final outputs."""
