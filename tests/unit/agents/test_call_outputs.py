"""What outputs of calls say."""

from typing import Any

import pytest

from outlast.agents.items.call_outputs import output_content
from outlast.loop.call_forms import FORMS, output_item

EXIT = {"type": "exit", "exit_code": 0}


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ([{"stdout": "one\n", "stderr": "", "outcome": EXIT}], "one"),
        (
            [
                {"stdout": "one", "stderr": "bad\n", "outcome": EXIT},
                {"stdout": "", "stderr": "", "outcome": EXIT},
                {"stdout": "", "stderr": "", "outcome": {"type": "timeout"}},
            ],
            "one\n\nstderr:\nbad\n\nstatus: timeout",
        ),
        ([], ""),
        (None, ""),
    ],
)
def test_of_commands_it_is_what_they_wrote(output: Any, said: str) -> None:
    assert output_content({"type": "shell_call_output", "output": output}) == said


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (
            {"type": "function_call_output", "output": [{"type": "input_text"}]},
            [{"type": "input_text"}],
        ),
        ({"type": "custom_tool_call_output", "output": "text"}, "text"),
        ({"type": "local_shell_call_output", "output": "text"}, "text"),
        ({"type": "apply_patch_call_output", "status": "completed"}, ""),
        ({"type": "apply_patch_call_output", "status": "failed", "output": "no"}, "no"),
        ({"type": "computer_call_output", "output": {"image_url": "data:x"}}, "data:x"),
        ({"type": "computer_call_output", "output": None}, ""),
    ],
)
def test_of_other_forms_it_is_the_text_or_the_picture(raw: Any, said: Any) -> None:
    assert output_content(raw) == said


@pytest.mark.parametrize("form", [form for form in FORMS if form != "computer_call"])
def test_a_failure_says_its_text_in_every_form_that_has_words(form: str) -> None:
    assert str(output_content(output_item("c1", "It broke.", form))).endswith("It broke.")
