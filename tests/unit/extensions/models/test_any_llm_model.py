from outlast import models
from outlast.extensions.models import any_llm_model
from outlast.extensions.models.any_llm_model import AnyLLMModel


def test_the_name_is_that_of_its_adapter() -> None:
    assert AnyLLMModel is models.AnyLLMModel
    assert "AnyLLMModel" in dir(any_llm_model)
