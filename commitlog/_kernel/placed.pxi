# Appends of records whose values depend on their positions. The end of the log is looked at, the
# values are made for that place, and the append succeeds only there: so no claim is open meanwhile.

cdef enum:
    OVERTAKEN_BEFORE_CLAIM = 8
    OVERTAKEN_MOST = 1000


cdef int append_placed(Writer writer, RecordList records, bint waits) except -1:
    """Append the rest of a list, in batches; afterwards `done` says how many of its records are
    appended. The rest is dropped, or held while the caller does not wait.
    """
    cdef uint64_t length = 0
    cdef Py_ssize_t end
    while records.done < records.count:
        end = records.batch_end(min(writer.writer.largest, CL_FRAME_ADD_LIMIT), &length)
        if not append_batch_placed(writer, records, end, length, waits):
            break
        records.done = end
    return 0


cdef bint append_batch_placed(
    Writer writer, RecordList records, Py_ssize_t end, uint64_t length, bint waits
) except -1:
    """Append the records up to `end` as one claim of `length` bytes; return False if they are
    dropped or held. If other appends move the end of the log too often, claim a range first.
    """
    cdef const cl_record_input *first = &records.records[records.done]
    cdef bint is_alone = writer.writer.plain or records.is_conditional
    cdef bint is_over
    cdef int code
    cdef int overtaken = 0
    while overtaken < OVERTAKEN_MOST:
        # Before the look: what it does may let other threads append.
        values_at = records.placing(records.done, end)
        if is_alone or overtaken < OVERTAKEN_BEFORE_CLAIM:
            code = append_at_end(writer, records, end, length, values_at)
        else:
            code = append_claimed(writer, records, end, length, values_at)
        if code == CL_OK:
            return True
        if code == CL_E_MOVED or code == CL_E_ROLLED_BACK:
            overtaken += 1
            continue
        if records.is_conditional:
            is_over = is_refused(writer, code, &records.condition, first, records.count, waits)
        else:
            is_over = writer.handle_refusal(code, first, records.count - records.done, waits)
        if is_over:
            return False
    raise writer.failed_with(CL_E_BUSY, 0, None)


cdef int append_at_end(
    Writer writer, RecordList records, Py_ssize_t end, uint64_t length, object values_at
) except? -1:
    """Append the records up to `end` where the log ends now. CL_E_MOVED: it ends elsewhere."""
    cdef const cl_record_input *first = &records.records[records.done]
    cdef Py_ssize_t count = end - records.done
    cdef uint64_t packed = 0 if writer.writer.tail == NULL else cl_load(writer.writer.tail)
    records.put_at(cl_log_position(&writer.log, packed), end, values_at)
    if records.is_conditional:
        records.condition.place = packed
        return cl_append_records_expected(
            &writer.writer, first, records.headers_from(records.done), count, length,
            &records.condition, records.places + records.done
        )
    return cl_append_records_at(
        &writer.writer, packed, first, records.headers_from(records.done), count, length,
        records.places + records.done
    )


cdef int append_claimed(
    Writer writer, RecordList records, Py_ssize_t end, uint64_t length, object values_at
) except? -1:
    """Append the records up to `end` into a range that is claimed before their values are made."""
    cdef int64_t now_ns = -1
    cdef cl_claim claim
    cdef int code = cl_batch_claim(&writer.writer, <uint32_t>length, &now_ns, &claim)
    if code != CL_OK:
        return code
    cl_claim_hold(claim.segment)
    start = claim.segment.base + claim.offset
    writer.claims[start] = _get_ident()
    try:
        records.put_at(start, end, values_at)
        return cl_batch_append(
            &writer.writer, &claim, &records.records[records.done],
            records.headers_from(records.done), end - records.done, now_ns,
            records.places + records.done
        )
    except BaseException:
        cl_writer_abandon(&writer.writer, &claim)
        raise
    finally:
        writer.claims.pop(start, None)
        cl_claim_release(&writer.log, claim.segment)
