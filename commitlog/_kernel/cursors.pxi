# The `cursors` file as an object: identity, state, watermarks and slots.

cdef extern from *:
    """
    #include <sys/mman.h>
    """
    int MREMAP_MAYMOVE, MREMAP_FIXED
    void *mremap(void *address, size_t size, size_t new_size, int flags, ...)

CURSORS_SIZE = CL_CURSORS_SIZE
SLOTS = CL_CURSORS_SLOTS
SLOT_LOCK_AT = CL_SLOT_LOCK_AT
STATE_NONE = CL_STATE_NONE
STATE_RECOVERING = CL_STATE_RECOVERING
STATE_READY = CL_STATE_READY
MODE_MAPPED = CL_MODE_MAPPED
MODE_POOLED = CL_MODE_POOLED


def slot_alive(int lock_fd, int fd, uint32_t slot):
    """Whether the owner of a slot lives: other open descriptions than `lock_fd` of `lock` (-1:
    none) and `fd` of `cursors` lock it.
    """
    cdef cl_slot_fds fds
    fds.lock, fds.cursors = lock_fd, fd
    return cl_slot_alive(fds, slot)


cdef extern from *:
    """
    #define CL_AT(cell) offsetof(cl_cursors, cell)
    static const size_t cl_cells_at[] = {
        CL_AT(state), CL_AT(appended), CL_AT(committed), CL_AT(flushed), CL_AT(failed),
        CL_AT(flusher), CL_AT(waiters), CL_AT(append_signal), CL_AT(rolled_back), CL_AT(required),
        CL_AT(replicated), CL_AT(copied), CL_AT(flush_wanted), CL_AT(cut), CL_AT(cuts),
    };
    """
    const size_t cl_cells_at[15]

cdef tuple CELL_NAMES = (  # in the order of `cl_cells_at`
    "state", "appended", "committed", "flushed", "failed", "flusher", "waiters", "append_signal",
    "rolled_back", "required", "replicated", "copied", "flush_wanted", "cut", "cuts",
)
cdef dict CELLS = {name: cl_cells_at[index] for index, name in enumerate(CELL_NAMES)}


cdef uint64_t *_cell(Cursors cursors, str name) except NULL:
    cdef size_t at = CELLS[name]
    return &(<cl_line *>(<uint8_t *>cursors.cells + at)).value


cdef void raise_and_wake(cl_cursors *cells, uint64_t *cell, uint64_t position) noexcept:
    """Raise `replicated` or `copied`, and wake those that sleep until it moves."""
    if position > cl_load(cell):
        cl_raise(cell, position)
        cl_futex_raise(<uint32_t *>&cells.replicated_signal.value)


cdef class Cursors:
    """The shared cells of a log.

    Parameters
    ----------
    fd : int
        Descriptor of the `cursors` file, at least `CURSORS_SIZE` bytes long; -1 for a private
        stand-in, all zero.
    writable : bool
        Map it for writing.

    Raises
    ------
    ValueError
        The file is too short.
    OSError
        The file could not be mapped.
    """

    def __cinit__(self, int fd, bint writable):
        cdef int code
        self.shared = fd >= 0
        self.writable = writable or fd < 0
        if fd < 0:
            code = cl_memory_map(&self.area, CL_CURSORS_SIZE)
        else:
            code = cl_memory_map_descriptor(&self.area, fd, 0, CL_CURSORS_SIZE, writable)
        if code == CL_E_TRUNCATED:
            raise ValueError("the file is too short")
        if code != 0:
            raise OSError(errno, os.strerror(errno))
        self.cells = <cl_cursors *>self.area.bytes

    def __dealloc__(self):
        cl_memory_unmap(&self.area)

    def part(self):
        """Replace the file's mapping by a private copy of its last cells, without the slots. If
        memory is short, the file stays mapped.
        """
        cdef size_t kept = <char *>self.cells.slots - <char *>self.cells
        if self.shared and cl_memory_part(&self.area, kept) == 0:
            self.shared = False
            self.writable = True

    def become(self, Cursors live not None):
        """Replace a stand-in by a second view of the live file at the same address: a concurrent
        reader of its cells sees either one.

        Raises
        ------
        OSError
            The system refused, and nothing has changed.
        """
        if self.shared or not live.shared:
            raise ValueError(
                "become() must be called on a private copy, with a shared mapping of the live file"
            )
        # With length 0, mremap does not move a shared mapping but adds a second view.
        if mremap(
            live.cells, 0, CL_CURSORS_SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, <void *>self.cells
        ) != <void *>self.cells:
            raise OSError(errno, os.strerror(errno))
        self.writable = live.writable
        self.shared = True

    def matches(self, bytes log_uuid, bytes boot_id, uint64_t inode, uint64_t segment_size):
        """Whether the file belongs to this log, boot and inode, in a layout that this release
        knows.
        """
        cdef cl_cursors *cells = self.cells
        return (
            cells.magic == CL_CURSORS_MAGIC and cells.version == CL_CURSORS_VERSION
            and cells.size == CL_CURSORS_SIZE and cells.slot_count == CL_CURSORS_SLOTS
            and <bytes>(<char *>cells.log_uuid)[:CL_UUID_SIZE] == log_uuid
            and <bytes>(<char *>cells.boot_id)[:CL_UUID_SIZE] == boot_id
            and cells.inode == inode and cells.segment_size == segment_size
        )

    def rebuild(self, bytes log_uuid, bytes boot_id, uint64_t inode, uint64_t segment_size):
        """Write a fresh identity over the whole file, in place, in the state RECOVERING. Slot
        generations continue to count, and so do the cuts of this boot.
        """
        cdef cl_cursors *cells = self.cells
        cdef uint32_t generations[CL_CURSORS_SLOTS]
        cdef uint32_t index
        cdef const uint8_t *log_bytes = uuid_of(log_uuid)
        cdef const uint8_t *boot_bytes = uuid_of(boot_id)
        cdef bint known = cells.magic == CL_CURSORS_MAGIC and cells.slot_count == CL_CURSORS_SLOTS
        cdef uint64_t cuts = 0
        for index in range(CL_CURSORS_SLOTS):
            generations[index] = cells.slots[index].generation if known else 0
        if known and <bytes>(<char *>cells.boot_id)[:CL_UUID_SIZE] == boot_id:
            cuts = cells.cuts.value + (cells.cut.value != 0)
        cl_store(&cells.magic, 0)
        memset(<char *>cells + sizeof(cells.magic), 0, CL_CURSORS_SIZE - sizeof(cells.magic))
        for index in range(CL_CURSORS_SLOTS):
            cells.slots[index].generation = generations[index]
        cells.state.value = CL_STATE_RECOVERING
        cells.cuts.value = cuts
        cells.version = CL_CURSORS_VERSION
        cells.size = CL_CURSORS_SIZE
        cells.slot_count = CL_CURSORS_SLOTS
        memcpy(cells.log_uuid, log_bytes, CL_UUID_SIZE)
        memcpy(cells.boot_id, boot_bytes, CL_UUID_SIZE)
        cells.inode = inode
        cells.segment_size = segment_size
        cl_store(&cells.magic, CL_CURSORS_MAGIC)

    @property
    def flush_leader(self):
        """The slot whose owner leads a flush now, or None."""
        cdef uint64_t owner = cl_load(&self.cells.flusher.value)
        return cl_owner_slot(<uint32_t>owner) if owner != 0 else None

    @property
    def tail(self):
        """The tail as (segment number, offset); (0, 0) where there is none."""
        cdef uint64_t place = cl_load(&self.cells.tail.value)
        return cl_tail_number(place), cl_tail_offset(place)

    @tail.setter
    def tail(self, place):
        number, offset = place
        cl_store(&self.cells.tail.value, cl_tail_pack(number, offset))

    @property
    def allocated(self):
        """The segment that may be without some of its blocks, as (segment number, offset up to
        which it has them); (0, 0) where all segments have all.
        """
        cdef uint64_t place = cl_load(&self.cells.allocated.value)
        return cl_tail_number(place), cl_tail_offset(place)

    @allocated.setter
    def allocated(self, place):
        number, offset = place
        cl_store(&self.cells.allocated.value, cl_tail_pack(number, offset))

    @property
    def mode(self):
        """Mapped or pooled: the mode of the current writers, or of the last."""
        return self.cells.mode

    @mode.setter
    def mode(self, uint32_t value):
        self.cells.mode = value

    def __getitem__(self, str name):
        return cl_load(_cell(self, name))

    def raise_cell(self, str name):
        """Add one to a cell that any process may add to."""
        cl_add(_cell(self, name), 1)

    def wake_readers(self):
        """Wake the readers that sleep until the next publish. Requires a shared, writable file."""
        cl_store(&self.cells.waiters.value, 0)
        cl_futex_raise(<uint32_t *>&self.cells.append_signal.value)

    def end_flush(self, uint64_t flushed):
        """Raise the flushed position, and wake the readers that sleep until a flush."""
        cl_store(&self.cells.flushed.value, flushed)
        cl_futex_raise(<uint32_t *>&self.cells.flush_signal.value)

    def raise_replicated(self, uint64_t position):
        """Raise the replicated position, and wake the readers that sleep until it moves."""
        raise_and_wake(self.cells, &self.cells.replicated.value, position)

    def raise_copied(self, uint64_t position):
        """Raise the position that enough copies have, and wake the appends that wait for it."""
        raise_and_wake(self.cells, &self.cells.copied.value, position)

    def wake_copied(self):
        """End each `wait_copied`."""
        cl_futex_raise(<uint32_t *>&self.cells.replicated_signal.value)

    def __setitem__(self, str name, uint64_t value):
        # A release store: a reader of a state or watermark also sees all earlier writes.
        cl_store(_cell(self, name), value)

    def slots(self):
        """The slots that were attached and not detached: (index, pid, attached_ns, rolled_back,
        pid_namespace, counter).
        """
        cdef uint32_t index
        cdef cl_slot *slot
        taken = []
        for index in range(CL_CURSORS_SLOTS):
            slot = &self.cells.slots[index]
            if slot.pid != 0:
                taken.append(
                    (
                        index, slot.pid, slot.attached_ns, slot.rolled_back, slot.pid_namespace,
                        cl_load(&slot.counter)
                    )
                )
        return taken
