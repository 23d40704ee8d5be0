"""The value of a delivery: what a run can keep, with its long texts in the blob store."""

from temporalio.client import Client

from outlast.agents.errors import ContentUnavailable, UserError
from outlast.blobs import large_content
from outlast.contract import blobs, delivered_values
from outlast.contract.delivered_values import LARGEST_VALUE_BYTES, size_of
from outlast.loop.values import Json


class ValueTooLarge(UserError):
    """A value has more bytes than a run takes."""


async def stored_value(client: Client, value: Json) -> Json:
    """Return a value with its long texts moved to the client's store, if it has one.

    What somebody delivers never reads as a reference to content of others, also without a store.

    Raises:
        ValueTooLarge: it is too large for a run.
        ContentUnavailable: the store cannot be written.
    """
    content = large_content(client=client)
    least = blobs.NEVER if content.store is None else content.threshold
    while True:
        found: blobs.Contents = {}
        made = blobs.escape(value) if least == blobs.NEVER else blobs.split(value, least, found)
        size = size_of(made)
        if size <= LARGEST_VALUE_BYTES:
            break
        if least in {blobs.NEVER, blobs.SMALLEST_THRESHOLD}:
            raise ValueTooLarge(_too_large(size, has_store=content.store is not None))
        least = max(least // 4, blobs.SMALLEST_THRESHOLD)
    try:
        await content.put_all(found)
    except Exception as error:  # any store's error
        raise ContentUnavailable(
            f"The large content of the value cannot be stored in {content.store!r}: "
            f"{type(error).__name__}: {error}"
        ) from error
    return made


def _too_large(size: int, *, has_store: bool) -> str:
    limit = f"The value has {size:,} bytes as JSON, of at most {LARGEST_VALUE_BYTES:,}"
    if has_store:
        return f"{limit}, without its long texts. Deliver the address of the data instead."
    return (
        f"{limit}. With a blob store (OUTLAST_BLOB_STORE), long texts in it may have any size; or "
        "deliver the address of the data instead."
    )


def check_shape(value: Json) -> None:
    """Refuse a value that is no JSON, is nested too deeply, or has keys that cannot be recorded.

    Raises:
        UserError: it is, or has.
    """
    try:
        delivered_values.check_shape(value)
    except ValueError as error:
        raise UserError(str(error)) from error
