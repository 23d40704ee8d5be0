"""Users' callables of every kind are named, checked and called alike."""

import asyncio
import functools
import threading
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.callables import (
    arity_fits,
    call,
    callable_name,
    check_callable,
    check_model,
    implementation,
    is_async,
    shown,
    takes_model_arguments,
)
from outlast.agents.errors import UserError
from outlast.agents.guardrails.guardrail import InputGuardrail


def plain(a: int, b: int = 2) -> int:
    return a + b


async def coroutine(a: int, b: int = 2) -> int:
    return a + b


def hands_back_a_coroutine(a: int, b: int = 2) -> Awaitable[int]:
    return coroutine(a, b)


class Shop:
    def __call__(self, a: int, b: int = 2) -> int:
        return a + b

    def method(self, a: int, b: int = 2) -> int:
        return a + b

    async def async_method(self, a: int, b: int = 2) -> int:
        return a + b

    @classmethod
    def of_class(cls, a: int, b: int = 2) -> int:
        return a + b

    @staticmethod
    def static(a: int, b: int = 2) -> int:
        return a + b


class AsyncShop:
    async def __call__(self, a: int, b: int = 2) -> int:
        return a + b


@functools.wraps(coroutine)
def sync_wrapper(*args: Any, **kwargs: Any) -> Any:
    return coroutine(*args, **kwargs)


def no_parameters() -> None: ...


def any_number(a: int, *rest: int) -> tuple[int, ...]:
    return (a, *rest)


def with_a_default(a: int, b: int = 2) -> int:
    return a + b


ADDERS: dict[str, tuple[Callable[..., Any], bool]] = {
    "function": (plain, False),
    "coroutine function": (coroutine, True),
    "function that returns an awaitable": (hands_back_a_coroutine, False),
    "lambda": (lambda *summands: sum(summands, 2), False),
    "bound method": (Shop().method, False),
    "bound async method": (Shop().async_method, True),
    "class method": (Shop.of_class, False),
    "static method": (Shop.static, False),
    "callable object": (Shop(), False),
    "async callable object": (AsyncShop(), True),
    "partial": (functools.partial(plain, b=2), False),
    "partial of a coroutine function": (functools.partial(coroutine, b=2), True),
    "partial of a partial of an async object": (
        functools.partial(functools.partial(AsyncShop()), b=2),
        True,
    ),
    "sync wrapper of a coroutine function": (sync_wrapper, False),
}
adders = pytest.mark.parametrize(("adder", "asynchronous"), ADDERS.values(), ids=ADDERS.keys())


@adders
async def test_every_kind_of_callable_is_called_and_awaited(
    adder: Callable[..., Any], asynchronous: bool
) -> None:
    assert await call(adder, 1) == 3
    assert is_async(adder) is asynchronous


async def test_an_async_callable_runs_on_the_loop_and_a_sync_one_beside_it() -> None:
    async def here() -> int:
        await asyncio.sleep(0)
        return threading.get_ident()

    assert await call(here) == threading.get_ident()
    assert await call(threading.get_ident) != threading.get_ident()


async def test_keywords_are_passed_on_even_one_that_is_called_function() -> None:
    def echo(*, function: str) -> str:
        return function

    assert await call(echo, function="x") == "x"


async def test_an_async_callable_that_exits_raises_instead_of_ending_the_process() -> None:
    async def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(RuntimeError, match=r"leave raised SystemExit"):
        await call(leave)


@pytest.mark.parametrize(
    ("function", "fitting"),
    [
        (no_parameters, {0}),
        (plain, {1, 2}),
        (any_number, {1, 2, 3, 4}),
        (Shop().method, {1, 2}),
        (Shop(), {1, 2}),
        (functools.partial(plain, 1), {0, 1}),
        (functools.partial(plain, b=1), {1}),
        (Shop, {0}),
        (max, {0, 1, 2, 3, 4}),  # written in C, without a signature: nothing is known
    ],
)
def test_arity_is_what_a_positional_call_would_take(
    function: Callable[..., Any], fitting: set[int]
) -> None:
    assert {count for count in range(5) if arity_fits(function, count)} == fitting


def test_a_callable_that_needs_a_keyword_fits_no_positional_call() -> None:
    def needs(*, key: int) -> int:
        return key

    assert not arity_fits(needs, 0)
    assert not arity_fits(needs, 1)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (plain, r"^Handoff 'x': f is called with \(a, b, c\), but plain takes \(a: int, b: int"),
        (functools.partial(plain, 1), r"but plain takes \(b: int = 2\)"),
        (7, r"^Handoff 'x': f must be callable with \(a, b, c\), not int\.$"),
        (None, r"not NoneType"),
    ],
)
def test_a_callable_that_does_not_fit_is_named_with_what_is_wanted(
    function: object, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        check_callable(function, ("a", "b", "c"), what="Handoff 'x': f")


def test_a_callable_that_fits_is_let_through() -> None:
    check_callable(plain, ("a", "b"), what="Handoff 'x': f")
    check_callable(max, ("a", "b"), what="Handoff 'x': f")


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (plain, "plain"),
        (Shop().method, "Shop.method"),
        (Shop(), "Shop"),
        (functools.partial(plain, 1), "plain"),
        (functools.partial(Shop(), 1), "Shop"),
    ],
)
def test_a_callable_is_named_after_its_function_or_class(
    function: Callable[..., Any], name: str
) -> None:
    assert callable_name(function) == name


def test_the_implementation_is_what_carries_the_docstring() -> None:
    assert implementation(functools.partial(plain, 1)) is plain
    assert implementation(Shop()) is Shop.__call__
    assert implementation(Shop) is Shop


class Pieces:
    async def get_response(self, instructions: object, items: object) -> None: ...


class Few:
    async def get_response(self, system_instructions: object, items: object) -> None: ...


class OneRecord:
    async def get_response(self, request: object) -> None: ...


class Anything:
    async def get_response(self, *args: object, **kwargs: object) -> None: ...


class Named:
    async def get_response(self, *, prompt: object, **kwargs: object) -> None: ...


class Arguments:
    async def get_response(
        self,
        system_instructions: object,
        input: object,  # noqa: A002  its name in the SDK
        model_settings: object,
        *args: object,
        **kwargs: object,
    ) -> None: ...


def test_a_model_takes_one_record_or_the_arguments_of_the_sdk() -> None:
    for model in (OneRecord(), "gpt-5", None):
        check_model("Agent 'A': model", model)
        assert not takes_model_arguments(model)
    for model in (Named(), Arguments(), Anything()):
        check_model("Agent 'A': model", model)
        assert takes_model_arguments(model)


def test_a_model_that_takes_neither_is_refused() -> None:
    for model, wanted in (
        (Pieces(), r"is called with \(request\), but"),
        (Few(), r"is called with \(system_instructions, input, .*, prompt\), by name"),
    ):
        name = f"^Agent 'A': model: get_response of {type(model).__name__} "
        with pytest.raises(UserError, match=name + wanted):
            check_model("Agent 'A': model", model)


def test_what_was_given_is_shown_in_few_words() -> None:
    def polite(context: object, agent: object, text: object) -> Any:
        return context, agent, text

    assert shown(polite) == "polite"
    assert shown(SimpleNamespace) == "SimpleNamespace"
    assert shown(Agent(name="Desk", instructions="x" * 1000)) == "Agent 'Desk'"
    assert "polite'" in shown(InputGuardrail(guardrail_function=polite))
    assert "polite" not in shown(InputGuardrail(guardrail_function=polite, name="Manners"))
    assert shown({"type": "function"}) == "{'type': 'function'}"
    assert len(shown(["x"] * 1000)) == 100


async def test_a_sync_callable_that_needs_the_loop_is_told_to_be_async() -> None:
    def on_handoff() -> None:
        asyncio.get_running_loop()

    with pytest.raises(RuntimeError, match=r"on_handoff is a sync function.* Write `async def`"):
        await call(on_handoff)


async def test_another_runtime_error_of_a_sync_callable_stays() -> None:
    def fail() -> None:
        raise RuntimeError("no disk")

    with pytest.raises(RuntimeError, match=r"^no disk$"):
        await call(fail)
