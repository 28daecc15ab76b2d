/* The page of a named tailer, which another process may have left in any state. */
#include "fuzz.h"
#include "tailer_page.h"

static void repair_terms(uint8_t *at) {
    cl_tailer_terms terms;
    memcpy(&terms, at, sizeof terms);
    terms.magic = CL_TAILER_MAGIC;
    terms.crc = cl_crc32c(0, &terms, offsetof(cl_tailer_terms, crc));
    memcpy(at, &terms, sizeof terms);
}

static void repair_saved(uint8_t *at) {
    cl_tailer_saved saved;
    memcpy(&saved, at, sizeof saved);
    saved.check = cl_tailer_saved_check(saved.position, saved.count);
    memcpy(at, &saved, sizeof saved);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
    uint32_t state = seed;
    const size_t least = CL_TAILER_PLACES_AT + 2 * CL_TAILER_STRIDE;
    size = LLVMFuzzerMutate(data, size, most);
    if (size < least && least <= most && next_number(&state) % 8 != 0) {
        memset(data + size, 0, least - size);
        size = least;
    }
    for (uint32_t turn = 0; turn < 2; turn++) {
        size_t terms = CL_TAILER_TERMS_AT + turn * CL_TAILER_STRIDE;
        size_t saved = CL_TAILER_PLACES_AT + turn * CL_TAILER_STRIDE;
        if (terms + sizeof(cl_tailer_terms) <= size && next_number(&state) % 8 != 0) {
            repair_terms(data + terms);
        }
        if (saved + sizeof(cl_tailer_saved) <= size && next_number(&state) % 8 != 0) {
            repair_saved(data + saved);
        }
    }
    return size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *page = aligned_alloc(CL_FRAME_ALIGN, CL_TAILER_SIZE);
    cl_tailer_terms terms, written;
    cl_tailer_saved saved, again;
    REQUIRE(page != NULL);
    memset(page, 0, CL_TAILER_SIZE);
    memcpy(page, data, size < CL_TAILER_SIZE ? size : CL_TAILER_SIZE);
    int code = cl_tailer_read_terms(page, fuzz_uuid, &terms);
    REQUIRE(code == CL_OK || code == CL_E_ABSENT || code == CL_E_FOREIGN);
    if (code == CL_OK) {
        REQUIRE(memcmp(terms.log_uuid, fuzz_uuid, sizeof fuzz_uuid) == 0);
        if (terms.count < UINT64_MAX) {
            cl_tailer_write_terms(page, &terms);
            REQUIRE(cl_tailer_read_terms(page, fuzz_uuid, &written) == CL_OK);
            REQUIRE(written.count == terms.count);
        }
    }
    code = cl_tailer_read_saved(page, &saved);
    REQUIRE(code == CL_OK || code == CL_E_ABSENT);
    if (code == CL_OK) {
        /* As the owner does when it opens the page: it goes on from the record in force. */
        cl_tailer_mark mark = {.page = page, .count = saved.count, .forks = cl_tailer_forks};
        cl_tailer_save(&mark, saved.position + 8);
        REQUIRE(cl_tailer_read_saved(page, &again) == CL_OK);
        /* Of two records whose counts are half of all apart, neither is the newer. */
        if (again.count == saved.count + 1) {
            REQUIRE(again.position == saved.position + 8);
        }
    }
    free(page);
    return 0;
}
