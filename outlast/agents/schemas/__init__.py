"""The JSON schemas that models are given: of functions, from their signatures, and of final outputs."""
