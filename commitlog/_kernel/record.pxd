from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint32_t, uint64_t

from commitlog._kernel.kernel cimport cl_record
from commitlog._kernel.segment cimport Segment


cdef class Record:
    cdef readonly uint64_t position
    cdef readonly long long timestamp_ns
    cdef readonly unsigned int type
    cdef readonly object key
    cdef readonly bytes value
    cdef Segment segment
    cdef unsigned int value_offset  # in the segment's file; 0: not there when it was read
    cdef unsigned long long ordinal  # its sequence and one, where it was asked for; 0: not yet


# Here, so that it is compiled into every loop that makes records.
cdef inline Record make_record(Segment segment, const cl_record *native):
    cdef Record record = Record.__new__(Record)
    record.position = native.position
    record.timestamp_ns = native.timestamp_ns
    record.type = native.type
    record.key = None if native.key == NULL else PyBytes_FromStringAndSize(<const char *>native.key, native.key_length)
    record.value = PyBytes_FromStringAndSize(<const char *>native.value, native.value_length)
    record.segment = segment
    if segment.segment.map <= native.value <= segment.segment.map + segment.segment.size:
        record.value_offset = <uint32_t>(native.value - segment.segment.map)
    return record
