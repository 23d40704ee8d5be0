"""The decorators, under the name of the module that has nothing else."""

import outlast
from outlast import decorators
from outlast.decorators import tool


def test_tool_is_function_tool_with_and_without_options() -> None:
    @tool
    def weather(city: str) -> str:
        return city

    @tool(name_override="clock")
    def time_of(city: str) -> str:
        return city

    assert decorators.tool is outlast.function_tool
    assert isinstance(weather, outlast.FunctionTool)
    assert (weather.name, time_of.name) == ("weather", "clock")


def test_the_others_are_those_of_the_package() -> None:
    others = set(decorators.__all__) - {"tool"}
    assert len(others) == 5
    assert all(getattr(decorators, name) is getattr(outlast, name) for name in others)
