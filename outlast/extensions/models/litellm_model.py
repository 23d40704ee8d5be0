"""The model that goes through LiteLLM, under the name where users look for it.

Owns: the name `LitellmModel` here. It is found by name when it is first used, because it stands above
this module.
"""

from outlast.extensions.late_names import late_names

__getattr__, __dir__ = late_names(
    __name__, {"LitellmModel": "outlast.models.litellm_models:LitellmModel"}
)
