import net.openhft.chronicle.bytes.Bytes;
import net.openhft.chronicle.bytes.MethodReader;
import net.openhft.chronicle.bytes.SyncMode;
import net.openhft.chronicle.queue.ChronicleQueue;
import net.openhft.chronicle.queue.ExcerptAppender;
import net.openhft.chronicle.queue.ExcerptTailer;
import net.openhft.chronicle.queue.impl.single.SingleChronicleQueueBuilder;
import net.openhft.chronicle.wire.SelfDescribingMarshallable;

/** Chronicle Queue; a sync append is an append and its `sync()`; form=methods calls methods. */
final class ChroniclePeer extends Bench {
    private ChronicleQueue queue(String path) {
        SingleChronicleQueueBuilder builder =
                SingleChronicleQueueBuilder.single(path).blockSize(64 << 20);
        return (sync() ? builder.syncMode(SyncMode.SYNC) : builder).build();
    }

    /** The fields of `messages.Order`. */
    public static final class Order extends SelfDescribingMarshallable {
        long id = 17;
        String item = "lamp";
        double amount = 12.5;
        long at = 1_750_000_000_000_000_000L;
        int quantity = 3;
        String note = "a gift for a friend";
    }

    /** What a method writer implements. */
    public interface Orders {
        void ordered(Order order);
    }

    @Override
    Log log(String path, int thread) {
        return text("form").equals("methods") ? calls(path) : bytes(path);
    }

    /** Each append is a call of a method. */
    private Log calls(String path) {
        Orders orders = queue(path).methodWriter(Orders.class);
        Order order = new Order();
        return () -> {
            orders.ordered(order);
            return 0;
        };
    }

    /** Each append is a record of bytes. */
    private Log bytes(String path) {
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
        return text("form").equals("methods") ? handling() : reading();
    }

    private long handled;

    /** Calls a method with each message. */
    private Pass handling() {
        ExcerptTailer tailer = queue(path).createTailer();
        MethodReader reader = tailer.methodReader((Orders) order -> handled++);
        return () -> {
            tailer.toStart();
            long before = handled;
            while (reader.readOne()) {
            }
            return handled - before;
        };
    }

    private Pass reading() {
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
