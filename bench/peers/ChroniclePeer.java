import net.openhft.chronicle.bytes.Bytes;
import net.openhft.chronicle.bytes.SyncMode;
import net.openhft.chronicle.queue.ChronicleQueue;
import net.openhft.chronicle.queue.ExcerptAppender;
import net.openhft.chronicle.queue.ExcerptTailer;
import net.openhft.chronicle.queue.impl.single.SingleChronicleQueueBuilder;

/** Chronicle Queue; a sync append is an append and its `sync()`. */
final class ChroniclePeer extends Bench {
    private ChronicleQueue queue(String path) {
        SingleChronicleQueueBuilder builder =
                SingleChronicleQueueBuilder.single(path).blockSize(64 << 20);
        return (sync() ? builder.syncMode(SyncMode.SYNC) : builder).build();
    }

    @Override
    Log log(String path, int thread) {
        ExcerptAppender appender = queue(path).createAppender();
        Bytes<?> bytes = Bytes.allocateDirect(value.length);
        bytes.write(value);
        boolean sync = sync();
        return new Log() {
            @Override
            public long append() {
                bytes.readPosition(0);
                appender.writeBytes(bytes);
                if (sync) {
                    appender.sync();
                }
                return 0;
            }

            @Override
            public void stamp(long number) {
                bytes.writeLong(0, number);
            }

            @Override
            public void finish() throws Exception {
                forceFiles(path);
            }
        };
    }

    @Override
    Source source(String path) {
        ExcerptTailer tailer = queue(path).createTailer();
        Bytes<?> into = Bytes.allocateElasticDirect(value.length + 64);
        return new Source() {
            @Override
            public boolean poll() {
                into.clear();
                return tailer.readBytes(into);
            }

            @Override
            public long stamp() {
                return into.readLong(0);
            }
        };
    }

    @Override
    Pass pass() {
        ExcerptTailer tailer = queue(path).createTailer();
        Bytes<?> into = Bytes.allocateElasticDirect(value.length + 64);
        return () -> {
            tailer.toStart();
            for (long records = 0;; records++) {
                into.clear();
                if (!tailer.readBytes(into)) {
                    return records;
                }
            }
        };
    }

    public static void main(String[] arguments) {
        new ChroniclePeer().start(arguments);
    }
}
