"""Base64 without padding, of which only one spelling counts: in tokens and ids of the desk."""

from base64 import urlsafe_b64decode, urlsafe_b64encode


def encoded(content: bytes) -> str:
    """Return bytes as a text for addresses and headers."""
    return urlsafe_b64encode(content).rstrip(b"=").decode()


def decoded(text: str) -> bytes:
    """Return the bytes of a text.

    Raises:
        ValueError: it is another spelling of the same bytes, or no base64.
    """
    content = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if encoded(content) != text:
        raise ValueError("not the one spelling")
    return content
