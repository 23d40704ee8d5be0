"""Internal. Reads the errors of buckets: a missing object is not a missing bucket."""

import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

_NO_BUCKET: Final = ("<Code>NoSuchBucket</Code>", "ContainerNotFound")
"""What servers answer with status 404 where the bucket is missing: S3 and Google Cloud, and Azure."""

_ANSWER: Final = re.compile(r"<Code>([^<]*)</Code>\s*<Message>([^<]*)</Message>")
_STATUS: Final = re.compile(r"status code: (\d{3})")
_LONGEST: Final = 500


class BucketError(Exception):
    """A bucket is missing, refused a request, or does not answer."""


@contextmanager
def bucket_errors(missing: Exception | None = None) -> Generator[None]:
    """Raise any error of obstore in one line: its providers' exceptions have no common class.

    Args:
        missing: raised in place of the error that there is no such object.
    """
    try:
        yield
    except Exception as error:
        if missing is not None and _is_object_missing(error):
            raise missing from None
        raise _bucket_error(error) from error


def _is_object_missing(error: Exception) -> bool:
    """Whether a bucket answered that it has no such object, and not that there is no such bucket."""
    text = str(error)
    return isinstance(error, FileNotFoundError) and not any(one in text for one in _NO_BUCKET)


def _bucket_error(error: Exception) -> BucketError:
    """Return an error of obstore in one line, without its debug output."""
    text = str(error)
    if any(one in text for one in _NO_BUCKET):
        return BucketError("There is no such bucket. Create it, or correct its name.")
    status = _STATUS.search(text)
    answer = _ANSWER.search(text)
    if answer is not None:
        said = f"{answer[1]}: {answer[2]}"
    else:
        said = " ".join(text.partition("\n\nDebug source")[0].split())
    said = said[:_LONGEST]
    if status is not None and status[1] in {"401", "403"}:
        return BucketError(f"The credentials are refused. The server says: {said}")
    return BucketError(said or type(error).__name__)
