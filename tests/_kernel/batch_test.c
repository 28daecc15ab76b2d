/* Batches: many records in one claim, with plain stores and with compare-and-swap. */
#include "stage.h"

static void appended_rows_are_read_as_single_records(bool plain) {
    static const uint32_t lengths[] = {0, 1, 8, 24, 40, 1000, 4000, LARGEST - CL_FRAME_HEADER};
    static int64_t positions[5000];
    for (size_t at = 0; at < sizeof lengths / sizeof *lengths; at++) {
        test_place place;
        test_handle handle;
        start(&place, &handle, SMALL, plain);
        size_t count = lengths[at] < 100 ? 5000 : 100;
        cl_rows rows = {.data = noise,
                        .count = count,
                        .stride = lengths[at] + 3,
                        .length = lengths[at],
                        .timestamp_ns = 5};
        size_t done = 0;
        int code;
        while ((code = cl_writer_append_rows(&handle.writer, &rows, &done, positions)) ==
               CL_E_ROLL) {
            CHECK(done < count);
            roll_on(&handle);
        }
        CHECK(code == CL_OK && done == count && scan_log(&handle) == count);
        test_reader reader;
        cl_record record;
        open_reader(&reader, &handle.log);
        for (size_t row = 0; row < count; row++) {
            CHECK(read_on(&reader, &record) == CL_OK &&
                  (int64_t)record.position == positions[row] && record.timestamp_ns == 5);
            CHECK(record.value_length == lengths[at] &&
                  memcmp(record.value, noise + row * rows.stride, record.value_length) == 0);
        }
        CHECK(read_on(&reader, &record) == CL_E_END);
        close_reader(&reader);
        end(&place, &handle);
    }
}

/* Of every length around that of short values, with and without key, type and timestamp. */
static void appended_records_are_read_as_they_were(bool plain) {
    static cl_record_input inputs[3000];
    static int64_t positions[3000];
    const size_t count = sizeof inputs / sizeof *inputs;
    test_place place;
    test_handle handle;
    start(&place, &handle, SMALL, plain);
    for (size_t index = 0; index < count; index++) {
        cl_record_input *input = &inputs[index];
        *input = record_of(noise + index % 7, (uint32_t)(index % 300));
        input->type = index % 5 == 4 ? 9 : 0;
        input->timestamp_ns = index % 3 == 2 ? -1 : (int64_t)index;
        if (index % 11 == 10) {
            input->key = "key";
            input->key_length = (uint32_t)(index % 4);
        }
    }
    inputs[7].value_length = LARGEST - CL_FRAME_HEADER;
    size_t done = 0;
    int code;
    while ((code = cl_writer_append_records(&handle.writer, inputs, count, &done, positions)) ==
           CL_E_ROLL) {
        CHECK(done < count);
        roll_on(&handle);
    }
    CHECK(code == CL_OK && done == count && scan_log(&handle) == count &&
          handle.writer.counters.records == count && handle.writer.counters.appends < count);
    test_reader reader;
    cl_record record;
    open_reader(&reader, &handle.log);
    for (size_t index = 0; index < count; index++) {
        const cl_record_input *input = &inputs[index];
        const bool keyed = input->key_length != CL_KEYLEN_NONE;
        CHECK(read_on(&reader, &record) == CL_OK && (int64_t)record.position == positions[index] &&
              record.type == input->type && record.value_length == input->value_length &&
              memcmp(record.value, input->value, record.value_length) == 0);
        CHECK((record.key != NULL) == keyed &&
              (!keyed || (record.key_length == input->key_length &&
                          memcmp(record.key, input->key, record.key_length) == 0)));
        CHECK(input->timestamp_ns < 0 ? record.timestamp_ns > (int64_t)count
                                      : record.timestamp_ns == input->timestamp_ns);
    }
    CHECK(read_on(&reader, &record) == CL_E_END);
    close_reader(&reader);
    end(&place, &handle);
}

static void batch_is_one_claim_and_becomes_visible_at_once(bool plain) {
    test_place place;
    test_handle handle;
    start(&place, &handle, SMALL, plain);
    cl_claim claim;
    int64_t now_ns = -1;
    cl_record_input input = record_of(noise, 24);
    CHECK(cl_batch_claim(&handle.writer, 3 * 40, &now_ns, &claim) == CL_OK);
    uint64_t first = cl_frame_write(claim.segment, claim.offset, &input);
    for (uint32_t index = 1; index < 3; index++) {
        uint64_t cell = cl_frame_write(claim.segment, claim.offset + index * 40, &input);
        memcpy(claim.segment->bytes + claim.offset + index * 40, &cell, sizeof cell);
    }
    test_reader reader;
    cl_record record;
    open_reader(&reader, &handle.log);
    CHECK(read_on(&reader, &record) == (plain ? CL_E_END : CL_E_BUSY));
    CHECK(cl_batch_publish(&handle.writer, &claim, first, 3) == CL_OK);
    for (int index = 0; index < 3; index++) {
        CHECK(read_on(&reader, &record) == CL_OK && record.value_length == 24);
    }
    CHECK(read_on(&reader, &record) == CL_E_END && handle.writer.counters.appends == 1 &&
          handle.writer.counters.records == 3);
    close_reader(&reader);
    end(&place, &handle);
}

int main(void) {
    fill_noise();
    for (int plain = 0; plain < 2; plain++) {
        appended_rows_are_read_as_single_records(plain);
        appended_records_are_read_as_they_were(plain);
        batch_is_one_claim_and_becomes_visible_at_once(plain);
    }
    return 0;
}
