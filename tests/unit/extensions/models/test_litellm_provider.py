from outlast import models
from outlast.extensions.models import litellm_provider
from outlast.extensions.models.litellm_provider import LitellmProvider


def test_the_name_is_that_of_its_adapter() -> None:
    assert LitellmProvider is models.LitellmProvider
    assert "LitellmProvider" in dir(litellm_provider)
