# Many records of a cursor as columns.

cdef Py_ssize_t BATCH_BYTES = 16 << 20
# Of a batch of selected records. They may be few and far between, so less room is made for them.
cdef Py_ssize_t SELECTED_BYTES = 4 << 20
cdef Py_ssize_t SELECTED_RECORDS = 1 << 16


def read_columns(Cursor cursor not None, Py_ssize_t max_records, names, *, bint views):
    """Read the next visible records as `await_columns` does; None for columns that are not named.

    Columns that are not named are checked, but not copied. With `views`, arrays of Arrow's binary
    views replace the offsets.
    """
    cdef int wanted = VIEWS * views
    if cursor.turned:
        raise ValueError("columns can only be read forward")
    for name in names:
        wanted |= <int>NAMED[name]
    return take_columns(cursor, max_records, wanted)


def await_columns(Cursor cursor not None, Py_ssize_t max_records, timeout, idle, bint keeps):
    """Wait for the next records and return them as a tuple of columns: see `take_columns`.

    `keeps`: save a named tailer's position meanwhile.
    """
    cdef Patience patience
    cdef int64_t deadline_ns, left_ns
    cdef tuple found = take_columns(cursor, max_records, EVERY_COLUMN)
    if len(found[0]) or timeout == 0 or cursor.back:
        return found
    patience = patience_of(timeout, idle)
    left_ns = patience.budget_ns
    deadline_ns = cl_clock_monotonic_ns() + left_ns
    while not len(found[0]) and left_ns > 0:
        if keeps:
            cursor.save_position()  # it may have passed SKIPs, and a writer may wait for it
        wait_for(cursor, patience.idle, left_ns)
        found = take_columns(cursor, max_records, EVERY_COLUMN)
        if not patience.endless:
            left_ns = deadline_ns - cl_clock_monotonic_ns()
    return found


cdef tuple take_columns(Cursor cursor, Py_ssize_t max_records, int wanted):
    """Read the next records as columns, up to the present end.

    Positions, timestamps_ns, types, keyed, data, offsets, keys, key_offsets; then the segments that
    the records may be in, from that of the first one on. None for a column that is not wanted.
    """
    cdef Columns columns
    cdef list segments = []
    cdef Segment segment
    cdef Py_ssize_t max_bytes
    cdef int code = CL_E_ROLL
    cdef bint to_buffer = cursor.reader.from_buffer
    cursor.guard()
    if cursor.selection is not None:
        return take_selected_columns(cursor, max_records)
    if cursor.turned:
        return take_columns_back(cursor, max_records)
    if cursor.segment is None and cursor.enter_next() != CL_OK:
        max_records = 0
    max_bytes = _room(cursor)
    max_records = min(max_records, max_bytes // CL_FRAME_HEADER)  # more cannot exist
    columns = Columns(cursor.shelf, max_records, max_bytes, wanted)
    while max_records and columns.native.count < columns.native.most:
        segment = cursor.segment
        if to_buffer:
            code = cl_reader_batch(&cursor.reader, &columns.native)
        else:
            code = _batch_alone(cursor, &columns.native)
        if columns.native.count != 0:
            segments.append(segment)
        if cursor.segment is None:
            break  # closed by another thread meanwhile
        if code == CL_E_ROLL:
            try:
                code = cursor.enter_next()
            except (CommitLogError, OSError):
                if columns.native.count == 0:
                    raise
                break  # return what was read; the next call raises again
            if code != CL_OK:
                break
        elif code == CL_E_FULL and columns.native.count == 0:
            # The next record is larger than the room: make room for the largest one.
            columns = Columns(cursor.shelf, max_records, cursor.core.log.segment_size, wanted)
        elif code == CL_E_DAMAGE and columns.native.count == 0:
            cursor.pass_damage()
            if cursor.segment is None and cursor.enter_next() != CL_OK:
                break
        else:
            break
    if columns.native.count == 0:
        cursor.core.look()
    return *columns.cut(), tuple(segments)


cdef int _batch_alone(Cursor cursor, cl_batch *batch) except? -100:
    """Read a batch without the interpreter's lock."""
    cdef int code
    cursor.core.enter()
    cursor.busy = True
    try:
        with nogil:
            code = cl_reader_batch(&cursor.reader, batch)
    finally:
        cursor.core.leave()
        cursor.rest()
    return code


cdef Py_ssize_t _room(Cursor cursor):
    """Return how many bytes there may be to read now."""
    cdef uint64_t end
    if cursor.segment is None:
        return 0
    end = cursor.core.tail_position
    return max(4096, min(BATCH_BYTES, <Py_ssize_t>end - <Py_ssize_t>cursor.current()))


cdef tuple take_columns_back(Cursor cursor, Py_ssize_t max_records):
    """Read the records before the position as columns: see `take_columns`."""
    cdef int code = CL_E_ROLL
    cdef Columns columns
    cdef list segments = []
    cdef Segment last = None
    cdef Py_ssize_t max_bytes = max(4096, min(BATCH_BYTES, <Py_ssize_t>cursor.current()))
    max_records = min(max_records, max_bytes // CL_FRAME_HEADER)
    columns = Columns(cursor.shelf, max_records, max_bytes, EVERY_COLUMN)
    while columns.native.count < columns.native.most:
        if cursor.segment is not None:
            code = cl_backward_scan_batch(&cursor.reader, &cursor.backward, &columns.native)
        if columns.native.count != 0 and last is not cursor.segment:
            last = cursor.segment
            segments.append(last)
        if code == CL_E_FULL and columns.native.count == 0:
            # The record before is larger than the room: make room for the largest one.
            columns = Columns(cursor.shelf, max_records, cursor.core.log.segment_size, EVERY_COLUMN)
            continue
        if code == CL_E_DAMAGE and columns.native.count != 0:
            break
        try:
            if not cursor.go_back(code):
                break
        except (CommitLogError, OSError):
            if columns.native.count == 0:
                raise
            break  # return what was read; the next call raises again
    return *columns.cut(), tuple(segments)


cdef tuple take_selected_columns(Cursor cursor, Py_ssize_t max_records):
    """Read the next selected records as columns, in the cursor's direction: see `take_columns`."""
    cdef Py_ssize_t room = SELECTED_BYTES
    cdef Columns columns = Columns(
        cursor.shelf, min(max_records, SELECTED_RECORDS), room, EVERY_COLUMN)
    cdef list segments = []
    cdef Segment last = None
    cdef cl_record native
    cdef uint64_t before
    while columns.native.count < columns.native.most:
        before = cursor.current()
        try:
            if cursor.next_record(&native) != CL_OK:
                break
        except (CommitLogError, OSError):
            if columns.native.count == 0:
                raise
            break  # return what was read; the next call raises again
        if not cl_batch_add(&columns.native, &native):
            cursor.move_to(before)
            if columns.native.count != 0:
                break
            # The record is larger than the room: make room for the largest one.
            columns = Columns(cursor.shelf, 1, cursor.core.log.segment_size, EVERY_COLUMN)
        elif last is not cursor.segment:
            last = cursor.segment
            segments.append(last)
    return *columns.cut(), tuple(segments)
