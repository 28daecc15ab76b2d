#include "postings.h"

#include "crc32c.h"

static uint64_t pair_of(const void *bytes, size_t length, uint32_t offset) {
    return (uint64_t)cl_crc32c(0, bytes, length) << 32 | offset;
}

int cl_postings_read(cl_reader *reader, cl_postings *postings) {
    uint32_t type = 0;
    uint64_t type_hash = pair_of(&type, sizeof type, 0);
    while (postings->records < postings->most) {
        cl_record record;
        int code = cl_reader_next(reader, &record);
        if (code != CL_OK) {
            return code;
        }
        const uint32_t offset = (uint32_t)(record.position - reader->segment->base);
        if (record.type != type) {
            type = record.type;
            type_hash = pair_of(&type, sizeof type, 0);
        }
        postings->types[postings->records++] = type_hash | offset;
        if (record.key != NULL) {
            postings->keys[postings->keyed++] = pair_of(record.key, record.key_length, offset);
        }
    }
    return CL_E_FULL;
}
