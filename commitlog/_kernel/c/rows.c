/* One claim for as many rows or records as fit. */
#include "rows.h"

#include <string.h>

#include "crc32c.h"
#include "crc32c_steps.h"
#include "marked.h"

#ifdef HAS_INSTRUCTIONS

/* As write_rows, for short frames. */
WITH_CRC static uint64_t write_short_rows(const cl_segment *segment, uint32_t offset,
                                          const cl_rows *rows, size_t first, size_t count,
                                          int64_t timestamp_ns, int64_t *positions) {
    const uint32_t seed = segment->seed, length = CL_FRAME_HEADER + rows->length;
    const uint32_t step = cl_frame_aligned(length);
    const uint64_t base = segment->base;
    const size_t stride = rows->stride;
    const uint8_t *from = rows->data + first * stride;
    uint8_t *at = segment->bytes + offset;
    uint64_t first_cell;
    void *cell_at = &first_cell;
    for (size_t row = 0; row < count; row++) {
        __builtin_prefetch(at + CL_AHEAD, 1);
        uint64_t cell = write_plain_frame(seed, offset, at, from, length, timestamp_ns);
        memcpy(cell_at, &cell, sizeof cell);
        positions[row] = (int64_t)(base + offset);
        at += step;
        cell_at = at;
        offset += step;
        from += stride;
    }
    return first_cell;
}

#endif

/* Writes all frames but the first one's cell, which is returned. */
static uint64_t write_rows(const cl_segment *segment, uint32_t offset, const cl_rows *rows,
                           size_t first, size_t count, int64_t timestamp_ns, int64_t *positions) {
#ifdef HAS_INSTRUCTIONS
    if (rows->length < INTERLEAVED_LEAST && cl_crc32c_steps) {
        return write_short_rows(segment, offset, rows, first, count, timestamp_ns, positions);
    }
#endif
    cl_record_input input = {.value = rows->data + first * rows->stride,
                             .value_length = rows->length,
                             .key_length = CL_KEYLEN_NONE,
                             .timestamp_ns = timestamp_ns};
    uint64_t first_cell;
    void *cell_at = &first_cell;
    for (size_t row = 0; row < count; row++) {
        uint64_t cell = cl_frame_write(segment, offset, &input);
        memcpy(cell_at, &cell, sizeof cell);
        positions[row] = (int64_t)(segment->base + offset);
        offset += cl_frame_aligned(CL_FRAME_HEADER + rows->length);
        cell_at = segment->bytes + offset;
        input.value = (const uint8_t *)input.value + rows->stride;
    }
    return first_cell;
}

/* The most bytes of a batch; one frame may be larger. */
static uint32_t batch_most(const cl_writer *writer) {
    return writer->largest < CL_FRAME_ADD_LIMIT ? writer->largest : CL_FRAME_ADD_LIMIT;
}

int cl_writer_append_rows(cl_writer *writer, const cl_rows *rows, size_t *done,
                          int64_t *positions) {
    int refusal = cl_writer_refusal(writer);
    if (refusal != CL_OK) {
        return refusal;
    }
    cl_assert(*done, <=, rows->count);
    if ((uint64_t)CL_FRAME_HEADER + rows->length > writer->largest) {
        return CL_E_TOO_LARGE;
    }
    uint32_t step = cl_frame_aligned(CL_FRAME_HEADER + rows->length);
    size_t most = batch_most(writer) / step;
    most = most == 0 ? 1 : most;
    /* A batch that another handle rolls back is retried until `cl_batch_publish` gives up. */
    while (*done < rows->count) {
        size_t count = rows->count - *done < most ? rows->count - *done : most;
        int64_t timestamp_ns = rows->timestamp_ns;
        cl_claim claim;
        int code = cl_batch_claim(writer, (uint32_t)count * step, &timestamp_ns, &claim);
        if (code != CL_OK) {
            return code;
        }
        uint64_t first_cell = write_rows(claim.segment, claim.offset, rows, *done, count,
                                         timestamp_ns, positions + *done);
        code = cl_batch_publish(writer, &claim, first_cell, (uint32_t)count);
        if (code == CL_OK) {
            *done += count;
            cl_assert(*done, <=, rows->count);
        } else if (code != CL_E_ROLLED_BACK) {
            return code;
        }
    }
    return CL_OK;
}

/* As cl_frame_write, at now_ns if the record has no timestamp. */
static uint64_t write_record(const cl_segment *segment, uint32_t offset,
                             const cl_record_input *input, int64_t now_ns) {
    cl_record_input record = *input;
    record.timestamp_ns = record.timestamp_ns < 0 ? now_ns : record.timestamp_ns;
    return cl_frame_write(segment, offset, &record);
}

#ifdef HAS_INSTRUCTIONS

/* As write_record, for a short value without key and type. */
WITH_CRC static __attribute__((noinline)) uint64_t write_short_record(const cl_segment *segment,
                                                                      uint32_t offset,
                                                                      const cl_record_input *input,
                                                                      int64_t now_ns) {
    return write_plain_frame(segment->seed, offset, segment->bytes + offset, input->value,
                             CL_FRAME_HEADER + input->value_length,
                             input->timestamp_ns < 0 ? now_ns : input->timestamp_ns);
}

#endif

/* As cl_batch_append, for records of which some have headers. */
static __attribute__((noinline)) int append_headed(cl_writer *writer, const cl_claim *claim,
                                                   const cl_record_input *records,
                                                   const cl_headers *headers, size_t count,
                                                   int64_t now_ns, int64_t *positions) {
    const cl_segment *segment = claim->segment;
    uint32_t offset = claim->offset;
    uint64_t cell, first_cell;
    void *cell_at = &first_cell;
    for (size_t index = 0; index < count; index++) {
        cl_record_input record = records[index];
        record.timestamp_ns = record.timestamp_ns < 0 ? now_ns : record.timestamp_ns;
        cell = cl_marked_write(segment, offset, &record, &headers[index], NULL);
        memcpy(cell_at, &cell, sizeof cell);
        offset += cl_headers_size(&headers[index]);
        positions[index] = (int64_t)(segment->base + offset);
        offset += cl_frame_aligned((uint32_t)cl_input_length(&record));
        cell_at = segment->bytes + offset;
    }
    cl_assert(offset, ==, claim->offset + claim->length);
    return cl_batch_publish(writer, claim, first_cell, (uint32_t)count);
}

int cl_batch_append(cl_writer *writer, const cl_claim *claim, const cl_record_input *records,
                    const cl_headers *headers, size_t count, int64_t now_ns, int64_t *positions) {
    const cl_segment *segment = claim->segment;
    uint32_t offset = claim->offset;
    uint64_t cell, first_cell;
    void *cell_at = &first_cell;
    cl_assert(count, >, 0);
    if (headers != NULL) {
        return append_headed(writer, claim, records, headers, count, now_ns, positions);
    }
    for (size_t index = 0; index < count; index++) {
        const cl_record_input *record = &records[index];
#ifdef HAS_INSTRUCTIONS
        bool is_short = record->value_length < INTERLEAVED_LEAST && !cl_input_extended(record);
        cell = is_short && cl_crc32c_steps ? write_short_record(segment, offset, record, now_ns)
                                           : write_record(segment, offset, record, now_ns);
#else
        cell = write_record(segment, offset, record, now_ns);
#endif
        memcpy(cell_at, &cell, sizeof cell);
        positions[index] = (int64_t)(segment->base + offset);
        offset += cl_frame_aligned((uint32_t)cl_input_length(record));
        cell_at = segment->bytes + offset;
    }
    cl_assert(offset, ==, claim->offset + claim->length);
    return cl_batch_publish(writer, claim, first_cell, (uint32_t)count);
}

int cl_writer_append_records(cl_writer *writer, const cl_record_input *records, size_t count,
                             size_t *done, int64_t *positions) {
    int refusal = cl_writer_refusal(writer);
    if (refusal != CL_OK) {
        return refusal;
    }
    const uint32_t most = batch_most(writer);
    while (*done < count) { /* as for rows */
        const cl_record_input *first = records + *done;
        uint32_t bytes = cl_frame_aligned((uint32_t)cl_input_length(first));
        size_t batch = 1;
        for (; *done + batch < count; batch++) {
            uint32_t step = cl_frame_aligned((uint32_t)cl_input_length(first + batch));
            if ((uint64_t)bytes + step > most) {
                break;
            }
            bytes += step;
        }
        int64_t now_ns = -1;
        cl_claim claim;
        int code = cl_batch_claim(writer, bytes, &now_ns, &claim);
        if (code == CL_OK) {
            code = cl_batch_append(writer, &claim, first, NULL, batch, now_ns, positions + *done);
        }
        if (code == CL_OK) {
            *done += batch;
            cl_assert(*done, <=, count);
        } else if (code != CL_E_ROLLED_BACK) {
            return code;
        }
    }
    return CL_OK;
}
