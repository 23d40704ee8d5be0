"""Models behind packages that speak to many providers: LiteLLM and any-llm.

`connection.py` calls either package and reads its errors.
"""
