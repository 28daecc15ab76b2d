/* One handle on a log of its own, and bytes to append. Shared by the tests of the writer. */
#ifndef STAGE_H
#define STAGE_H

#include "kernel_test.h"

#define LARGEST (SMALL / 8u)

static UNUSED uint8_t noise[1 << 20];

static UNUSED void fill_noise(void) {
    uint64_t state = 0x9E3779B97F4A7C15ull;
    for (size_t index = 0; index < sizeof noise; index++) {
        noise[index] = (uint8_t)next_random(&state);
    }
}

static UNUSED void start(test_place *place, test_handle *handle, uint64_t size, bool plain) {
    make_place(place, size);
    open_handle(place, handle, plain);
}

static UNUSED void end(test_place *place, test_handle *handle) {
    /* Failed calls, too, must leave the slot's counter even. */
    CHECK(place->cursors->slots[handle->log.slot].counter % 2 == 0);
    close_handle(handle);
    drop_place(place);
}

#endif
