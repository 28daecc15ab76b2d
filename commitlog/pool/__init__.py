"""The pool: pre-allocated off-heap buffers that appends land in before they are committed."""

from commitlog.pool.transient_store_pool import TransientStorePool

__all__ = ["TransientStorePool"]
