import socket

from outlast.cli import ports


def test_a_port_is_taken_while_somebody_listens_and_answers() -> None:
    with socket.socket() as listener:
        listener.bind((ports.LOOPBACK, 0))
        listener.listen()
        port = listener.getsockname()[1]

        assert not ports.is_free(port)
        assert ports.answers(f"{ports.LOOPBACK}:{port}")

    assert ports.is_free(port)
    assert not ports.answers(f"{ports.LOOPBACK}:{port}")


def test_an_address_that_is_none_does_not_answer() -> None:
    assert not ports.answers("nonsense")
