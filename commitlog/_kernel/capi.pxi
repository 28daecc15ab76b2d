# The C API: what `commitlog/capi.h` offers to other extensions.

cdef extern from *:
    """
    _Static_assert(sizeof(commitlog_input) == sizeof(cl_record_input), "one layout");
    _Static_assert(offsetof(commitlog_input, key_length) ==
                   offsetof(cl_record_input, key_length), "one layout");
    _Static_assert(offsetof(commitlog_input, timestamp_ns) ==
                   offsetof(cl_record_input, timestamp_ns), "one layout");
    _Static_assert(sizeof(commitlog_record) == sizeof(cl_record), "one layout");
    _Static_assert(offsetof(commitlog_record, type) == offsetof(cl_record, type), "one layout");
    _Static_assert(sizeof(cl_native_claim) <= sizeof(commitlog_claim), "a claim has room");
    _Static_assert(offsetof(commitlog_claim, position) == offsetof(cl_native_claim, position),
                   "one layout");
    _Static_assert(COMMITLOG_NO_KEY == CL_KEYLEN_NONE, "one value");
    _Static_assert(COMMITLOG_END == CL_NATIVE_END && COMMITLOG_DROPPED == CL_NATIVE_DROPPED &&
                   COMMITLOG_ERROR == CL_NATIVE_ERROR && COMMITLOG_OK == CL_OK, "one value");
    """


ctypedef int (*append_function)(
    commitlog_appender *, const commitlog_input *, uint64_t *) noexcept nogil
ctypedef int (*append_named_function)(
    commitlog_appender *, const commitlog_input *, object, uint64_t *) noexcept
ctypedef object (*headers_function)(commitlog_reader *, const commitlog_record *)
ctypedef int (*claim_function)(
    commitlog_appender *, const commitlog_input *, commitlog_claim *) noexcept nogil
ctypedef int (*publish_function)(
    commitlog_appender *, commitlog_claim *, uint32_t) noexcept nogil
ctypedef void (*abandon_function)(commitlog_appender *, commitlog_claim *) noexcept nogil
ctypedef int (*next_function)(commitlog_reader *, commitlog_record *) noexcept nogil
ctypedef int (*wait_function)(commitlog_reader *, int64_t) noexcept nogil


cdef object raise_kept(object error):
    if error is None:
        raise SystemError("no function of this handle has returned COMMITLOG_ERROR")
    raise error


# --- appender -------------------------------------------------------------------------------------

@cython.no_gc
cdef class NativeAppender:
    """An appender of the C API. Only C code refers to it, by its `native`."""

    cdef cl_native_writer native
    cdef object log  # the `CommitLog`, which closes when it is dropped
    cdef Writer engine
    cdef object error

    cdef int attend(self, int code, const cl_record_input *record) except -2:
        """Handle a refused append or, with CL_OK, the work that remains after an append: see
        `native.h`.
        """
        if code == CL_E_FORKED:
            raise ForkedError(
                "an appender of the C API belongs to the process that opened it: open one in this "
                "process", path=self.engine.path)
        if code == CL_OK:
            self.engine.finish_append(0, False)
            return CL_OK
        if code == CL_E_OPEN_CLAIM:
            raise ClaimError(
                "publish: the claim is not open, or the size is more than was claimed",
                path=self.engine.path)
        if self.engine.handle_refusal(code, record, 1, True):
            return CL_NATIVE_DROPPED
        return CL_OK

    cdef int append_named(
        self, const cl_record_input *record, object headers, uint64_t *position
    ) except -2:
        """Append a record with headers. The interpreter's lock keeps Python's appends away while
        the writer takes records.
        """
        cdef int code
        if self.native.forks != cl_tailer_forks:
            return self.attend(CL_E_FORKED, record)
        while True:
            code = self.engine.append_lent(&self.native, record, headers, position)
            if code == CL_OK:
                return self.attend(CL_OK, record)
            code = self.attend(code, record)
            if code != CL_OK:
                return code


cdef int attend_append(void *owner, int code, const cl_record_input *record) noexcept with gil:
    cdef NativeAppender self = <NativeAppender>owner
    try:
        return self.attend(code, record)
    except BaseException as error:
        self.error = error
        return CL_NATIVE_ERROR


cdef commitlog_appender *appender_open(object log) except NULL:
    cdef NativeAppender self
    if not isinstance(log, LogMethods):
        raise TypeError(f"an appender needs a CommitLog, not a {type(log).__name__}")
    self = NativeAppender.__new__(NativeAppender)
    self.log = log
    self.engine = (<LogMethods>log).engine
    self.engine.lend_writer(&self.native)
    self.native.attend = attend_append
    self.native.owner = <void *>self
    Py_INCREF(self)
    return <commitlog_appender *>&self.native


cdef int appender_append_named(
    commitlog_appender *appender, const cl_record_input *record, object headers, uint64_t *position
) noexcept:
    cdef NativeAppender self = <NativeAppender>(<cl_native_writer *>appender).owner
    try:
        return self.append_named(record, headers, position)
    except BaseException as error:
        self.error = error
        return CL_NATIVE_ERROR


cdef void appender_close(commitlog_appender *appender) noexcept:
    cdef NativeAppender self = <NativeAppender>(<cl_native_writer *>appender).owner
    self.engine.return_writer(&self.native)
    Py_DECREF(self)


cdef object appender_raise(commitlog_appender *appender):
    cdef NativeAppender self = <NativeAppender>(<cl_native_writer *>appender).owner
    error, self.error = self.error, None
    return raise_kept(error)


# --- reader ---------------------------------------------------------------------------------------

@cython.no_gc
cdef class NativeReader:
    """A reader of the C API. Only C code refers to it, by its `native`."""

    cdef cl_native_reader native
    cdef object tailer
    cdef Cursor cursor
    cdef object error

    cdef int read(self, cl_record *record) except -2:
        """Read the next record where the interpreter is needed."""
        cdef Cursor cursor = self.cursor
        cursor.busy = False
        try:
            cursor.guard()
            return CL_OK if step(cursor, record) else CL_NATIVE_END
        finally:
            cursor.busy = True

    cdef int attend(self, int code, cl_record *record) except -2:
        if code == CL_E_FORKED:
            raise ForkedError(
                "a reader of the C API belongs to the process that opened it: open one in this "
                "process", path=self.cursor.core.path)
        if code != CL_E_END:
            return self.read(record)
        self.cursor.core.look()
        if self.cursor.reader.watermark != NULL:
            self.cursor.core.ask_for_flush()
        return CL_OK


cdef int attend_read(void *owner, int code, cl_record *record) noexcept with gil:
    cdef NativeReader self = <NativeReader>owner
    try:
        return self.attend(code, record)
    except BaseException as error:
        self.error = error
        return CL_NATIVE_ERROR


cdef commitlog_reader *reader_open(object tailer) except NULL:
    cdef NativeReader self
    cdef Cursor cursor
    if not isinstance(tailer, ReadMethods):
        raise TypeError(f"a reader needs a Tailer, not a {type(tailer).__name__}")
    cursor = (<ReadMethods>tailer).cursor
    cursor.guard()
    if cursor.selection is not None:
        raise InvalidOptionError(
            "the C API reads every record: give it a tailer of `log.tailer`, not of `log.view`",
            path=cursor.core.path)
    if cursor.turned:
        raise InvalidOptionError(
            "the C API only reads forward: set the tailer's direction to "
            "'forward'", path=cursor.core.path)
    if cursor.reader.from_buffer and cursor.core.pooled:
        raise InvalidOptionError(
            "the C API reads a pooled log from its segments: open the tailer with "
            "visibility='committed', 'flushed' or 'replicated'", path=cursor.core.path)
    self = NativeReader.__new__(NativeReader)
    self.tailer = tailer
    self.cursor = cursor
    cl_native_reader_init(
        &self.native, &cursor.reader, NULL if cursor.page is None else &cursor.page.mark)
    self.native.attend = attend_read
    self.native.owner = <void *>self
    self.native.asks = cursor.reader.watermark != NULL or not cursor.core.cursors.shared
    cursor.core.enter()
    cursor.busy = True
    Py_INCREF(self)
    return <commitlog_reader *>&self.native


cdef void reader_close(commitlog_reader *reader) noexcept:
    cdef NativeReader self = <NativeReader>(<cl_native_reader *>reader).owner
    if self.native.forks == cl_tailer_forks:
        self.cursor.rest()
        self.cursor.core.leave()
    Py_DECREF(self)


cdef object reader_headers(commitlog_reader *reader, const cl_record *record):
    cdef Cursor cursor = (<NativeReader>(<cl_native_reader *>reader).owner).cursor
    cdef Segment segment = cursor.segment
    if segment is None or not (
        segment.segment.base < record.position < segment.segment.base + segment.segment.size
    ):
        raise InvalidOptionError(
            "the C API reads headers of the record that the reader returned last",
            path=cursor.core.path)
    return headers_at(segment, record.position - segment.segment.base)


cdef object reader_raise(commitlog_reader *reader):
    cdef NativeReader self = <NativeReader>(<cl_native_reader *>reader).owner
    error, self.error = self.error, None
    return raise_kept(error)


cdef commitlog_api _functions
_functions.version = COMMITLOG_API_VERSION
_functions.appender_open = appender_open
_functions.appender_close = appender_close
_functions.append = <append_function>cl_native_append
_functions.claim = <claim_function>cl_native_reserve
_functions.publish = <publish_function>cl_native_publish
_functions.abandon = <abandon_function>cl_native_abandon
_functions.appender_raise = appender_raise
_functions.reader_open = reader_open
_functions.reader_close = reader_close
_functions.next = <next_function>cl_native_next
_functions.wait = <wait_function>cl_native_wait
_functions.reader_raise = reader_raise
_functions.append_named = <append_named_function>appender_append_named
_functions.reader_headers = <headers_function>reader_headers
api = PyCapsule_New(<void *>&_functions, COMMITLOG_API_CAPSULE, NULL)
