"""Makes segments, disk blocks and pool buffers ready before an append needs them."""
