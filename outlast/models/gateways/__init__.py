"""Internal. Models behind packages that support many providers: LiteLLM and any-llm.

`connection.py` calls either package and converts its errors.
"""
