import java.io.File;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.FetchDataInfo;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/** Kafka's UnifiedLog in this process, without a broker. */
final class KafkaPeer extends Bench {
    private static final int MAX_BATCH = 1024;
    private UnifiedLog log;

    @Override
    void open() throws Exception {
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        Map<String, Object> properties = new HashMap<>();
        properties.put("segment.bytes", 1 << 30);
        properties.put("retention.ms", -1L);
        properties.put("max.message.bytes", 64 << 20);
        if (sync()) {
            properties.put("flush.messages", 1L);
        }
        File directory = new File(path, "topic-0");
        directory.mkdirs();
        log = UnifiedLog.create(directory, new LogConfig(properties), 0, 0, scheduler,
                new BrokerTopicStats(), Time.SYSTEM, 300_000,
                new ProducerStateManagerConfig(86_400_000, false), 600_000,
                new LogDirFailureChannel(1), true, Optional.empty());
    }

    /** The client's encoding and the broker's check of the batch are both counted. */
    @Override
    Log log(String path, int thread) {
        int batch = role.equals("read") ? MAX_BATCH : (int) Math.max(1, number("batch"));
        SimpleRecord[] records = new SimpleRecord[batch];
        Arrays.fill(records, new SimpleRecord(System.currentTimeMillis(), value));
        return new Log() {
            @Override
            public long append() throws Exception {
                log.appendAsLeader(MemoryRecords.withRecords(Compression.NONE, records), 0);
                return 0;
            }

            @Override
            public int perCall() {
                return batch;
            }

            @Override
            public void drain() throws Exception {
                log.flush(false);
            }
        };
    }

    @Override
    Pass pass() {
        return () -> {
            long at = 0, end = log.logEndOffset();
            while (at < end) {
                FetchDataInfo data = log.read(at, 1 << 20, FetchIsolation.LOG_END, true);
                for (Record record : data.records.records()) {
                    record.ensureValid();
                    at = record.offset() + 1;
                }
            }
            return at;
        };
    }

    public static void main(String[] arguments) {
        new KafkaPeer().start(arguments);
    }
}
