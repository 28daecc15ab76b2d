# Appends on a condition: the log ends at the sequence that the caller expects.

cdef enum:
    CLAIM_NAP_NS = 50_000
    PATIENCE_NS = 1_000_000_000  # beyond two claim timeouts


cdef object begin_condition(cl_condition *condition, object expect):
    """Begin the condition of one append; check the argument ``expect=``."""
    memset(condition, 0, sizeof(cl_condition))
    try:
        if isinstance(expect, bool):
            raise TypeError
        condition.expect = PyNumber_Index(expect)
    except (TypeError, OverflowError):
        raise RecordTypeError(
            f"expect must be a sequence, an int of at least 0, not {expect!r}"
        ) from None


cdef int try_expected(
    Writer writer, bytes value, object expect, uint64_t *position
) noexcept:
    """Append bytes alone on a condition; another code than CL_OK: `append_any` tries again."""
    cdef cl_condition condition
    cdef cl_record_input record
    cdef int overflow = 0
    cdef int64_t sequence
    if not PyLong_CheckExact(expect) or PyBytes_GET_SIZE(value) > CL_FRAME_LIMIT:
        return CL_E_TOO_LARGE
    sequence = PyLong_AsLongLongAndOverflow(expect, &overflow)
    if sequence < 0:
        return CL_E_TOO_LARGE
    memset(&condition, 0, sizeof(condition))
    condition.expect = <uint64_t>sequence
    record.value = PyBytes_AS_STRING(value)
    record.value_length = <uint32_t>PyBytes_GET_SIZE(value)
    record.key_length = CL_KEYLEN_NONE
    record.type = 0
    record.timestamp_ns = -1
    return cl_append_expected(&writer.writer, &record, &condition, position)


cdef bint is_refused(
    Writer writer, int code, cl_condition *condition, const cl_record_input *record,
    uint64_t records, bint waits
) except -1:
    """As `Writer.handle_refusal`, for an append on a condition; true also if it must wait for an
    open claim and `waits` is false.
    """
    if code == CL_E_UNRESOLVED:
        return not outwait_claim(writer, condition, waits)
    if code == CL_E_UNCOUNTED:
        position, sequence = writer.policy.count_records()
        cl_counted_set(&writer.writer, position, sequence)
        return False
    if code == CL_E_CONFLICT:
        raise conflict(writer, condition)
    if code == CL_E_DAMAGE:
        raise failure(code, 0, path=writer.path, position=counted_end(writer))
    return writer.handle_refusal(code, record, records, waits)


cdef bint outwait_claim(Writer writer, cl_condition *condition, bint waits) except -1:
    """Wait for the open claim that keeps the records below the tail from being counted, if `waits`;
    return `waits`.
    """
    cdef int64_t now_ns = cl_clock_monotonic_ns()
    writer.check_claims(<uint64_t>-1)
    if condition.deadline_ns == 0:
        condition.deadline_ns = now_ns + 2 * writer.log.claim_timeout_ns + PATIENCE_NS
    if now_ns >= condition.deadline_ns:
        raise SequenceError(
            "nothing was appended: the log's records cannot be counted, because a claim among them "
            "is still open: try again", path=writer.path, position=counted_end(writer))
    if waits:
        with nogil:
            cl_sleep_ns(CLAIM_NAP_NS)
        PyErr_CheckSignals()
    return waits


cdef object counted_end(Writer writer):
    """The position up to which the handle has counted."""
    return cl_log_upward(&writer.log, cl_log_position(&writer.log, writer.writer.counted.packed))


cdef object conflict(Writer writer, const cl_condition *condition):
    cdef uint64_t actual = writer.writer.counted.sequence
    return ConflictError(
        f"the log ends at sequence {actual}, not at {condition.expect}: nothing was appended. Read "
        f"what the log has, decide again, and append with expect={actual}",
        path=writer.path, position=counted_end(writer), expected=condition.expect, actual=actual)
