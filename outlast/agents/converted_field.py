"""Fields of dataclasses that take a value in several forms and return it in one."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Kept = TypeVar("Kept")
Given = TypeVar("Given")
Default = TypeVar("Default")


class ConvertedField(Generic[Kept, Given, Default]):
    """A field that converts what it is set to.

    A function with the return type Any makes it, because type checkers would take the descriptor
    for the default value. It does not check the value: the dataclass does in `__post_init__`, where
    it can name the owner.
    """

    def __init__(self, convert: Callable[[Any], Any], default: Default) -> None:
        self._convert = convert
        self._default = default
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Default: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Kept | Default: ...

    def __get__(self, instance: object | None, owner: type) -> Kept | Default:
        return self._default if instance is None else vars(instance).get(self._name, self._default)

    def __set__(self, instance: object, value: Kept | Given | Default) -> None:
        vars(instance)[self._name] = self._convert(value)
