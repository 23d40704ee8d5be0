"""Language models behind `outlast.ports.model`.

Importing this package imports neither `openai` nor LiteLLM, which take seconds; the first call
does.
"""

from outlast.edges import lazy

lazy.attach(__name__)
