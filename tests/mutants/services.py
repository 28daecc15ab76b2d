"""Mutants of the Python services: recovery, files, retention, producers, stores, replication."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, py

RECOVERY = [
    Mutant(
        "tail not zeroed", "commitlog/recovery/cut.py",
        "            write_whole(fd, bytes(stop - at), at)\n",
        "",
        py("recovery/test_cut.py", "faults/test_torn_tail.py"),
    ),
    Mutant(
        "seal kept on a cut", "commitlog/recovery/cut.py",
        "        write_whole(fd, bytes(SEAL_SIZE), SEAL_AT)\n",
        "",
        py("recovery/test_cut.py", "recovery/test_epoch_change.py",
           "network/replication/test_restart.py"),
    ),
    Mutant(
        "cut zeroed upwards", "commitlog/recovery/cut.py",
        "for stop in range(segment.size, start.offset, -_CHUNK):\n"
        "            at = max(stop - _CHUNK, start.offset)",
        "for at in range(start.offset, segment.size, _CHUNK):\n"
        "            stop = min(at + _CHUNK, segment.size)",
        py("recovery/test_cut.py"),
    ),
    Mutant(
        "cut frames not saved", "commitlog/recovery/cut.py",
        "        if end > start.offset:\n            path = ",
        "        if end > start.offset + (1 << 40):\n            path = ",
        py("recovery/test_cut.py"),
    ),
    Mutant(
        "kept frames not written again", "commitlog/recovery/unclean.py",
        "                segment.rewrite(offset, stop)\n                segment.flush(offset, "
        "stop)\n",
        "",
        py("faults/test_power_cut.py", "recovery/test_killed.py"),
    ),
    Mutant(
        "recovery believes a tail below the floor", "commitlog/recovery/unclean.py",
        "            and tail.offset >= HEADER_SIZE\n            and tail >= floor\n",
        "            and tail.offset >= HEADER_SIZE\n",
        py("recovery/test_killed.py"),
        "A second guard: the walk begins at the floor, so a tail below it ends the log there.",
    ),
    Mutant(
        "clean mark believed", "commitlog/recovery/log_end.py",
        "        if not blank:\n",
        "        if not blank and location.number < 0:\n",
        py("recovery/test_clean.py", "recovery/test_log_end.py"),
    ),
    Mutant(
        "clean mark beside another handle", "commitlog/log/closing.py",
        'if parts.lock_file.acquire("exclusive"):',
        "if parts.lock_file:",
        py("multiprocess/test_opens.py", "log/test_closing.py", "multiprocess/test_dead_owners.py"),
        "A second guard: the mark has a position that is durable, and recovery takes no mark "
        "behind "
        "which it finds a frame or another segment, so nothing is lost or cut.",
    ),
    Mutant(
        "place of a directory not compared", "commitlog/recovery/place.py",
        "            and _agree(self.born_ns, other.born_ns)\n",
        "            or _agree(self.born_ns, other.born_ns)\n",
        py("recovery/test_place.py"),
    ),
    Mutant(
        "restart above the end of a copy kept", "commitlog/recovery/lineage.py",
        "epochs = (each for each in self.epochs if each.start < end + (not each.restart))",
        "epochs = (each for each in self.epochs if each.start <= end + (not each.restart))",
        py("network/replication/test_restart.py", "network/replication/test_promotion.py"),
    ),
    Mutant(
        "epoch compare off by one", "commitlog/network/replication/quota.py",
        "if rank.number < 1 or rank <= max(current.rank, self._fence or current.rank):",
        "if rank.number < 1 or rank < max(current.rank, self._fence or current.rank):",
        py("network/replication/test_quota.py", "network/replication/test_acknowledgements.py"),
    ),
    Mutant(
        "lower epoch promised", "commitlog/recovery/lineage.py",
        "        if rank < self.promised or rank == self.rank:\n",
        "        if rank == self.rank:\n",
        py("network/replication/test_candidate.py"),
    ),
]  # fmt: skip

FILES = [
    Mutant(
        "directory not fsynced", "commitlog/segment/checked_json.py",
        "        os.rename(temporary, name, src_dir_fd=directory.fd, dst_dir_fd=directory.fd)\n"
        "    directory.sync()\n",
        "        os.rename(temporary, name, src_dir_fd=directory.fd, dst_dir_fd=directory.fd)\n",
        py("segment/test_checked_json.py"),
    ),
    Mutant(
        "small file renamed before it is durable", "commitlog/segment/checked_json.py",
        "        write_whole(fd, whole, 0)\n        os.fsync(fd)\n",
        "        write_whole(fd, whole, 0)\n",
        py("segment/test_checked_json.py"),
    ),
    Mutant(
        "new segment named before it is durable", "commitlog/segment/new_file.py",
        '        os.fsync(fd)\n        failpoint("synced")\n',
        '        failpoint("synced")\n',
        py("faults/test_power_cut.py"),
    ),
    Mutant(
        "CRC of small files not checked", "commitlog/segment/checked_json.py",
        'content.pop("crc32c", None) != crc32c(_text(content)):',
        'content.pop("crc32c", None) is None:',
        py("segment/test_checked_json.py"),
    ),
    Mutant(
        "small file of another log taken", "commitlog/segment/checked_json.py",
        'if content.get("uuid") != directory.log_uuid.hex():',
        'if content.get("uuid") is None:',
        py("segment/test_checked_json.py"),
    ),
    Mutant(
        "index of other records taken", "commitlog/segment/index_file.py",
        "if (content.crc, content.records) != (seal.crc, seal.record_count):",
        "if content.records != seal.record_count:",
        py("segment/test_index_file.py"),
    ),
    Mutant(
        "entries of an index not checked", "commitlog/segment/index_file.py",
        "if os.fstat(fd).st_size != size or crc32c(entries) != entries_crc:",
        "if os.fstat(fd).st_size != size:",
        py("segment/test_index_file.py"),
    ),
    Mutant(
        "producer's number not checked", "commitlog/log/producers.py",
        "            if position is not None:\n                return position\n",
        "",
        py("log/test_producers.py"),
    ),
    Mutant(
        "producer's old number taken", "commitlog/log/producers.py",
        "if number <= producer.numbers.floor:",
        "if number < producer.numbers.floor:",
        py("log/test_producers.py"),
    ),
    Mutant(
        "producer's interrupted append forgotten", "commitlog/log/producers.py",
        "            self._search(producer, producer.pending // self._engine.segment_size)\n",
        "",
        py("log/test_producers.py"),
    ),
    Mutant(
        "numbers of deleted records forgotten", "commitlog/segment/producers_file.py",
        "        for mark in marks_of(segment, segment.size):\n            covered.note(*mark)\n",
        "",
        py("log/test_producers.py"),
    ),
]  # fmt: skip

RETENTION = [
    Mutant(
        "retention ignores a hold", "commitlog/retention/deletion.py",
        "            if segment.number >= hold.number:\n",
        "            if segment.number > hold.number:\n",
        py("retention"),
    ),
    Mutant(
        "segment deleted before it is durable", "commitlog/retention/holds.py",
        'holds = [Hold("flush", ends.flushed // size, "it is not durable yet")]',
        "holds: list[Hold] = []",
        py("retention"),
    ),
    Mutant(
        "deleted before it is stored", "commitlog/retention/holds.py",
        "        STORE: lambda: _store_hold(directory, ends.held.get(STORE)),\n",
        "",
        py("retention", "stores/test_stored_mark.py"),
    ),
    Mutant(
        "deleted before a required tailer read it", "commitlog/retention/holds.py",
        '        "tailers": lambda: _tailers_hold(directory, seals),\n',
        "",
        py("retention"),
    ),
    Mutant(
        "stored mark of other segments believed", "commitlog/retention/stored_mark.py",
        "if last < 0 or (seal is not None and _seal_of(directory, last) == seal):",
        "if last < 0 or seal is not None:",
        py("stores/test_stored_mark.py", "stores/test_store_sessions.py"),
    ),
]  # fmt: skip

STORES = [
    Mutant(
        "lease not renewed", "commitlog/stores/store_lease.py",
        "if host.monotonic() - self._taken_s >= self._lasts_s / 2:",
        "if host.monotonic() - self._taken_s >= self._lasts_s * 2:",
        py("stores/test_store_lease.py"),
    ),
    Mutant(
        "lease ignored", "commitlog/stores/store_lease.py",
        "return min((lease.position for lease in leases if lease.ends_ns > now_ns), default=None)",
        "return None",
        py("stores/test_store_lease.py"),
    ),
    Mutant(
        "part's predecessor unchecked", "commitlog/stores/tail_object.py",
        "return part.first < at or part.digests is None or reached in (-1, part.digests[0])",
        "return True",
        py("stores/test_store_parts.py", "stores/test_store_sessions.py"),
    ),
    Mutant(
        "part's bytes not compared with its name", "commitlog/stores/tail_object.py",
        "        if digest(content, part.first, size, follows) != reaches:\n",
        "        if digest(content, part.first, size, follows) == -1:\n",
        py("stores/test_store_parts.py", "stores/test_restore.py", "stores/test_tiered.py"),
    ),
    Mutant(
        "parts of a fenced writer counted", "commitlog/stores/contents.py",
        "        stop = min([part.stop, *starts])\n",
        "        stop = part.stop\n",
        py("stores/test_store_sessions.py", "stores/test_store_epochs.py"),
    ),
    Mutant(
        "later session of a store ignored", "commitlog/stores/store_session.py",
        "        if read_session(target, self.number + 1) is not None:\n            raise",
        "        if read_session(target, self.number + 1) is None:\n            return\n        "
        "if False:\n            raise",
        py("stores/test_store_epochs.py", "stores/test_store_sessions.py"),
    ),
    Mutant(
        "store without conditional put accepted", "commitlog/stores/store_session.py",
        "    if target.put(newest.name, partial(_write, text), replace=False):\n",
        "    if not newest.name:\n",
        py("stores/test_s3_faults.py", "stores/test_store_on_s3.py", "stores/test_store_epochs.py"),
    ),
    Mutant(
        "store that is ahead of the log accepted", "commitlog/stores/store_comparison.py",
        "        if end > common or beyond > self._durable:\n            raise "
        "self._forked(common)\n",
        "",
        py("stores/test_store_sessions.py", "stores/test_store_parts.py"),
    ),
    Mutant(
        "seal of lost records stored in a part", "commitlog/segment/segment_header.py",
        "return content[: kernel.SEAL_AT] + bytes(kernel.SEAL_SIZE) + content[stop:]",
        "return content",
        py("stores/test_store_parts.py", "stores/test_restore.py", "stores/test_store.py"),
    ),
    Mutant(
        "parts deleted although their merge is short", "commitlog/stores/stored_tail.py",
        "if (found := self._target.size(whole.name)) != packed_bytes:",
        "if (found := self._target.size(whole.name)) != packed_bytes and packed_bytes < 0:",
        py("stores/test_store_parts.py"),
    ),
]  # fmt: skip

REPLICATION = [
    Mutant(
        "count of copies off by one", "commitlog/network/replication/quota.py",
        "return positions[copies - 1] if len(positions) >= copies else 0",
        "return positions[max(copies - 2, 0)] if len(positions) >= copies else 0",
        py("network/replication/test_quota.py", "network/replication/test_copies_counted.py",
           "network/replication/test_acknowledgements.py",
           "network/replication/test_require.py"),
    ),
    Mutant(
        "acknowledgement beyond what was sent counts", "commitlog/network/replication/quota.py",
        "if event.position % FRAME_ALIGN or event.position > event.sent:",
        "if event.position % FRAME_ALIGN:",
        py("network/replication/test_quota.py", "network/replication/test_acknowledgements.py",
           "network/replication/test_bad_peers.py"),
    ),
    Mutant(
        "acknowledgement of an older epoch counts", "commitlog/network/replication/quota.py",
        "        if event.rank < current:\n            return None  # the",
        "        if event.rank < current and not event.name:\n            return None  # the",
        py("network/replication/test_quota.py", "network/replication/test_acknowledgements.py",
           "network/replication/test_promotion.py"),
    ),
    Mutant(
        "copy that lacks the epoch's start counts", "commitlog/network/replication/quota.py",
        "reached = event.position if event.position >= event.current.start else 0",
        "reached = event.position",
        py("network/replication/test_quota.py", "network/replication/test_acknowledgements.py",
           "network/replication/test_promotion.py"),
    ),
    Mutant(
        "acknowledged after a fence", "commitlog/network/replication/acknowledgements.py",
        "        if fence is not None:\n",
        "        if fence is not None and reached <= position:\n",
        py("network/replication/test_acknowledgements.py", "network/replication/test_promotion.py"),
    ),
    Mutant(
        "digest of the meeting removed", "commitlog/network/replication/following.py",
        "        if position is None:\n",
        "        if position is None or position > 0:\n",
        py("network/replication/test_following.py"),
    ),
    Mutant(
        "primary that lost records followed", "commitlog/network/replication/following.py",
        "        if copy.end > copy.identity.past_header(end):\n",
        "        if copy.end > copy.identity.past_header(end) + (1 << 40):\n",
        py("network/replication/test_following.py"),
    ),
    Mutant(
        "recovered primary that lost durable records followed",
        "commitlog/network/replication/promise.py",
        "return start if start is not None and start < durable and same else None",
        "return None",
        py("network/replication/test_older_primary.py", "network/replication/test_restart.py"),
    ),
    Mutant(
        "restored copy admitted", "commitlog/network/replication/replica.py",
        "            if not restored:\n",
        "            if restored is None:\n",
        py("network/replication/test_follower.py", "recovery/test_place.py",
           "network/replication/test_replaced_log.py"),
    ),
    Mutant(
        "promise not written", "commitlog/network/replication/replica.py",
        "                self._write(new)\n                failpoint(\"fence written\")",
        "                self.lineage = new\n                failpoint(\"fence written\")",
        py("network/replication/test_promotion.py", "network/replication/test_listening_copy.py"),
    ),
    Mutant(
        "CRC of a message's body not checked", "commitlog/network/remote/channel.py",
        "        if crc32c(body) != body_crc:\n            raise _damaged()\n",
        "        if crc32c(body) == -1:\n            raise _damaged()\n",
        py("network/remote/test_channel.py"),
    ),
    Mutant(
        "repeated message taken", "commitlog/network/remote/channel.py",
        "if number != self._received or head_size > head_limit or body_size > body_limit:",
        "if head_size > head_limit or body_size > body_limit:",
        py("network/remote/test_channel.py"),
    ),
    Mutant(
        "any token accepted", "commitlog/network/replication/permits.py",
        "            if hmac.compare_digest(value, wanted):\n",
        "            if value or wanted:\n",
        py("network/replication/test_permits.py", "network/replication/test_strangers.py"),
    ),
]  # fmt: skip

MUTANTS = [*RECOVERY, *FILES, *RETENTION, *STORES, *REPLICATION]
