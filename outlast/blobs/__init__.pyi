from outlast.blobs.files import FileBlobStore as FileBlobStore
from outlast.blobs.locations import large_content as large_content
from outlast.blobs.locations import store_from_environment as store_from_environment
from outlast.blobs.locations import store_from_url as store_from_url
from outlast.blobs.locations import use_blob_store as use_blob_store
from outlast.blobs.locations import use_local_store as use_local_store
from outlast.blobs.objects import ObjectBlobStore as ObjectBlobStore
