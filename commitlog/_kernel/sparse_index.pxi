# The sparse index of one segment: being built, or read from an index file.

ENTRY_SIZE = sizeof(cl_index_entry)


cdef class SparseIndex:
    """Hold the offset of every `spacing`-th record of a segment, and the largest timestamp before.

    Parameters
    ----------
    segment_id, segment_size : int
        Of the segment. Another segment may get the same name later.
    spacing : int
        Records from one entry to the next.
    content : bytes, optional
        Entries that an index file holds.
    records, largest_ns : int
        How many records the content covers, and the largest of their timestamps.
    end : int, optional
        The offset behind these records; by default, the end of the segment.

    Raises
    ------
    ValueError
        The content cannot be that of such an index.
    """

    def __cinit__(self, uint64_t segment_id, uint64_t segment_size, uint32_t spacing,
                  bytes content=None, uint64_t records=0,
                  int64_t largest_ns=INT64_MIN, uint64_t end=0):
        memset(&self.index, 0, sizeof(self.index))
        if spacing == 0 or segment_size <= CL_SEGMENT_HEADER:
            raise ValueError(
                "the spacing must be at least 1, and the segment must be larger than its header"
            )
        self.segment_id = segment_id
        self.segment_size = segment_size
        self.index.spacing = spacing
        self.index.largest_ns = INT64_MIN
        self.index.offset = CL_SEGMENT_HEADER
        # Room for the largest possible number: untouched memory costs nothing, and entries never
        # move under a reader.
        if content is None or end != 0:
            self.index.room = cl_index_room(segment_size, spacing)
        else:
            self.index.room = len(content) // sizeof(cl_index_entry)
        self.index.entries = <cl_index_entry *>malloc(
            max(self.index.room, 1) * sizeof(cl_index_entry)
        )
        if self.index.entries == NULL:
            raise MemoryError("no memory for a segment's index")
        if content is not None:
            self.restore(content, records, largest_ns, end or segment_size)

    def __dealloc__(self):
        free(self.index.entries)

    cdef restore(self, bytes content, uint64_t records, int64_t largest_ns, uint64_t end):
        cdef size_t count = len(content) // sizeof(cl_index_entry)
        cdef uint64_t least = CL_SEGMENT_HEADER
        cdef int64_t earlier_ns = INT64_MIN
        cdef cl_index_entry *entry
        cdef size_t at
        if <uint64_t>len(content) != (
            records // self.index.spacing + (records % self.index.spacing != 0)
        ) * sizeof(cl_index_entry) or count > self.index.room or end > self.segment_size:
            raise ValueError("the content does not match the number of records")
        memcpy(self.index.entries, <char *>content, len(content))
        for at in range(count):
            entry = self.index.entries + at
            if (entry.offset < least or entry.offset >= end
                or entry.offset % CL_FRAME_ALIGN
                    or entry.earlier_ns < earlier_ns):
                raise ValueError("the entries of the index are not ascending")
            least = entry.offset + 1
            earlier_ns = entry.earlier_ns
        self.index.count = count
        self.index.due = count * self.index.spacing
        self.index.records = records
        self.index.largest_ns = largest_ns
        self.index.offset = end

    @property
    def spacing(self):
        """Return the number of records from one entry to the next."""
        return self.index.spacing

    @property
    def records(self):
        """Return the number of indexed records."""
        return self.index.records

    @property
    def offset(self):
        """Return the offset behind the last indexed frame."""
        return self.index.offset

    @property
    def largest_ns(self):
        """Return the largest timestamp; without records, the smallest 64-bit number."""
        return self.index.largest_ns

    @property
    def complete(self):
        """Return whether the whole segment is indexed."""
        return self.index.offset >= self.segment_size

    def __len__(self):
        return self.index.count

    def content(self):
        """Return the entries as an index file holds them."""
        return (<char *>self.index.entries)[:self.index.count * sizeof(cl_index_entry)]
