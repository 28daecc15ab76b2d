"""Finds bytes, or bytes of certain kinds, in the values of a batch, in all of them at once."""

import numpy

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memchr, memcmp, memset

cimport cython


cdef extern from "<string.h>" nogil:
    void *memmem(const void *text, size_t length, const void *sought, size_t sought_length)

RUN_MOST = 64


cdef struct Sought:
    const uint8_t *text
    const uint64_t *kinds  # where it is no text: for each byte, the places of the sought in which it may stand
    Py_ssize_t length
    Py_ssize_t rare


cdef const uint8_t *next_text(const uint8_t *at, const uint8_t *end, const Sought *sought) noexcept nogil:
    cdef const uint8_t *found
    if sought.rare < 0:
        return <const uint8_t *>memmem(at, end - at, sought.text, sought.length)
    while end - at >= sought.length:
        found = <const uint8_t *>memchr(at + sought.rare, sought.text[sought.rare], end - at - sought.length + 1)
        if found == NULL:
            return NULL
        at = found - sought.rare
        if memcmp(at, sought.text, sought.length) == 0:
            return at
        at += 1
    return NULL


cdef const uint8_t *next_run(const uint8_t *at, const uint8_t *end, const Sought *sought) noexcept nogil:
    """Reads each window from its end, and goes on where what it has read could begin. The method is BNDM: Navarro and Raffinot, "A
    bit-parallel approach to suffix automata", 1998."""
    cdef uint64_t whole = <uint64_t>1 << (sought.length - 1)
    cdef uint64_t state
    cdef Py_ssize_t left, onward
    while end - at >= sought.length:
        left = onward = sought.length
        state = ~<uint64_t>0
        while True:
            left -= 1
            state &= sought.kinds[at[left]]
            if state & whole:
                if left == 0:
                    return at
                onward = left
            state <<= 1
            if state == 0 or left == 0:
                break
        at += onward
    return NULL


@cython.boundscheck(False)
@cython.wraparound(False)
cdef object rows_of(const uint8_t[::1] data, const int64_t[::1] offsets, const Sought *sought):
    """The rows in whose values it stands."""
    cdef Py_ssize_t rows = offsets.shape[0] - 1, row = 0, count = 0
    cdef int64_t place
    cdef int64_t[::1] out
    cdef const uint8_t *start
    cdef const uint8_t *at
    cdef const uint8_t *end
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
            at = next_text(at, end, sought) if sought.kinds == NULL else next_run(at, end, sought)
            if at == NULL:
                break
            place = at - start
            while row + 1 < rows and offsets[row + 1] <= place:
                row += 1
            # Values stand one after the other: a place may begin in one and end in the next.
            if place + sought.length <= offsets[row + 1]:
                out[count] = row
                count += 1
                at = start + offsets[row + 1]
            else:
                at += 1
    return found[:count].copy()


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
    cdef Sought sought
    if len(needle) == 0 or not -1 <= rare < len(needle):
        raise ValueError("an empty needle, or no byte of it")
    sought.text = needle
    sought.kinds = NULL
    sought.length = len(needle)
    sought.rare = rare
    return rows_of(data, offsets, &sought)


def rows_with_run(const uint8_t[::1] data not None, const int64_t[::1] offsets not None, list kinds not None):
    """The rows whose values contain a run of bytes, each of its own kind.

    Parameters
    ----------
    data, offsets : numpy.ndarray
        As in `rows_with`.
    kinds : list of bytes
        For each place of the run, 1 to 64 of them, the bytes that may stand there.

    Returns
    -------
    numpy.ndarray of int64
        Ascending.
    """
    cdef Sought sought
    cdef uint64_t masks[256]
    cdef Py_ssize_t length = len(kinds), place
    cdef uint8_t byte
    if not 1 <= length <= RUN_MOST:
        raise ValueError(f"a run of {length} bytes: 1 to {RUN_MOST} can be looked for")
    memset(masks, 0, sizeof(masks))
    for place in range(length):
        for byte in <bytes>kinds[place]:
            masks[byte] |= <uint64_t>1 << (length - 1 - place)
    sought.text = NULL
    sought.kinds = masks
    sought.length = length
    sought.rare = -1
    return rows_of(data, offsets, &sought)
