"""The address of a wait for something outside of a run: a token that whoever delivers the value has."""

import base64
import binascii
import json
from dataclasses import astuple, dataclass
from typing import cast

from outlast.loop.values import Json


@dataclass(frozen=True, slots=True)
class WaitAddress:
    """Which wait of which call a value is for.

    Attributes:
        run_id: the workflow id of the run, or of the nested run, that made the call.
        question: how many questions of the run were settled before that of the call.
        turn: the turn of the call.
        call_id: the id of the call.
        name: the wait of the call.
    """

    run_id: str
    question: int
    turn: int
    call_id: str
    name: str

    @property
    def token(self) -> str:
        """The address as text for URLs and mails. It is no secret: it proves nothing."""
        written = json.dumps(astuple(self), ensure_ascii=False, separators=(",", ":"))
        return base64.urlsafe_b64encode(written.encode(errors="surrogatepass")).decode().rstrip("=")

    @classmethod
    def parse(cls, token: str) -> "WaitAddress":
        """Return the address in a token.

        Raises:
            ValueError: the text is no token.
        """
        try:
            data = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
            fields: Json = json.loads(data.decode(errors="surrogatepass"))
        except (binascii.Error, UnicodeError, ValueError, RecursionError):
            fields = None
        listed = cast("list[Json]", fields) if isinstance(fields, list) else []
        if [type(one) for one in listed] != [str, int, int, str, str]:
            raise ValueError(f"{token!r:.80} is no token of a wait.")
        address = cls(*cast("tuple[str, int, int, str, str]", tuple(listed)))
        if address.token != token:  # a token has one spelling
            raise ValueError(f"{token!r:.80} is no token of a wait.")
        return address
