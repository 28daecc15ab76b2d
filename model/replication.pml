/* Promotion by counting: epochs, fences, acknowledgements and cuts, for exhaustive search by spin.
 *
 * NODES logs of the same content, one of them the primary at first, follow, append, acknowledge and
 * are promoted in any order, up to EPOCHS promotions, also at the same time. A process that is
 * killed or stopped takes no more steps, which is a run like the others: every state here is
 * durable, except that with RESTARTS the machine of a primary may crash. It loses the records that
 * it had not flushed, although copies may have them. Messages may be late, because spin tries every
 * order, and a lost one is a step that is not taken.
 *
 * Invariants; each `assert` names the one that it states, and so does spin when it finds it broken
 *   R1  every acknowledged record is in every later epoch
 *   R2  no two primaries acknowledge different records at one position
 *   R3  a follower's records are those of the log that it follows
 *   R4  a cut removes no acknowledged record
 *
 * What is modelled, in commitlog/network/replication
 *   candidate.py         how many logs are counted and have to promise, comparing with them, its
 *                        change of `require`, and withdrawing promises
 *   catching_up.py       copying what only a log that has promised has
 *   promise.py           promising, and taking a promise back
 *   following.py         meeting a primary: which lineages fit, where a log is cut
 *   replica.py           copying records, in order, of one epoch (log/copy_writer.py)
 *   acknowledgements.py  which acknowledgements count
 *   sender.py            records are sent while the primary flushes them
 *   recovery/lineage.py  note_recovery: a restart is in the lineage; promising, adopted
 *
 * What is abstract, and why nothing is lost by it
 *   - A record is its position and the epoch that it was appended in: an epoch has one primary,
 *     which may restart once in each and then appends under a number of its own.
 *   - Epochs are numbers here. In the program a promotion's number and its random id together are
 *     in one order, so two promotions never are the same epoch. A candidate takes any free number
 *     above those that it has seen.
 *   - A log may promise any higher epoch; in the program it refuses one if it has promised another
 *     one since it was compared. A promise is withdrawn at any time after its promotion was given
 *     up, or never: the message may be lost.
 *   - A follower acknowledges as soon as it has a record, and the primary tells its caller as soon
 *     as enough have: a later acknowledgement knows no more, and one that is lost asserts less.
 *   - What a copy has is flushed there: it writes and flushes a record in one step.
 *   - With CHANGED, any log may change `require`; in the program only one that is not a copy may. A
 *     primary acknowledges with the number in its file: with a greater one it acknowledges less.
 *
 * Parameters and mutations come as -D defines: check.py has the tables. */

#ifndef NODES
#define NODES 3
#endif
#ifndef REQUIRED
#define REQUIRED 1 /* followers that have a record when it is acknowledged: `require=` */
#endif
#ifndef CHANGED
#define CHANGED 0 /* the number to which promotions change REQUIRED, and back; 0: none does */
#endif
#ifndef EPOCHS
#define EPOCHS 3
#endif
#ifndef LENGTH
#define LENGTH 2 /* records of a log */
#endif
#ifndef RESTARTS
#define RESTARTS 0 /* 1: each epoch's primary may crash once, and lose what it had not flushed */
#endif
#ifndef CHAINS
#define CHAINS 0 /* 1: copies are followed, too */
#endif

#define NONE 255
#define BIT(n) (1 << (n))

/* The place of an epoch in the order, and behind it that of its restart. */
#define RANK(epoch) ((epoch) * (1 + RESTARTS))
#define RANKS (RANK(EPOCHS) + RESTARTS)
#define IS_RESTART(rank) (RESTARTS && (rank) % 2 == 1)

byte end[NODES];
byte record[NODES * LENGTH];         /* the epoch of each record */
byte starts[NODES * (RANKS + 1)];    /* where each epoch of a log's lineage starts, or NONE */
byte flushed[NODES];                 /* how far a primary is durable */
byte fence[NODES];                   /* the latest epoch that the log has promised or adopted */
byte latest[NODES];                  /* the last epoch of its lineage */
byte primary = 1;                    /* bits: logs that a program may append to */
byte owner = 1;                      /* bits: logs that were primaries in their last epoch */
byte pledged[NODES];                 /* bits: epochs that the log has promised, if higher */
byte dead;                           /* bits: epochs whose promotion was given up */
byte followed[NODES];                /* the log that this one follows, or NONE */
byte candidate[NODES];               /* the epoch of a promotion that has begun here, or 0 */
byte fenced[NODES];                  /* bits: where it has taken its epoch */
byte taken = 1;                      /* bits: epochs that are in use */
byte acknowledged_to[(RANKS + 1) * NODES]; /* by each follower, in each epoch */
#if CHANGED
byte require[NODES];                 /* as in the file `epoch` */
byte wanted[NODES];                  /* what a promotion here changes it to, or 0 */
byte changing;                       /* bits: logs whose promised epoch may have another one */
#endif

/* Ghost variables: only the invariants use them; no process reads them. */
byte acknowledged[LENGTH]; /* one more than the epoch of the record, or 0 */
byte since[LENGTH];        /* the first epoch in which it was acknowledged */

/* Never set: they name the invariant in what spin prints. */
bit R1, R2, R3, R4;

hidden byte i, k, count, parted, reach, mine, theirs;

#define RECORD(n, at) record[(n) * LENGTH + (at)]
#define START(n, e) starts[(n) * (RANKS + 1) + (e)]
#define TO(e, n) acknowledged_to[(e) * NODES + (n)]
#define IS_PRIMARY(n) ((primary & BIT(n)) != 0)
#if CHANGED
#define REQUIRE(n) require[n]
#define IS_CHANGING(n) ((changing & BIT(n)) != 0 || wanted[n] != 0)
#else
#define REQUIRE(n) REQUIRED
#define IS_CHANGING(n) false
#endif

/* --- mutations: each makes spin find a counter-example ---------------------------------------- */

#ifndef MUTATION
#define MUTATION none
#endif
#define none 0
#define counts_before_start 1   /* of copies that have not reached the start of the epoch */
#define compares_adopted 2      /* the epoch that a copy knows, not the last one that it reaches */
#define compares_end 3          /* and no epoch */
#define compares_nothing 4
#define one_too_few 5
#define fence_does_not_stop 6   /* a fenced copy goes on with its old primary */
#define follows_lower 7         /* a copy follows a log of a lower epoch than its fence */
#define never_cuts 8
#define cuts_at_end 9           /* of the other log, not where their epochs part */
#define streams_across_epochs 10
#define acknowledges_unflushed 11 /* what copies have, although the primary may still lose it */
#define notes_no_restart 12       /* in the lineage */
#define changes_by_quorum 13      /* a change has no more promises than another promotion */
#define promises_no_change 14     /* who promises an epoch is not told that it has another number */
#define raises_at_once 15         /* although copies lack records */
#define forgets_change 16         /* at the promise of a later epoch */
#define adopts_no_change 17       /* a copy keeps its number */
#define forgets_a_copy 18         /* a log that is not a copy counts only the others */
#define withdraws_begun 19        /* also promises of an epoch that has begun */
#define catches_up_anyway 20      /* also beyond where an epoch starts that the other log lacks */
#define IS(mutation) (MUTATION == mutation)

#if CHANGED
/* Every log has the same records before a greater number counts with them. */
#define NEEDS_EQUAL(c) \
    (IS_CHANGING(c) && (wanted[c] == 0 || wanted[c] > require[c]) && !IS(raises_at_once))
#define ANOTHER(n) (REQUIRED + CHANGED - require[n])
#endif

/* --- steps ------------------------------------------------------------------------------------ */

/* The last epoch that a log reaches: Lineage.reached */
inline find_reached(n) {
    reach = 0;
    for (i : 1 .. RANKS) {
        if
        :: START(n, i) != NONE &&
            (START(n, i) < end[n] + !IS_RESTART(i) || IS(compares_adopted)) -> reach = i
        :: else
        fi
    };
    skip
}

/* What is durable here and on enough copies is acknowledged to its appender. */
inline tell(p, epoch) {
    k = 0;
    do
    :: k < flushed[p] || (IS(acknowledges_unflushed) && k < end[p]) ->
        count = 0;
        for (i : 0 .. NODES - 1) {
            if
            :: i != p && TO(epoch, i) > k -> count++
            :: else
            fi
        }
        if
        :: count >= REQUIRE(p) ->
            assert(acknowledged[k] == 0 || acknowledged[k] == RECORD(p, k) + 1 || R2);
            if
            :: acknowledged[k] == 0 || epoch < since[k] -> since[k] = epoch
            :: else
            fi;
            acknowledged[k] = RECORD(p, k) + 1;
            for (i : 0 .. NODES - 1) {
                if
                :: IS_PRIMARY(i) && fence[i] > epoch ->
                    assert((end[i] > k && RECORD(i, k) == RECORD(p, k)) || R1)
                :: else
                fi
            }
        :: else
        fi;
        k++
    :: else -> break
    od;
    skip
}

/* A follower's end is known to its primary: Acknowledgements.add, reached */
inline acknowledge(f, p, epoch) {
    if
    :: end[f] >= START(p, epoch) || IS(counts_before_start) -> TO(epoch, f) = end[f]
    :: else
    fi;
    tell(p, epoch)
}

inline append(p) {
    RECORD(p, end[p]) = fence[p];
    end[p] = end[p] + 1;
    if
    :: !RESTARTS -> flushed[p] = end[p]
    :: else
    fi;
    skip
}

inline flush(p) {
    flushed[p] = end[p];
    tell(p, latest[p])
}

inline check_kept(p) {
    for (i : 0 .. LENGTH - 1) {
        if
        :: acknowledged[i] != 0 && since[i] < fence[p] ->
            assert((end[p] > i && RECORD(p, i) == acknowledged[i] - 1) || R1)
        :: else
        fi
    };
    skip
}

/* The machine of a primary crashes, and its log is recovered: Lineage.restarted. */
inline restart(p) {
    do
    :: end[p] > flushed[p] ->
        end[p] = end[p] - 1;
        RECORD(p, end[p]) = 0
    :: else -> break
    od;
    fence[p] = latest[p] + 1; /* other records than those that are lost */
    if
    :: !IS(notes_no_restart) ->
        latest[p] = fence[p];
        START(p, latest[p]) = end[p];
        check_kept(p)
    :: else
    fi;
    skip
}

/* The promises of a log: Lineage.promised */
inline find_fence(n) {
    fence[n] = latest[n];
    for (i : 1 .. RANKS) {
        if
        :: (pledged[n] & BIT(i)) != 0 && i > fence[n] -> fence[n] = i
        :: else
        fi
    };
    skip
}

/* A promise is taken back: Lineage.withdrawing */
inline withdraw(n) {
    pledged[n] = pledged[n] & ~dead;
    find_fence(n)
}

/* A log that was closed is opened for writing again. */
inline reopen(p) {
    primary = primary | BIT(p);
    flushed[p] = end[p]
}

/* promote: the log is locked, and so follows and acknowledges nothing meanwhile. */
inline begin(c, epoch, number) {
    taken = taken | BIT(epoch);
    candidate[c] = epoch;
    fence[c] = epoch;
    fenced[c] = BIT(c);
    followed[c] = NONE;
    primary = primary & ~BIT(c);
#if CHANGED
    wanted[c] = number;
#endif
    skip
}

inline end_promotion(c) {
#if CHANGED
    wanted[c] = 0;
#endif
    candidate[c] = 0;
    fenced[c] = 0
}

inline give_up(c) {
    dead = dead | BIT(candidate[c]);
    end_promotion(c);
    find_fence(c)
}

/* Where the logs part: the lowest start of an epoch that only one of them has, or that starts
 * elsewhere in the other. */
inline find_fork(f, p) {
    parted = NONE;
    for (i : 1 .. RANKS) {
        if
        :: START(f, i) != START(p, i) && START(f, i) < parted -> parted = START(f, i)
        :: else
        fi;
        if
        :: START(f, i) != START(p, i) && START(p, i) < parted -> parted = START(p, i)
        :: else
        fi
    };
    skip
}

inline check_same(f, p) {
    for (i : 0 .. LENGTH - 1) {
        if
        :: i < end[f] -> assert((i < end[p] && RECORD(f, i) == RECORD(p, i)) || R3)
        :: else
        fi
    };
    skip
}

/* The candidate copies what only another log of its epoch has: catch_up */
inline catch_up(c, o) {
    check_same(c, o);
    do
    :: end[c] < end[o] ->
        RECORD(c, end[c]) = RECORD(o, end[c]);
        end[c] = end[c] + 1
    :: else -> break
    od;
    skip
}

inline compare(c, o) {
    find_reached(o);
    theirs = reach;
    find_reached(c);
    mine = reach;
    if
    :: IS(compares_nothing) -> skip
    :: IS(compares_end) && end[o] > end[c] -> give_up(c)
    :: !IS(compares_end) && !IS(compares_nothing) && theirs > mine -> give_up(c)
    :: !IS(compares_end) && !IS(compares_nothing) && theirs == mine && end[o] > end[c] ->
        find_fork(c, o);
        if
        :: parted >= end[o] || IS(catches_up_anyway) -> catch_up(c, o)
        :: else -> give_up(c)
        fi
#if CHANGED
    :: NEEDS_EQUAL(c) && (theirs < mine || (theirs == mine && end[o] < end[c])) -> give_up(c)
#endif
    :: else
    fi;
    skip
}

/* A copy, or a log that is closed, promises the epoch; then it is compared. */
inline take(c, o) {
    fence[o] = candidate[c];
    pledged[o] = pledged[o] | BIT(candidate[c]);
    fenced[c] = fenced[c] | BIT(o);
    primary = primary & ~BIT(o);
    if
    :: !IS(fence_does_not_stop) -> followed[o] = NONE
    :: else
    fi;
#if CHANGED
    if
    :: IS_CHANGING(c) && !IS(promises_no_change) -> changing = changing | BIT(o)
    :: !IS_CHANGING(c) && IS(forgets_change) -> changing = changing & ~BIT(o)
    :: else
    fi;
#endif
    compare(c, o)
}

inline finish(c) {
    for (i : 1 .. RANKS) {
        if
        :: START(c, i) != NONE && START(c, i) > end[c] ->
            START(c, i) = NONE
        :: else
        fi
    }
    START(c, candidate[c]) = end[c];
    latest[c] = candidate[c];
    pledged[c] = 0;
    primary = primary | BIT(c);
    owner = owner | BIT(c);
    flushed[c] = end[c];
#if CHANGED
    if
    :: wanted[c] != 0 -> require[c] = wanted[c]
    :: else
    fi;
    changing = changing & ~BIT(c);
#endif
    if
    :: IS(withdraws_begun) -> dead = dead | BIT(candidate[c])
    :: else
    fi;
    end_promotion(c);
    check_kept(c)
}

inline cut(f) {
    do
    :: end[f] > parted ->
        end[f] = end[f] - 1;
        assert(acknowledged[end[f]] != RECORD(f, end[f]) + 1 || IS(cuts_at_end) || R4);
        RECORD(f, end[f]) = 0
    :: else -> break
    od;
    skip
}

inline meet(f, p) {
    primary = primary & ~BIT(f);
    owner = owner & ~BIT(f);
    flushed[f] = 0;
    find_fork(f, p);
    if
    :: IS(cuts_at_end) -> parted = end[p]
    :: IS(never_cuts) -> parted = NONE
    :: else
    fi;
    cut(f);
    if
    :: end[f] <= end[p] || !CHAINS ->
        fence[f] = latest[p];
        latest[f] = latest[p];
        pledged[f] = 0;
#if CHANGED
        if
        :: !IS(adopts_no_change) -> require[f] = require[p]
        :: else
        fi;
        changing = changing & ~BIT(f);
#endif
        for (i : 1 .. RANKS) {
            START(f, i) = START(p, i)
        }
        followed[f] = p;
        if
        :: IS_PRIMARY(p) -> acknowledge(f, p, latest[p])
        :: else
        fi
    :: else -> followed[f] = NONE
    fi;
    skip
}

inline copy(f, p) {
    RECORD(f, end[f]) = RECORD(p, end[f]);
    end[f] = end[f] + 1;
    check_same(f, p);
    if
    :: IS_PRIMARY(p) -> acknowledge(f, p, latest[p])
    :: else
    fi;
    skip
}

#define SERVED(p) (IS_PRIMARY(p) || (CHAINS && candidate[p] == 0))
#define FITS(f, p) (latest[f] == latest[p] || IS(streams_across_epochs))
#define NUMBER_OF(set) (((set) & 1) + (((set) >> 1) & 1) + (((set) >> 2) & 1) + (((set) >> 3) & 1))
#define IS_OWNER(n) ((owner & BIT(n)) != 0)
#define TOO_FEW(c) (IS(one_too_few) || (IS(forgets_a_copy) && IS_OWNER(c)))
#define NEEDED(c) \
    (IS_CHANGING(c) && !IS(changes_by_quorum) -> NODES : NODES - REQUIRE(c) - TOO_FEW(c))
#define ENOUGH(c) (NUMBER_OF(fenced[c]) >= NEEDED(c))

#define MAY_TAKE(n, e) (candidate[n] == 0 && fence[n] < (e) && (taken & BIT(e)) == 0)
#define CAN_RESTART(n) (fence[n] == latest[n] && !IS_RESTART(latest[n]))

proctype node(byte me) {
endless:
    do
    :: d_step { IS_PRIMARY(me) && end[me] < LENGTH -> append(me) }
#if RESTARTS
    :: d_step { IS_PRIMARY(me) && flushed[me] < end[me] -> flush(me) }
    :: d_step { IS_PRIMARY(me) && flushed[me] < end[me] && CAN_RESTART(me) -> restart(me) }
#endif
    :: d_step { MAY_TAKE(me, RANK(1)) -> begin(me, RANK(1), 0) }
#if CHANGED
    :: d_step { MAY_TAKE(me, RANK(1)) -> begin(me, RANK(1), ANOTHER(me)) }
#endif
#if EPOCHS > 1
    :: d_step { MAY_TAKE(me, RANK(2)) -> begin(me, RANK(2), 0) }
#if CHANGED
    :: d_step { MAY_TAKE(me, RANK(2)) -> begin(me, RANK(2), ANOTHER(me)) }
#endif
#endif
#if EPOCHS > 2
    :: d_step { MAY_TAKE(me, RANK(3)) -> begin(me, RANK(3), 0) }
#if CHANGED
    :: d_step { MAY_TAKE(me, RANK(3)) -> begin(me, RANK(3), ANOTHER(me)) }
#endif
#endif
    :: d_step { candidate[me] != 0 -> give_up(me) }
    :: d_step { candidate[me] == 0 && (pledged[me] & dead) != 0 -> withdraw(me) }
    :: d_step { IS_OWNER(me) && !IS_PRIMARY(me) && candidate[me] == 0 && fence[me] == latest[me] ->
        reopen(me) }
    :: d_step { candidate[me] != 0 && ENOUGH(me) -> finish(me) }
    od
}

proctype pair(byte me, other) {
endless:
    do
    :: d_step { candidate[me] != 0 && candidate[other] == 0 && fence[other] < candidate[me] &&
        (fenced[me] & BIT(other)) == 0 -> take(me, other) }
    :: d_step { candidate[me] == 0 && SERVED(other) &&
        (fence[me] <= latest[other] || IS(follows_lower)) &&
        (!IS_PRIMARY(me) || latest[me] < latest[other]) &&
        (followed[me] != other || latest[me] != latest[other]) -> meet(me, other) }
    :: d_step { followed[me] == other && SERVED(other) && FITS(me, other) &&
        end[me] < end[other] -> copy(me, other) }
    od;
    skip
}

init {
    d_step {
        for (i : 0 .. NODES - 1) {
            followed[i] = NONE;
#if CHANGED
            require[i] = REQUIRED;
#endif
            for (k : 1 .. RANKS) {
                START(i, k) = NONE
            }
        }
        i = 0;
        k = 0
    }
    atomic {
        run node(0);
        run node(1);
        run node(2);
        run pair(0, 1);
        run pair(0, 2);
        run pair(1, 0);
        run pair(1, 2);
        run pair(2, 0);
        run pair(2, 1);
#if NODES > 3
        run node(3);
        run pair(0, 3);
        run pair(1, 3);
        run pair(2, 3);
        run pair(3, 0);
        run pair(3, 1);
        run pair(3, 2);
#endif
    };
    skip
}
