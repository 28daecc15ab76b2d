import io.mappedbus.MappedBusReader;
import io.mappedbus.MappedBusWriter;
import java.io.File;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;

/** Mappedbus with byte buffers. Its file has one size and is sparse. */
final class BusPeer extends Bench {
    private static final long CAPACITY = 8L << 30;

    @Override
    Log log(String path, int thread) throws Exception {
        new File(path).mkdirs();
        MappedBusWriter writer = new MappedBusWriter(path + "/bus", CAPACITY, value.length);
        writer.open();
        ByteBuffer stamped = ByteBuffer.wrap(value);
        return new Log() {
            @Override
            public long append() throws Exception {
                if (!writer.write(value, 0, value.length)) {
                    throw new IllegalStateException("rolled back");
                }
                return 0;
            }

            @Override
            public void stamp(long number) {
                stamped.putLong(0, number);
            }

            @Override
            public void finish() throws Exception {
                forceFiles(path);
            }
        };
    }

    private MappedBusReader reader(String path) throws Exception {
        MappedBusReader reader = new MappedBusReader(path + "/bus", CAPACITY, value.length);
        reader.open();
        return reader;
    }

    @Override
    Source source(String path) throws Exception {
        MappedBusReader reader = reader(path);
        byte[] into = new byte[value.length];
        ByteBuffer stamped = ByteBuffer.wrap(into);
        return new Source() {
            @Override
            public boolean poll() throws Exception {
                if (!reader.next()) {
                    return false;
                }
                reader.readBuffer(into, 0);
                return true;
            }

            @Override
            public long stamp() {
                return stamped.getLong(0);
            }
        };
    }

    /** A reader cannot go back: reflection sets its place, so that no pass maps the file again. */
    @Override
    Pass pass() throws Exception {
        MappedBusReader reader = reader(path);
        byte[] into = new byte[value.length];
        Field limit = MappedBusReader.class.getDeclaredField("limit");
        Field previous = MappedBusReader.class.getDeclaredField("prevLimit");
        limit.setAccessible(true);
        previous.setAccessible(true);
        long first = limit.getLong(reader), records = number("records");
        return () -> {
            limit.setLong(reader, first);
            previous.setLong(reader, 0);
            for (long i = 0; i < records; i++) {
                while (!reader.next()) {
                }
                reader.readBuffer(into, 0);
            }
            return records;
        };
    }

    public static void main(String[] arguments) {
        new BusPeer().start(arguments);
    }
}
