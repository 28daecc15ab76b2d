# The header of one frame, for people and for comparisons.

cdef tuple FLAGS = (
    (CL_WORD_CLAIMED, "CLAIMED"), (CL_WORD_SKIP, "SKIP"), (CL_WORD_EXT, "EXT"),
    (CL_WORD_BATCH, "BATCH"),
)


def frame_fields(Segment segment not None, uint64_t offset):
    """Return what the header of the frame at `offset` says, right or wrong, by name.

    The names: length, flags, crc or owner (slot and generation), timestamp_ns, type, key_length
    (None: not keyed). Fields that do not fit, or that a SKIP or a claim does not have, are left
    out.
    """
    cdef uint32_t words[6]
    cdef uint32_t word, size, high
    cdef int64_t timestamp_ns
    cdef const uint8_t *at = segment.bytes_at(offset, CL_FRAME_ALIGN, CL_SEGMENT_HEADER)
    if offset % CL_FRAME_ALIGN != 0:
        raise ValueError("not an offset of a frame")
    size = <uint32_t>min(<uint64_t>sizeof(words), segment.segment.size - offset)
    memcpy(words, at, size)
    word = words[0]
    high = words[1]
    found = {
        "length": word & CL_WORD_LENGTH, "flags": [name for flag, name in FLAGS if word & flag]
    }
    if word & CL_WORD_CLAIMED:
        return found | {"slot": cl_owner_slot(high), "generation": cl_owner_generation(high)}
    found["crc"] = high
    if not word & CL_WORD_SKIP and size >= CL_FRAME_HEADER:
        memcpy(&timestamp_ns, &words[2], sizeof(timestamp_ns))
        found["timestamp_ns"] = timestamp_ns
        extended = word & CL_WORD_EXT and size >= CL_FRAME_EXTENDED
        found["type"] = words[4] if extended else 0
        found["key_length"] = None if not extended or words[5] == CL_KEYLEN_NONE else words[5]
    return found
