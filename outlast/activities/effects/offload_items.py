"""Carries out `OffloadItems`: moves the content of items to the blob store."""

from outlast.activities.attempt import FIRST, Attempt
from outlast.activities.content import store_failure
from outlast.activities.errors import EffectError
from outlast.activities.worker_deps import WorkerDeps
from outlast.contract import blobs, failures
from outlast.contract.blobs import Contents
from outlast.contract.effects import EffectRequest
from outlast.loop.effects import OffloadItems
from outlast.loop.stored import Offload


async def offload_items(
    worker: WorkerDeps, request: EffectRequest[OffloadItems], attempt: Attempt = FIRST
) -> Offload:
    """Move the content of items to the blob store.

    Raises:
        EffectError: this worker has no store, or the store is unavailable.
    """
    content = worker.content
    if content.store is None:
        message = (
            "This worker has no blob store, but another worker of the task queue has one. Set the "
            "same store on all workers: blob_store=, or the variable OUTLAST_BLOB_STORE."
        )
        raise EffectError(failures.CONTENT_UNAVAILABLE, message, retryable=True)
    found: Contents = {}
    made = blobs.offload(request.items, request.effect.start, content.threshold, found)
    try:
        await content.put_all(found)
    except Exception as error:  # any store's error
        raise store_failure(error) from error
    return made
