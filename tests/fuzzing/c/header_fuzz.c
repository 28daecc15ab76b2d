/* The header page of a segment: identity, opened part, durable position, seal. */
#include "fuzz.h"

#define PAGE CL_SEGMENT_HEADER
#define SIZE (64u << 10)

static void repair(uint8_t *page, uint32_t *state) {
    cl_header_identity identity;
    cl_header_opened opened;
    cl_header_durable durable;
    cl_header_seal seal;
    memcpy(&identity, page, sizeof identity);
    identity.magic = next_number(state) % 16 ? CL_SEGMENT_MAGIC : identity.magic;
    identity.crc = cl_crc32c(0, &identity, offsetof(cl_header_identity, crc));
    memcpy(page, &identity, sizeof identity);
    memcpy(&opened, page + CL_HEADER_OPENED_AT, sizeof opened);
    opened.crc = cl_header_opened_crc(identity.segment_id, opened.opened_ns, opened.cycle);
    memcpy(page + CL_HEADER_OPENED_AT, &opened, sizeof opened);
    memcpy(&durable, page + CL_HEADER_DURABLE_AT, sizeof durable);
    durable.crc = cl_header_durable_crc(identity.segment_id, durable.position);
    memcpy(page + CL_HEADER_DURABLE_AT, &durable, sizeof durable);
    memcpy(&seal, page + CL_HEADER_SEAL_AT, sizeof seal);
    seal.sealed = next_number(state) % 16 ? 1 : seal.sealed;
    seal.crc = cl_header_seal_crc(identity.segment_id, &seal);
    memcpy(page + CL_HEADER_SEAL_AT, &seal, sizeof seal);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
    uint32_t state = seed;
    size = LLVMFuzzerMutate(data, size, most);
    if (size >= CL_HEADER_SEAL_AT + sizeof(cl_header_seal) && next_number(&state) % 8 != 0) {
        repair(data, &state);
    }
    return size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *page = calloc(1, PAGE);
    cl_header_identity identity;
    cl_header_opened opened;
    cl_header_seal seal;
    REQUIRE(page != NULL);
    memcpy(page, data, size < PAGE ? size : PAGE);
    memcpy(&identity, page, sizeof identity);
    int code = cl_header_check(page, NULL, identity.base, identity.size);
    REQUIRE(code == CL_OK || code == CL_E_HEADER || code == CL_E_VERSION);
    REQUIRE(cl_header_check(page, NULL, identity.base + 1, identity.size) != CL_OK);
    if (cl_header_check(page, fuzz_uuid, identity.base, SIZE) == CL_OK) {
        REQUIRE(code == CL_OK && memcmp(identity.log_uuid, fuzz_uuid, CL_UUID_SIZE) == 0);
    }
    uint64_t position = cl_header_durable_read(page, identity.segment_id, identity.base);
    REQUIRE(position <= identity.base && position % CL_FRAME_ALIGN == 0);
    REQUIRE(!cl_header_opened_read(page, identity.segment_id, &opened) || opened.opened_ns > 0);
    cl_segment segment = {.id = identity.segment_id, .size = SIZE, .map = page};
    if (cl_segment_sealed(&segment, &seal) == CL_OK) {
        REQUIRE(seal.end >= CL_SEGMENT_HEADER && seal.end <= SIZE);
        REQUIRE(seal.record_count <= SIZE / CL_FRAME_HEADER);
        REQUIRE(seal.first_sequence + seal.record_count <= (uint64_t)INT64_MAX);
    }
    free(page);
    return 0;
}
