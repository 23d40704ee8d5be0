"""The provider that goes through any-llm, under the name where users look for it.

Owns: the name `AnyLLMProvider` here. It is found by name when it is first used, because it stands above
this module.
"""

from outlast.extensions.late_names import late_names

__getattr__, __dir__ = late_names(
    __name__, {"AnyLLMProvider": "outlast.models.any_llm_models:AnyLLMProvider"}
)
