from outlast import models
from outlast.extensions.models import litellm_model
from outlast.extensions.models.litellm_model import LitellmModel


def test_the_name_is_that_of_its_adapter() -> None:
    assert LitellmModel is models.LitellmModel
    assert "LitellmModel" in dir(litellm_model)
