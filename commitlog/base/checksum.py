"""The checksum of frames, files and messages: CRC-32C."""

from commitlog._kernel.segments import crc32c

__all__ = ["crc32c"]
