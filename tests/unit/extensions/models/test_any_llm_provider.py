from outlast import models
from outlast.extensions.models import any_llm_provider
from outlast.extensions.models.any_llm_provider import AnyLLMProvider


def test_the_name_is_that_of_its_adapter() -> None:
    assert AnyLLMProvider is models.AnyLLMProvider
    assert "AnyLLMProvider" in dir(any_llm_provider)
