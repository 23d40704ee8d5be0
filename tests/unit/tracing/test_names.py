"""The names that programs import to listen to traces or to open spans."""

import outlast
from outlast import tracing
from tests.architecture.source import PUBLIC


def test_everything_it_names_is_there() -> None:
    assert all(getattr(tracing, name) is not None for name in tracing.__all__)


def test_it_has_what_the_package_itself_has() -> None:
    shared = set(tracing.__all__) & set(PUBLIC)
    assert {"trace", "custom_span", "TracingProcessor", "add_trace_processor"} <= shared
    assert all(getattr(outlast, name) is getattr(tracing, name) for name in shared)
