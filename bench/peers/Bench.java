import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CyclicBarrier;
import java.util.stream.Stream;

/** A peer on a JVM: PEER ROLE DIRECTORY KEY=VALUE... The loops are those of loops.py. */
abstract class Bench {
    interface Log {
        /** Appends `perCall()` records; returns the position, if the peer has one. */
        long append() throws Exception;
        default int perCall() { return 1; }
        /** Writes a number into the value of the records that follow. */
        default void stamp(long number) { throw new UnsupportedOperationException(); }
        default void drain() throws Exception { }
        /** Makes everything durable, by the peer's own call or by fsync of its files. */
        default void finish() throws Exception { drain(); }
    }

    interface Source {
        /** Copies the next record, if there is one. */
        boolean poll() throws Exception;
        long stamp();
    }

    interface Pass { long read() throws Exception; }

    String role, path;
    byte[] value;
    private final Map<String, String> given = new HashMap<>();

    /** An appender of one thread. */
    abstract Log log(String path, int thread) throws Exception;
    /** A pass over the whole log, which returns the number of records. */
    abstract Pass pass() throws Exception;
    Source source(String path) throws Exception { throw new UnsupportedOperationException(); }
    void open() throws Exception { }

    void start(String[] arguments) {
        try {
            role = arguments[0];
            path = arguments[1];
            for (String one : Arrays.copyOfRange(arguments, 2, arguments.length)) {
                given.put(one.substring(0, one.indexOf('=')), one.substring(one.indexOf('=') + 1));
            }
            value = new byte[(int) number("size")];
            new Random(7).nextBytes(value);
            open();
            run();
            Runtime.getRuntime().halt(0);
        } catch (Throwable error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    long number(String name) { return (long) Double.parseDouble(given.getOrDefault(name, "0")); }
    String text(String name) { return given.getOrDefault(name, ""); }
    boolean sync() { return role.equals("sync"); }

    private void run() throws Exception {
        switch (role) {
            case "burst": burst(log(path, 0)); break;
            case "sustained": sustained(log(path, 0)); break;
            case "paced": paced(log(path, 0)); break;
            case "sync": sync((int) number("threads")); break;
            case "read": read(); break;
            case "write": write(log(path, 0), number("rate")); break;
            case "take": take(source(path)); break;
            case "paced-take": pacedTake(source(path)); break;
            case "ping": ping(); break;
            case "pong": pong(); break;
            default: throw new IllegalArgumentException("no role " + role);
        }
    }

    static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    /** All processes of a turn are in place before any of them begins. */
    static void ready() throws IOException {
        say("ready");
        while (System.in.read() != '\n') {
        }
    }

    private static void calls(Log log, long records) throws Exception {
        for (long i = records / log.perCall(); i > 0; i--) {
            log.append();
        }
    }

    private void burst(Log log) throws Exception {
        long count = number("records") / log.perCall() * log.perCall();
        int bursts = (int) number("bursts"), warm = (int) number("warm");
        long most = number("warm_ms") * 1_000_000L, spent = 0;
        double[] each = new double[bursts];
        for (int b = -warm; b < bursts; b++) {
            // The compilers get at most `warm` bursts, and fewer if `warm_ms` of appending passed.
            if (b < 0 && b >= 3 - warm && spent > most) {
                b = 0;
            }
            long began = System.nanoTime();
            calls(log, count);
            long took = System.nanoTime() - began;
            spent += took;
            if (b >= 0) {
                each[b] = took / (double) count;
            }
            log.drain();
            Thread.sleep(10);
        }
        say("{\"ns\": " + median(each) + "}");
    }

    private static double median(double[] each) {
        Arrays.sort(each);
        return each[each.length / 2];
    }

    private void sustained(Log log) throws Exception {
        long count = number("bytes") / value.length;
        calls(log, number("warm_records"));
        log.drain();
        long began = System.nanoTime();
        calls(log, count);
        log.finish();
        double bytes = (double) (count / log.perCall() * log.perCall()) * value.length;
        say("{\"mb_s\": " + bytes * 1e3 / (System.nanoTime() - began) + "}");
    }

    private void paced(Log log) throws Exception {
        double rate = number("rate");
        calls(log, number("jit_records"));
        log.drain();
        Thread.sleep(200);
        pace(log, rate, new long[(int) (rate * number("warm_ms") / 1000)]);
        long[] taken = new long[(int) (rate * number("ms") / 1000)];
        Arrays.fill(taken, 1);
        long[] rolls = pace(log, rate, taken);
        say("{" + percentiles(taken) + ", \"rolls\": " + Arrays.toString(rolls) + "}");
    }

    /** Appends at a constant rate; returns the times of the calls that began a segment. */
    private long[] pace(Log log, double rate, long[] taken) throws Exception {
        long[] rolls = new long[10_000];
        int rolled = 0;
        long segment = Math.max(1 << 20, number("segment")), last = -1;
        long began = System.nanoTime() + 50_000_000;
        for (int i = 0; i < taken.length; i++) {
            long due = began + (long) (i * (1e9 / rate));
            long called;
            while ((called = System.nanoTime()) < due) {
            }
            long at = log.append() / segment, ended = System.nanoTime();
            taken[i] = ended - due;
            if (at != last && last >= 0 && rolled < rolls.length) {
                rolls[rolled++] = ended - called;
            }
            last = at;
        }
        return Arrays.copyOf(rolls, rolled);
    }

    private void sync(int threads) throws Exception {
        CyclicBarrier barrier = new CyclicBarrier(threads);
        long[][] all = new long[threads][];
        Thread[] running = new Thread[threads];
        Throwable[] failed = new Throwable[1];
        for (int t = 0; t < threads; t++) {
            int me = t;
            Log log = log(path, t);
            running[t] = new Thread(() -> {
                try {
                    all[me] = syncLoop(log, barrier);
                } catch (Throwable error) {
                    failed[0] = error;
                    barrier.reset();
                }
            });
            running[t].start();
        }
        for (Thread one : running) {
            one.join();
        }
        if (failed[0] != null) {
            throw new IllegalStateException(failed[0]);
        }
        long[] taken = Arrays.stream(all).flatMapToLong(Arrays::stream).toArray();
        double seconds = number("ms") / 1e3;
        say("{" + percentiles(taken) + ", \"per_s\": " + taken.length / seconds + "}");
    }

    /** Each thread stops at the first append that ends after `ms`. */
    private long[] syncLoop(Log log, CyclicBarrier barrier) throws Exception {
        long[] taken = new long[1 << 20];
        int n = 0;
        long warmUntil = System.nanoTime() + number("warm_ms") * 1_000_000L;
        for (int i = 0; i < number("warm_appends") || System.nanoTime() < warmUntil; i++) {
            log.append();
        }
        barrier.await();
        long began = System.nanoTime(), deadline = began + number("ms") * 1_000_000L;
        while (began < deadline && n < taken.length) {
            log.append();
            long now = System.nanoTime();
            taken[n++] = now - began;
            began = now;
        }
        return Arrays.copyOf(taken, n);
    }

    private void read() throws Exception {
        long records = number("records");
        Log log = log(path, 0);
        calls(log, records);
        log.drain();
        Pass pass = pass();
        int warm = (int) number("warm");
        double[] each = new double[(int) number("passes")];
        for (int p = -warm; p < each.length; p++) {
            long began = System.nanoTime();
            if (pass.read() != records) {
                throw new IllegalStateException("a pass did not read " + records + " records");
            }
            if (p >= 0) {
                each[p] = (System.nanoTime() - began) / (double) records;
            }
        }
        say("{\"ns\": " + median(each) + "}");
    }

    /** With a rate, each record carries the time at which it was due. */
    private void write(Log log, double rate) throws Exception {
        ready();
        long began = System.nanoTime() + 100_000_000;
        long count = number("records") + number("warm_records");
        for (long i = 0; i < count; i++) {
            if (rate > 0) {
                long due = began + (long) (i * (1e9 / rate));
                while (System.nanoTime() < due) {
                }
                log.stamp(due);
            }
            log.append();
        }
        say("{}");
        System.in.read();
    }

    private static void next(Source source) throws Exception {
        while (!source.poll()) {
        }
    }

    private void take(Source source) throws Exception {
        long writers = number("writers"), records = number("records") * writers;
        ready();
        for (long i = number("warm_records") * writers; i > 0; i--) {
            next(source);
        }
        long began = System.nanoTime();
        for (long i = 0; i < records; i++) {
            next(source);
        }
        say("{\"ns\": " + (System.nanoTime() - began) / (double) records + "}");
    }

    private void pacedTake(Source source) throws Exception {
        long[] taken = new long[(int) number("records")];
        Arrays.fill(taken, 1);
        ready();
        for (long i = -number("warm_records"); i < taken.length; i++) {
            next(source);
            long took = System.nanoTime() - source.stamp();
            if (i >= 0) {
                taken[(int) i] = took;
            }
        }
        say("{" + percentiles(taken) + "}");
    }

    private void ping() throws Exception {
        Log there = log(path + "/there", 0);
        Source back = source(path + "/back");
        long[] taken = new long[(int) number("records")];
        ready();
        for (long i = -number("warm_records"); i < taken.length; i++) {
            there.stamp(i);
            long began = System.nanoTime();
            there.append();
            next(back);
            long took = System.nanoTime() - began;
            if (back.stamp() != i) {
                throw new IllegalStateException("another answer came");
            }
            if (i >= 0) {
                taken[(int) i] = took;
            }
        }
        say("{" + percentiles(taken) + "}");
    }

    private void pong() throws Exception {
        Log back = log(path + "/back", 0);
        ready();
        Source there = source(path + "/there");
        for (long i = number("records") + number("warm_records"); i > 0; i--) {
            next(there);
            back.stamp(there.stamp());
            back.append();
        }
        say("{}");
        System.in.read();
    }

    private static String percentiles(long[] taken) {
        Arrays.sort(taken);
        int last = taken.length - 1;
        return "\"p50\": " + taken[last / 2] + ", \"p99\": " + taken[(int) (last * 0.99)]
                + ", \"p999\": " + taken[(int) (last * 0.999)];
    }

    static void forceFiles(String directory) throws IOException {
        try (Stream<Path> files = Files.walk(Paths.get(directory))) {
            for (Path file : (Iterable<Path>) files.filter(Files::isRegularFile)::iterator) {
                try (FileChannel channel = FileChannel.open(file, StandardOpenOption.WRITE)) {
                    channel.force(false);
                }
            }
        }
    }
}
