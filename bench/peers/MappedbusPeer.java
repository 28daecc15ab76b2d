import io.mappedbus.MappedBusMessage;
import io.mappedbus.MappedBusReader;
import io.mappedbus.MappedBusWriter;
import io.mappedbus.MemoryMappedFile;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.Arrays;

/**
 * Mappedbus in the roles that commitlog is measured in: MappedbusPeer ROLE PATH KEY=VALUE...
 *
 * Says "ready", waits for a line on standard input, works, and prints one JSON object: the
 * protocol of ours.py.
 */
public final class MappedbusPeer {
    private static final int SIZE = 12;
    private static final int ENTRY = 8 + SIZE;

    /** Twelve bytes: a time and a number. */
    private static final class Stamped implements MappedBusMessage {
        long time;
        int number;

        @Override
        public void write(MemoryMappedFile memory, long at) {
            memory.putLong(at, time);
            memory.putInt(at + 8, number);
        }

        @Override
        public void read(MemoryMappedFile memory, long at) {
            time = memory.getLong(at);
            number = memory.getInt(at + 8);
        }

        @Override
        public int type() {
            return 0;
        }
    }

    private final String path;
    private final long capacity;
    private final int warm;
    private final int messages;
    private final int writers;
    private final long perMinute;
    private final Stamped message = new Stamped();

    private MappedbusPeer(String path, String[] settings) {
        this.path = path;
        this.warm = Integer.parseInt(value(settings, "warm"));
        this.messages = Integer.parseInt(value(settings, "messages"));
        this.writers = Integer.parseInt(value(settings, "writers"));
        this.perMinute = Long.parseLong(value(settings, "per_minute"));
        this.capacity = 8L + (long) ENTRY * writers * (warm + messages);
    }

    private static String value(String[] settings, String name) {
        for (String setting : settings) {
            if (setting.startsWith(name + "=")) {
                return setting.substring(name.length() + 1);
            }
        }
        throw new IllegalArgumentException(name + " is missing");
    }

    public static void main(String[] arguments) throws IOException {
        MappedbusPeer peer = new MappedbusPeer(arguments[1], arguments);
        switch (arguments[0]) {
            case "write":
                peer.write();
                break;
            case "read":
                peer.read();
                break;
            case "ping":
                peer.ping();
                break;
            case "pong":
                peer.pong();
                break;
            case "paced-write":
                peer.pacedWrite();
                break;
            case "paced-read":
                peer.pacedRead();
                break;
            default:
                throw new IllegalArgumentException("there is no role " + arguments[0]);
        }
    }

    private static void waitForGo() throws IOException {
        System.out.println("ready");
        System.out.flush();
        new BufferedReader(new InputStreamReader(System.in)).readLine();
    }

    private MappedBusWriter writer(String suffix) throws IOException {
        MappedBusWriter writer = new MappedBusWriter(path + suffix, capacity, SIZE);
        writer.open();
        return writer;
    }

    private MappedBusReader reader(String suffix) throws IOException {
        MappedBusReader reader = new MappedBusReader(path + suffix, capacity, SIZE);
        reader.open();
        return reader;
    }

    private void write() throws IOException {
        MappedBusWriter writer = writer("");
        waitForGo();
        append(writer, warm);
        long began = System.nanoTime();
        append(writer, messages);
        long took = System.nanoTime() - began;
        System.out.println("{\"nanoseconds\": " + took + ", \"messages\": " + messages + "}");
        writer.close();
    }

    private void append(MappedBusWriter writer, int count) throws IOException {
        for (int i = 0; i < count; i++) {
            message.number = i;
            if (!writer.write(message)) {
                throw new IOException("a message was rolled back");
            }
        }
    }

    private void read() throws IOException {
        MappedBusReader reader = reader("");
        waitForGo();
        long sum = take(reader, (long) writers * warm);
        long began = System.nanoTime();
        sum += take(reader, (long) writers * messages);
        long took = System.nanoTime() - began;
        System.out.println("{\"nanoseconds\": " + took
                + ", \"messages\": " + (long) writers * messages + ", \"sum\": " + sum + "}");
        reader.close();
    }

    private long take(MappedBusReader reader, long count) throws IOException {
        long sum = 0;
        for (long i = 0; i < count; i++) {
            next(reader);
            sum += message.number;
        }
        return sum;
    }

    private void next(MappedBusReader reader) throws IOException {
        while (!reader.next()) {
        }
        reader.readType();
        reader.readMessage(message);
    }

    private void ping() throws IOException {
        MappedBusWriter writer = writer("-there");
        MappedBusReader reader = reader("-back");
        long[] taken = new long[messages];
        waitForGo();
        for (int i = -warm; i < messages; i++) {
            message.number = i;
            long began = System.nanoTime();
            writer.write(message);
            next(reader);
            long took = System.nanoTime() - began;
            if (message.number != i) {
                throw new IOException("another answer came");
            }
            if (i >= 0) {
                taken[i] = took;
            }
        }
        System.out.println(percentiles(taken));
    }

    private void pong() throws IOException {
        MappedBusReader reader = reader("-there");
        MappedBusWriter writer = writer("-back");
        waitForGo();
        for (int i = -warm; i < messages; i++) {
            next(reader);
            writer.write(message);
        }
        System.out.println("{}");
    }

    /** Each message carries when it was due: a writer that falls behind does not hide it. */
    private void pacedWrite() throws IOException {
        MappedBusWriter writer = writer("");
        waitForGo();
        long began = System.nanoTime();
        for (int i = 0; i < warm + messages; i++) {
            long due = began + (long) i * 60_000_000_000L / perMinute;
            while (System.nanoTime() < due) {
            }
            message.time = due;
            message.number = i;
            writer.write(message);
        }
        System.out.println("{}");
    }

    private void pacedRead() throws IOException {
        MappedBusReader reader = reader("");
        long[] taken = new long[messages];
        waitForGo();
        for (int i = -warm; i < messages; i++) {
            next(reader);
            long took = System.nanoTime() - message.time;
            if (i >= 0) {
                taken[i] = took;
            }
        }
        System.out.println(percentiles(taken));
    }

    private static String percentiles(long[] taken) {
        Arrays.sort(taken);
        int last = taken.length - 1;
        return "{\"p50\": " + taken[(int) (last * 0.5)] + ", \"p99\": " + taken[(int) (last * 0.99)]
                + ", \"p999\": " + taken[(int) (last * 0.999)]
                + ", \"largest\": " + taken[last] + "}";
    }
}
