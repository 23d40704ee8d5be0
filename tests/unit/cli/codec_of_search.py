"""A codec for tests of search."""

from outlast.encryption import EncryptionCodec

codec = EncryptionCodec({"a": b"k" * 32}, "a")
