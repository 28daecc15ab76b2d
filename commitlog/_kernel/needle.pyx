"""Finds bytes in the values of a batch, in all of them at once."""

import numpy

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memchr, memcmp

cimport cython


cdef extern from "<string.h>" nogil:
    void *memmem(const void *text, size_t length, const void *sought, size_t sought_length)


cdef const uint8_t *next_place(const uint8_t *at, const uint8_t *end, const uint8_t *sought, size_t length, Py_ssize_t rare) noexcept nogil:
    """The next place at or behind `at`, or NULL. `rare` is which of its bytes to look for first, or -1."""
    cdef const uint8_t *found
    if rare < 0:
        return <const uint8_t *>memmem(at, end - at, sought, length)
    while <size_t>(end - at) >= length:
        found = <const uint8_t *>memchr(at + rare, sought[rare], end - at - length + 1)
        if found == NULL:
            return NULL
        at = found - rare
        if memcmp(at, sought, length) == 0:
            return at
        at += 1
    return NULL


@cython.boundscheck(False)
@cython.wraparound(False)
def rows_with(const uint8_t[::1] data not None, const int64_t[::1] offsets not None, bytes needle not None, Py_ssize_t rare=-1):
    """The rows whose values contain some bytes.

    Parameters
    ----------
    data : numpy.ndarray of uint8
        All values, one after the other.
    offsets : numpy.ndarray of int64
        Value i is ``data[offsets[i]:offsets[i + 1]]``.
    needle : bytes
        Not empty.
    rare : int
        Which of its bytes is so rare in these values that it should be looked for first; -1 where none is.

    Returns
    -------
    numpy.ndarray of int64
        Ascending.
    """
    cdef Py_ssize_t length = len(needle), rows = offsets.shape[0] - 1, row = 0, count = 0
    cdef int64_t place
    cdef int64_t[::1] out
    cdef const uint8_t *sought = needle
    cdef const uint8_t *start
    cdef const uint8_t *at
    cdef const uint8_t *end
    if length == 0 or not -1 <= rare < length:
        raise ValueError("an empty needle, or no byte of it")
    if rows < 1 or data.shape[0] == 0:
        return numpy.empty(0, dtype=numpy.int64)
    if offsets[0] < 0 or offsets[rows] > data.shape[0]:
        raise ValueError("offsets beyond the data")
    found = numpy.empty(rows, dtype=numpy.int64)
    out = found
    with nogil:
        start = &data[0]
        at, end = start + offsets[0], start + offsets[rows]
        while at < end:
            at = next_place(at, end, sought, length, rare)
            if at == NULL:
                break
            place = at - start
            while row + 1 < rows and offsets[row + 1] <= place:
                row += 1
            # Values stand one after the other: a place may begin in one and end in the next.
            if place + length <= offsets[row + 1]:
                out[count] = row
                count += 1
                at = start + offsets[row + 1]
            else:
                at += 1
    return found[:count].copy()
