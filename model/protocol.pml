/* The write protocol of a mapped log: claim, publish, roll-back, gap and roll, for exhaustive
 * search by spin.
 *
 * Three writers append to four cells while two readers read and resolve. Each process may pause
 * between any two steps for any time, because spin tries every interleaving, and writers may also
 * be killed there. One option of an `if` or a `do` is one atomic step of the kernel.
 *
 * Invariants; each `assert` names the one that it states, and so does spin when it finds it broken
 *   I1  no reader sees half a record, nor bytes of a record that was rolled back
 *   I2  all readers, early and late, agree on which records there are: what one of them stepped
 *       over is never published
 *   I3  a publish that succeeded is never lost: no reader steps over a record
 *   I4  a publish that was refused is never seen: every record that is read was published
 *   I5  a cell never goes back: zero, then CLAIMED, then final
 *   I6  an owner that resumes in a marked gap changes nothing, and a rolled-back range is never
 *       used again: only its owner touches the range of a claim
 *   I7  where no timeout passes, no claim of a live owner is rolled back
 *   I8  a roll makes exactly one next segment, whose opened part has one author, and no writer
 *       claims in a segment that is not there
 *   I9  the tail never goes back, and goes past the end by no more than one claim of each slot
 *   I10 dead claims never hold readers forever: when no process can take another step, every reader
 *       has reached the tail; and every run comes to that point (a search for cycles finds none)
 *
 * Functions of commitlog/_kernel that are modelled
 *   claim.h    cl_slot_enter, cl_slot_leave
 *   claim.c    check_tail, claim_try, claim_name, reserve_large, cl_pad_to_end, swap_claim,
 *              cl_writer_publish, cl_writer_abandon
 *   frame_writer.c  cl_frame_write
 *   append.c   cl_writer_append, append_short_swap
 *   writer.c   cl_writer_init, cl_writer_rolls_from
 *   roll.c     cl_writer_close_segment, open_segment, cl_writer_roll
 *   cursors.c  cl_slot_attach, cl_slot_alive
 *   resolve.c  cl_resolve, watch_start, watch_gap, review_suspects, cl_owner_dead, resolve_gap,
 *              mark_gap, resolve_claim
 *   walk.c     cl_walk
 *   segment.c  cl_skip_cell, cl_roll_back
 *   frame_cursor.h  cl_frame_read, cl_frame_verify
 *   reader.c   cl_reader_next, cl_record_read
 *
 * What is abstract, and why nothing is lost by it
 *   - A cell is 8 bytes. A frame has one or two: its own, and one of body, for which one value
 *     does: by I6 only its owner writes there.
 *   - Time: a claim's timeout may pass at any moment (TIMEOUT=1) or never does (TIMEOUT=0). Both
 *     are searched. That a slot which has outstayed the timeout in one gap is not waited for in
 *     another one is a case of the former.
 *   - A counter is its odd bit. "Has changed since" is kept exactly, by taking the slot out of
 *     every reader's suspects in the step that flips it. T0 and the slots are noted in one step,
 *     and suspects are looked at in one step: who notes a slot later than T0 can only note one more
 *     that is odd by then, and who looks later finds fewer. So every marking that the kernel allows
 *     is allowed here.
 *   - What is dead stays dead. To judge first and to swap later is therefore the same as to do both
 *     later, and marking, roll-back and the look before them are one step for each cell. A reader
 *     that stops between two cells, for good or for a while, is every reader here.
 *   - A reader steps over final cells at once, in the step that makes them final: they change no
 *     more (I5, I6), so that reading them later tells the same. A late reader is one that takes its
 *     other steps late.
 *   - Loops around a swap that was refused (reserve_large, cl_writer_roll) are the swap that
 *     succeeds at last: a refused one changes nothing.
 *   - Writers that are alike begin in the order of their numbers, because any other order is the
 *     same run with the names changed.
 *   - A killed reader is one that takes no more steps: it holds nothing. That others get on without
 *     it is in the searches with one reader.
 *   - A generation is one bit, and RESTARTS slots are taken again by a new owner: no slot more
 *     often than that bit can tell.
 *   - Memory is sequentially consistent here; in the kernel the order of its atomic operations sees
 *     to what this needs (atomics.h).
 *   - Sleeping and waking, commits, flushes, recovery and pooled logs are other matters, with tests
 *     of their own.
 *
 * Parameters and mutations come as -D defines: check.py has the tables of the searches and of
 * the mutations. */

#ifndef SEGMENTS
#define SEGMENTS 1
#endif
#ifndef SEGMENT
#define SEGMENT 4 /* cells of a segment */
#endif
#ifndef TIMEOUT
#define TIMEOUT 1
#endif
#ifndef CRASHES
#define CRASHES true
#endif
#ifndef RESTARTS
#define RESTARTS 0 /* how many killed writers' slots are taken again */
#endif
#ifndef READERS
#define READERS 2 /* or 1 */
#endif
#ifndef READ_ONLY_LAST
#define READ_ONLY_LAST 0 /* 1: the last reader opened the log read-only; reader 0 of two resolves */
#endif
#ifndef APPENDS
#define APPENDS 1 /* of each writer */
#endif
#ifndef SWAPPER
/* The writer that claims by compare-and-swap, as large frames do; the others add */
#define SWAPPER WRITERS
#endif
#ifndef CLOSER
/* The writer that may close the segment early, or give its claim up, instead of its append */
#define CLOSER WRITERS
#endif

#define WRITERS 3
#define CELLS (SEGMENTS * SEGMENT)
#define LONGEST 2
#define NONE 255
#define BIT(n) (1 << (n))

/* What a cell can hold. */
#define ZERO 0
#define MARK 1 /* the smallest SKIP, one cell */
#define PAD 2  /* a SKIP to the end of the segment */
#define SKIP_AT 4
#define CLAIMED_AT 16
#define RECORD_AT 32
#define BODY 64
#define SKIP(length) (SKIP_AT + (length))
#define CLAIMED(slot, of, length) (CLAIMED_AT + (slot) + ((of) << 2) + (((length) - 1) << 3))
#define RECORD(length) (RECORD_AT + (((length) - 1) << 3))
#define IS_CLAIMED(value) ((value) >= CLAIMED_AT && (value) < RECORD_AT)
#define IS_RECORD(value) ((value) >= RECORD_AT && (value) < BODY)
#define IS_SKIP(value) ((value) == PAD || ((value) >= SKIP_AT && (value) < CLAIMED_AT))
#define SLOT_OF(value) ((value) & 3)
#define GENERATION_OF(value) (((value) >> 2) & 1)
#define LENGTH_OF(value) ((((value) >> 3) & 1) + 1)

byte cell[CELLS];
byte tail_number, tail_offset; /* one 64-bit cell: both change in one step */
bit exists[SEGMENTS];          /* the segment's file is in place */
bit opened[SEGMENTS];          /* a writer won the opened part of its header */

bit odd[WRITERS];        /* the slot's counter */
bit generation[WRITERS];
bit locked[WRITERS];     /* the owner lives: Linux knows by its lock */
byte restarts;
byte started;            /* how many writers have begun */

/* A reader, with its cl_watch. */
byte at[2];       /* its position */
byte upto[2];     /* T0: the tail's position when the gap was first seen; 0: it watches nothing */
byte suspects[2]; /* slots that were odd then, and have not changed since */

/* Never set: they name the invariant in what spin prints. */
bit I1, I2, I3, I4, I5, I6, I7, I8, I9, I10;

/* Ghost variables: only the invariants use them; no process reads them. */
byte published; /* heads whose publish succeeded */
byte passed;    /* unpublished cells that a read-only reader stepped over as dead */

#define TAIL_POSITION (tail_number * SEGMENT + (tail_offset < SEGMENT -> tail_offset : SEGMENT))
#define ODD_SLOTS (odd[0] | odd[1] << 1 | odd[2] << 2)

/* --- mutations: each makes spin find a counter-example ---------------------------------------- */

#ifndef MUTATION
#define MUTATION none
#endif
#define none 0
#define gap_without_waiting 1   /* the gap is marked while an odd slot may own it */
#define no_claimed_swap 2       /* the frame is published without naming its owner first */
#define reuses_range 3          /* a roll-back gives the range back */
#define even_before_swap 4
#define odd_after_add 5
#define marks_to_present_tail 6 /* not to T0 */
#define suspects_before_tail 7  /* slots are looked at before T0 is read */
#define crosses_foreign_cells 8 /* marks on after a cell that is neither zero nor a mark */
#define marks_descending 9
#define marks_by_store 10
#define claims_by_store 11
#define publishes_by_store 12
#define rolls_back_by_store 13
#define ignores_generation 14
#define never_probes 15
#define retaken_slot_stays_odd 16
#define pads_by_store 17
#define overshoots_again 18
#define moves_tail_by_store 19
#define moves_tail_first 20     /* before the segment is in place */
#define rename_replaces 21
#define reopens 22              /* the opened part is stored, not swapped */
#define passes_live_gap 23      /* a read-only reader does not wait for odd slots */
#define passes_live_claim 24    /* nor for owners that live */
#define reader_expires_owners 25 /* a read-only reader takes the timeout for death */
#define publishes_before_write 26
#define IS(mutation) (MUTATION == mutation)

/* --- steps ------------------------------------------------------------------------------------ */

/* If every reader may expire every claim at any time, no reader reads a counter. */
#define ODD_MATTERS (TIMEOUT == 0 || READ_ONLY_LAST || MUTATION != none)

/* cl_slot_enter and cl_slot_leave, with their effect on every watch */
inline flip(slot) {
#if ODD_MATTERS
    odd[slot] = 1 - odd[slot];
    suspects[0] = suspects[0] & ~BIT(slot);
    suspects[1] = suspects[1] & ~BIT(slot);
#endif
    skip
}

inline unwatch(me) {
    upto[me] = 0;
    suspects[me] = 0
}

/* A reader moves while the cells are final: cl_reader_next, cl_frame_verify, cl_walk,
 * cl_frame_read, and mark_gap where others marked. */
inline walk(me) {
    do
    :: at[me] < CELLS && IS_RECORD(cell[at[me]]) ->
        assert((published & BIT(at[me])) != 0 || I4);
        assert(LENGTH_OF(cell[at[me]]) == 1 || cell[at[me] + 1] == BODY || I1);
        assert((passed & BIT(at[me])) == 0 || I2);
        at[me] = at[me] + LENGTH_OF(cell[at[me]]);
        unwatch(me)
    :: at[me] < CELLS && cell[at[me]] == PAD ->
        step_over(at[me], SEGMENT - at[me] % SEGMENT);
        at[me] = at[me] + SEGMENT - at[me] % SEGMENT;
        unwatch(me)
    :: at[me] < CELLS && IS_SKIP(cell[at[me]]) && cell[at[me]] != PAD ->
        step_over(at[me], cell[at[me]] - SKIP_AT);
        at[me] = at[me] + cell[at[me]] - SKIP_AT;
        unwatch(me)
    :: at[me] < CELLS && cell[at[me]] == MARK ->
        step_over(at[me], 1);
        at[me] = at[me] + 1;
        if
        :: at[me] >= upto[me] || at[me] % SEGMENT == 0 -> unwatch(me)
        :: else
        fi
    :: at[me] < CELLS && IS_CLAIMED(cell[at[me]]) -> unwatch(me); break
    :: at[me] < CELLS && cell[at[me]] >= BODY -> assert(I1); break
    :: at[me] == CELLS || cell[at[me]] == ZERO -> break
    od;
    skip
}

/* No record is where a reader steps over; I2 ensures that none is published there later. */
inline step_over(from, count) {
    assert((published & ((BIT(count) - 1) << (from))) == 0 || I3)
}

/* A swap that succeeds. */
inline swap(place, desired) {
    assert(cell[place] == ZERO || (IS_CLAIMED(cell[place]) && !IS_CLAIMED(desired)) || I5);
    cell[place] = desired
}

inline move_tail(to_number, to_offset) {
    assert((to_number) * 16 + (to_offset) >= tail_number * 16 + tail_offset || I9);
    assert((to_offset) <= SEGMENT + WRITERS * LONGEST || I9);
    tail_number = to_number;
    tail_offset = to_offset
}

inline innocent() {
    assert(TIMEOUT == 1 || I7)
}

inline readers_walk() {
    walk(0);
    walk(1)
}

#define MINE CLAIMED(me, generation[me], length)
#define AT (number * SEGMENT + offset)
#define FITS (offset < SEGMENT && length <= SEGMENT - offset)
#define MAY_ADD ((tail_number != overshot || IS(overshoots_again)) && \
    (me <= started || me == SWAPPER || me == CLOSER))
#define MAY_CLAIM (IS(no_claimed_swap) || cell[AT] == ZERO || IS(claims_by_store))
#define MAY_PUBLISH (cell[AT] == MINE || IS(publishes_by_store) || \
    (IS(no_claimed_swap) && cell[AT] == ZERO))
#define IN_HAND (length == 1 || length == 2)
#define NEXT_ROOM (tail_number + 1 < SEGMENTS)
#define KILLED d_step { CRASHES -> locked[me] = 0; number = 0; offset = 0; length = 0; \
    overshot = NONE; due = false; left = 0 }; goto dead

/* check_tail, and cl_slot_enter. Writers that are alike begin in the order of their numbers. */
inline turn_odd() {
    overshot = NONE;
    if :: me == started -> started++ :: else fi;
#if MUTATION != odd_after_add
    flip(me)
#endif
}

/* cl_slot_leave */
inline turn_even() {
#if MUTATION != even_before_swap
    flip(me);
#endif
    skip
}

inline published_now() {
    swap(AT, RECORD(length));
    assert((passed & BIT(AT)) == 0 || I2);
    published = published | BIT(AT);
    length = 0;
    number = 0;
    offset = 0;
    readers_walk()
}

inline nothing_in_hand() {
    number = 0;
    offset = 0;
    length = 0;
    due = false
}

/* Each label is a point between two steps. At `even_...` a writer has the result of the step
 * before. */
proctype writer(byte me) {
    /* Of the present record; NONE: the segment is to be closed; 0: there is no record */
    byte length;
    byte number, offset;  /* the claim */
    byte overshot = NONE; /* the segment in which this handle has added past the end */
    byte left = APPENDS;
    bool due;             /* a claim met the end exactly: roll after the publish */

append: /* cl_writer_append, cl_writer_close_segment */
    if
    :: left == 0 -> goto ended
    :: d_step { left > 0 && MAY_ADD -> left--; length = 1; turn_odd() }; goto add
    :: d_step { left > 0 && MAY_ADD -> left--; length = 2; turn_odd() }; goto add
    :: d_step { left > 0 && MAY_ADD && me == CLOSER -> left--; length = NONE; turn_odd() }; goto add
    :: d_step { left > 0 && tail_number == overshot -> left--; length = 1 }; goto roll
    :: d_step { left > 0 && tail_number == overshot -> left--; length = 2 }; goto roll
    fi;

check: /* again, with the same record */
    if
    :: d_step { MAY_ADD -> turn_odd() }
    :: tail_number == overshot && !IS(overshoots_again) -> goto roll
    fi;

/* claim_try by an add; reserve_large and cl_writer_close_segment by a swap, which never
 * overshoots */
add:
    if
    :: d_step { true ->
        number = tail_number;
        offset = tail_offset;
        if
        :: me != SWAPPER && length != NONE -> move_tail(number, offset + length)
        :: !(me != SWAPPER && length != NONE) && FITS -> move_tail(number, offset + length)
        :: !(me != SWAPPER && length != NONE) && offset < SEGMENT && !FITS ->
           move_tail(number, SEGMENT)
        :: else
        fi }
    :: KILLED
    fi;
#if MUTATION == odd_after_add || MUTATION == even_before_swap
    d_step { flip(me) };
#endif

claim: /* claim_name: the first swap */
    if
    :: d_step { offset >= SEGMENT -> overshot = number; number = 0; offset = 0 }; goto even_no_room
    :: d_step { offset < SEGMENT && !FITS -> /* cl_pad_to_end */
        assert(exists[number] || I8);
        overshot = number;
        if
        :: cell[AT] == ZERO || IS(pads_by_store) -> swap(AT, PAD); readers_walk()
        :: else -> innocent()
        fi;
        number = 0;
        offset = 0;
        if :: length == NONE -> length = 0 :: else fi }; goto even_no_room
    :: d_step { FITS && MAY_CLAIM ->
        assert(exists[number] || I8);
        due = NEXT_ROOM && (due || length == SEGMENT - offset);
#if MUTATION != no_claimed_swap
        swap(AT, MINE);
        assert(length == 1 || cell[AT + 1] == ZERO || I6);
        readers_walk()
#endif
        }; goto even_claimed
    :: d_step { FITS && !MAY_CLAIM -> /* CL_E_ROLLED_BACK */
        innocent();
        due = NEXT_ROOM && (due || length == SEGMENT - offset);
        number = 0;
        offset = 0 }; goto even_refused
    :: KILLED
    fi;

even_no_room:
#if ODD_MATTERS
    if :: d_step { turn_even() } :: KILLED fi;
#endif
    goto roll;

even_refused:
#if ODD_MATTERS
    if :: d_step { turn_even() } :: KILLED fi;
#endif
    goto check;

even_claimed:
#if ODD_MATTERS
    if
    :: d_step { length == 1 || IS(publishes_before_write) -> turn_even() }; goto publish
    :: d_step { length == 2 && !IS(publishes_before_write) -> turn_even() }
    :: KILLED
    fi;
#else
    if
    :: length == 1 || IS(publishes_before_write) -> goto publish
    :: else
    fi;
#endif

write: /* cl_frame_write: all of the frame but its cell */
    if
    :: d_step { true ->
        assert(cell[AT + 1] == ZERO || I6);
        cell[AT + 1] = BODY }
    :: KILLED
    fi;

publish: /* cl_writer_publish: the second swap */
    if
    :: d_step { MAY_PUBLISH && due -> published_now() }; goto roll
    :: d_step { MAY_PUBLISH && !due -> published_now() }; goto append
    :: d_step { !MAY_PUBLISH -> innocent(); number = 0; offset = 0 }; goto check
    :: d_step { cell[AT] == MINE && me == CLOSER -> /* cl_writer_abandon */
        swap(AT, SKIP(length));
        nothing_in_hand();
        readers_walk() }; goto append
    :: KILLED
    fi;

roll: /* cl_writer_rolls_from; each of the following steps may have been made by another writer */
    if
    :: d_step { tail_offset < SEGMENT && !IN_HAND -> nothing_in_hand() }; goto append
    :: d_step { tail_offset < SEGMENT && IN_HAND -> due = false }; goto check
    /* There is no room: the append fails */
    :: d_step { tail_offset >= SEGMENT && !NEXT_ROOM -> nothing_in_hand() }; goto append
    :: d_step { tail_offset >= SEGMENT && NEXT_ROOM -> number = tail_number + 1 }
    fi;

/* A whole file under a name of its own is put in place with RENAME_NOREPLACE: "exists" is
 * success */
create:
    if
    :: exists[number] || IS(moves_tail_first)
    :: d_step { !exists[number] && !IS(moves_tail_first) && !IS(rename_replaces) ->
       exists[number] = 1 }
    :: !exists[number] && IS(rename_replaces) ->
       d_step { assert(!exists[number] || I8); exists[number] = 1 }
    :: KILLED
    fi;

open: /* open_segment */
    if
    :: opened[number] && !IS(reopens)
    :: d_step { !opened[number] || IS(reopens) -> assert(!opened[number] || I8);
       opened[number] = 1 }
    :: KILLED
    fi;

move: /* cl_writer_roll */
    if
    :: d_step { IN_HAND ->
        if :: tail_number + 1 == number || IS(moves_tail_by_store) ->
            move_tail(number, 0) :: else fi;
        number = 0;
        due = false }; goto check
    :: d_step { !IN_HAND ->
        if :: tail_number + 1 == number || IS(moves_tail_by_store) ->
            move_tail(number, 0) :: else fi;
        nothing_in_hand() }; goto append
    :: KILLED
    fi;

dead:
#if RESTARTS != 0
    if
    /* cl_slot_attach, by a new owner */
    :: d_step { restarts < RESTARTS -> restarts++; locked[me] = 1 }
    :: restarts >= RESTARTS -> goto ended
    fi;
    if
    :: d_step { true ->
        generation[me] = 1 - generation[me];
        suspects[0] = suspects[0] & ~BIT(me);
        suspects[1] = suspects[1] & ~BIT(me) }
    :: KILLED
    fi;
    if
    :: d_step { true ->
        /* Odd or even, it has changed */
        if :: odd[me] && !IS(retaken_slot_stays_odd) -> flip(me) :: else fi;
        overshot = (tail_offset >= SEGMENT -> tail_number : NONE); /* cl_writer_init */
        left = 1 }; goto append
    :: KILLED
    fi;
#endif

ended: /* an owner that lives keeps its slot, and is idle */
    skip
}

#define MAY_EXPIRE (TIMEOUT == 1 && (resolves || IS(reader_expires_owners)))
#define HERE cell[at[me]]
#define LIVING (IS(never_probes) -> 7 : (locked[0] | locked[1] << 1 | locked[2] << 2))
#define RETAKEN (generation[SLOT_OF(HERE)] != GENERATION_OF(HERE) && !IS(ignores_generation))
#define OWNER_DEAD ((!locked[SLOT_OF(HERE)] || RETAKEN) && !IS(never_probes))
#define GAP_IS_DEAD ((suspects[me] & LIVING) == 0 || MAY_EXPIRE || IS(gap_without_waiting) || \
    (IS(passes_live_gap) && !resolves))
#define CLAIM_IS_DEAD (OWNER_DEAD || MAY_EXPIRE || (IS(passes_live_claim) && !resolves))
#define HAS_BODY(value) ((IS_CLAIMED(value) || IS_RECORD(value)) && LENGTH_OF(value) == 2)
#define OWNED(place) ((place) % SEGMENT != 0 && HAS_BODY(cell[(place) - 1]))

/* cl_resolve. A reader that is blocked here is held up (CL_E_BUSY), or at the end (CL_E_END). */
proctype reader(byte me; bool resolves) {
#if MUTATION != none
    byte noted, spot;
#endif
end:
    do
    /* watch_start and watch_gap: of a zero cell below the tail. It may be begun anew at any
     * time. */
    :: d_step { at[me] < TAIL_POSITION && HERE == ZERO && upto[me] < TAIL_POSITION &&
       !IS(suspects_before_tail) ->
        upto[me] = TAIL_POSITION;
        /* A reader that may expire claims at any time does not need them */
        suspects[me] = (MAY_EXPIRE -> 0 : ODD_SLOTS) }
    /* resolve_gap, review_suspects, mark_gap: the next cell, when no suspect is left that lives
     * and has not moved, or in time. */
    :: d_step { at[me] < upto[me] && HERE == ZERO && GAP_IS_DEAD && resolves &&
       !IS(marks_descending) ->
        if :: IS(marks_to_present_tail) -> upto[me] = TAIL_POSITION :: else fi;
        suspects[me] = 0;
        assert(!OWNED(at[me]) || I6);
        HERE = MARK;
        readers_walk() }
    :: d_step { at[me] < upto[me] && HERE == ZERO && GAP_IS_DEAD && !resolves ->
        suspects[me] = 0;
        step_over(at[me], 1);
        passed = passed | BIT(at[me]);
        at[me] = at[me] + 1;
        if :: at[me] >= upto[me] || at[me] % SEGMENT == 0 -> unwatch(me) :: else fi;
        walk(me) }
    /* resolve_claim, cl_owner_dead, cl_roll_back */
    :: d_step { at[me] < CELLS && IS_CLAIMED(HERE) && CLAIM_IS_DEAD && resolves &&
       !IS(rolls_back_by_store) ->
        swap(at[me], SKIP(LENGTH_OF(HERE)));
        readers_walk() }
    :: d_step { at[me] < CELLS && IS_CLAIMED(HERE) && CLAIM_IS_DEAD && !resolves ->
        step_over(at[me], LENGTH_OF(HERE));
        passed = passed | BIT(at[me]);
        at[me] = at[me] + LENGTH_OF(HERE);
        walk(me) }
#if MUTATION == suspects_before_tail
    :: d_step { at[me] < CELLS && HERE == ZERO && upto[me] == 0 && noted == 0 ->
       suspects[me] = ODD_SLOTS; noted = 1 }
    :: d_step { at[me] < TAIL_POSITION && HERE == ZERO && upto[me] == 0 && noted == 1 ->
       upto[me] = TAIL_POSITION; noted = 0 }
#endif
#if MUTATION == crosses_foreign_cells || MUTATION == marks_by_store
    :: d_step { at[me] < upto[me] && HERE == ZERO && GAP_IS_DEAD && resolves && spot == 0 ->
       noted = upto[me]; spot = at[me] + 1 }
    :: d_step { 0 < spot && spot < noted && (cell[spot] == ZERO || IS(marks_by_store)) ->
        assert(!OWNED(spot) || I6);
        swap(spot, MARK);
        spot++;
        readers_walk() }
    :: d_step { 0 < spot && spot < noted && cell[spot] != ZERO && !IS(marks_by_store) -> spot++ }
#endif
#if MUTATION == marks_descending
    :: d_step { at[me] < upto[me] && HERE == ZERO && GAP_IS_DEAD && resolves && noted == 0 ->
       noted = at[me] + 1; spot = upto[me] }
    :: d_step { noted != 0 && spot >= noted && cell[spot - 1] == ZERO ->
        spot--;
        assert(!OWNED(spot) || I6);
        cell[spot] = MARK;
        readers_walk() }
    :: d_step { noted != 0 && (spot < noted || cell[spot - 1] != ZERO) -> noted = 0; spot = 0 }
#endif
#if MUTATION == rolls_back_by_store
    :: d_step { at[me] < CELLS && IS_CLAIMED(HERE) && CLAIM_IS_DEAD && noted == 0 -> spot = at[me];
       noted = LENGTH_OF(HERE) }
    :: d_step { noted != 0 -> swap(spot, SKIP(noted)); noted = 0; readers_walk() }
#endif
#if MUTATION == reuses_range
    :: d_step { at[me] < CELLS && IS_CLAIMED(HERE) && CLAIM_IS_DEAD &&
       tail_number * SEGMENT + tail_offset == at[me] + LENGTH_OF(HERE) ->
        HERE = ZERO;
        tail_offset = at[me] % SEGMENT;
        unwatch(me) }
#endif
    od
}

init {
    d_step {
        exists[0] = 1;
        opened[0] = 1;
        locked[0] = 1;
        locked[1] = 1;
        locked[2] = 1;
        at[1] = (READERS == 1 -> CELLS : 0)
    };
    atomic {
        run writer(0);
        run writer(1);
        run writer(2);
        run reader(0, READERS == 2 || READ_ONLY_LAST == 0);
        if
        :: READERS == 2 -> run reader(1, READ_ONLY_LAST == 0)
        :: else
        fi
    };
at_end: /* I10: when no process can take another step */
    timeout;
    assert((at[0] >= TAIL_POSITION && at[1] >= TAIL_POSITION) || I10)
}
