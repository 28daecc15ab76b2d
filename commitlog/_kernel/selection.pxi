# The records that a tailer of a view reads, and the scan that lists them.

cdef size_t LOOKS_LOCKED = 64  # records that a search looks at before it releases the lock
cdef size_t LOOKS_FREE = 1 << 16  # and at once without it: about a millisecond


cdef class Selection:
    """Select the records of some types, with a key, or both.

    Parameters
    ----------
    types : iterable of int, optional
        The types of the records; None: any.
    key : bytes, optional
        The key of the records; None: any, and records without a key.
    noted_type : int, optional
        The type of the records from which `note` learns types.
    note : callable, optional
        Called with each record of `noted_type`, wanted or not, that a cursor passes; returns the
        types if they have changed, else None.
    more : callable, optional
        Called by `renew`; returns the types if they have changed, else None.
    floor : int
        A position: a cursor that reads backward enters no segment that ends below it.
    """

    def __cinit__(self, types=None, bytes key=None, noted_type=None, note=None, more=None,
                  uint64_t floor=0):
        memset(&self.native, 0, sizeof(self.native))
        self.floor = floor
        self.key = key
        if key is not None:
            self.native.key = <const uint8_t *><const char *>key
            self.native.key_length = len(key)
        if note is not None:
            self.native.notes = True
            self.native.noted_type = noted_type
        self.noted_type = noted_type
        self.note = note
        self.more = more
        self.take_types(types)

    def renew(self):
        """Learn the types that the cursor has not passed, because it was moved."""
        types = None if self.more is None else self.more()
        if types is not None:
            self.take_types(types)

    cdef int take_types(self, types) except -1:
        cdef const uint32_t[::1] held
        self.types = None if types is None else tuple(sorted(types))
        if types is not None:
            # One more, so that an empty array has an address, too.
            held = self.type_array = numpy.array([*self.types, 0], dtype=numpy.uint32)
            self.native.types = &held[0]
            self.native.type_count = len(self.types)
        self.drop_list()
        return 0

    cdef void drop_list(self) noexcept:
        """Ask for a list again, at the next step."""
        self.has_list = False
        cl_selection_list(&self.native, NULL, 0, 0)

    cdef int take_list(self, Segment segment, offsets) except -1:
        """Read a segment by its list, or scan it if that is None."""
        cdef const uint32_t[::1] held
        cl_selection_list(&self.native, NULL, 0, 0)
        self.offsets = offsets
        self.has_list = True
        self.segment_id = segment.segment.id
        if offsets is not None:
            held = offsets
            cl_selection_list(
                &self.native, &held[0] if len(offsets) else NULL, len(offsets),
                segment.segment.size
            )
        return 0

    cdef bint is_for(self, Segment segment) noexcept:
        return self.has_list and self.segment_id == segment.segment.id

    cdef bint accept(self, Segment segment, const cl_record *record) except -1:
        """Return whether a record is wanted; learn types from it, if it is noted."""
        if self.native.notes and record.type == self.native.noted_type:
            types = self.note(make_record(segment, record))
            if types is not None:
                self.take_types(types)
        return cl_selection_wants(&self.native, record)


def read_postings(Core core not None, Segment segment not None, uint64_t offset, types, keys):
    """Read the hash and offset of the type and of the key of each record from an offset on.

    Parameters
    ----------
    types, keys : numpy.ndarray of uint64, of equal length
        Filled with pairs: a hash times 2**32, plus an offset.

    Returns
    -------
    tuple of int
        How many pairs each array got; the offset behind the last record; 0 if the arrays are full,
        1 at the end of the segment, 2 if the record there cannot be read.
    """
    cdef uint64_t[::1] type_pairs = types
    cdef uint64_t[::1] key_pairs = keys
    cdef cl_postings postings
    cdef cl_reader reader
    cdef int code
    memset(&postings, 0, sizeof(postings))
    postings.most = min(type_pairs.shape[0], key_pairs.shape[0])
    if postings.most == 0:
        raise ValueError("there is no room for a record")
    postings.types = &type_pairs[0]
    postings.keys = &key_pairs[0]
    cdef cl_segment *held = segment.held()
    cl_reader_init(&reader, &core.log, NULL)
    cl_reader_enter(&reader, held, offset)
    core.enter()
    with nogil:
        code = cl_postings_read(&reader, &postings)
    core.leave()
    cl_segment_release(held)
    return (
        postings.records, postings.keyed, reader.offset,
        0 if code == CL_E_FULL else 1 if code == CL_E_ROLL else 2,
    )
