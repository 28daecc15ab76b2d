import java.io.File;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.util.Collections;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExtBatch;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.store.CommitLog;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.DispatchRequest;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.PutMessageStatus;
import org.apache.rocketmq.store.SelectMappedBufferResult;
import org.apache.rocketmq.store.config.BrokerRole;
import org.apache.rocketmq.store.config.FlushDiskType;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/** RocketMQ's commit log; with full=1 the whole DefaultMessageStore. */
final class RocketPeer extends Bench {
    private DefaultMessageStore store;
    private CommitLog log;

    @Override
    void open() throws Exception {
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(path);
        config.setStorePathCommitLog(path + File.separator + "commitlog");
        long segment = number("segment");
        config.setMappedFileSizeCommitLog(segment == 0 ? 64 << 20 : (int) segment);
        config.setTransientStorePoolEnable(number("pool") != 0);
        config.setTransientStorePoolSize((int) Math.max(5, number("buffers")));
        config.setWarmMapedFileEnable(number("warm_files") != 0);
        config.setFlushDiskType(sync() ? FlushDiskType.SYNC_FLUSH : FlushDiskType.ASYNC_FLUSH);
        config.setBrokerRole(BrokerRole.ASYNC_MASTER);
        config.setMessageIndexEnable(false);
        config.setTimerWheelEnable(false);
        config.setEnableCompaction(false);
        config.setHaListenPort(0);
        config.setDiskMaxUsedSpaceRatio(99);
        store = new DefaultMessageStore(config, new BrokerStatsManager("peer", false), null,
                new BrokerConfig(), new ConcurrentHashMap<>());
        if (!store.load()) {
            throw new IllegalStateException("the store did not load");
        }
        log = store.getCommitLog();
        if (number("full") != 0) {
            store.start();
            return;
        }
        // What appending needs of start(): no consume queues, no index, no replication.
        if (store.isTransientStorePoolEnable()) {
            store.getTransientStorePool().init();
        }
        store.getAllocateMappedFileService().start();
        log.start();
    }

    private void address(MessageExtBrokerInner message, int queue, byte[] body) {
        InetSocketAddress host = new InetSocketAddress("127.0.0.1", 8123);
        message.setTopic("peer");
        message.setBody(body);
        message.setQueueId(queue);
        message.setBornTimestamp(System.currentTimeMillis());
        message.setStoreHost(host);
        message.setBornHost(host);
        message.setPropertiesString("");
        message.setWaitStoreMsgOK(true);
    }

    @Override
    Log log(String path, int thread) {
        int batch = (int) Math.max(1, number("batch"));
        boolean full = number("full") != 0;
        MessageExtBrokerInner one = new MessageExtBrokerInner();
        MessageExtBatch many = new MessageExtBatch();
        address(one, thread, value);
        address(many, thread, MessageDecoder.encodeMessages(
                Collections.nCopies(batch, new Message("peer", value))));
        return new Log() {
            @Override
            public long append() throws Exception {
                PutMessageResult result = (batch > 1
                        ? full ? store.asyncPutMessages(many) : log.asyncPutMessages(many)
                        : full ? store.asyncPutMessage(one) : log.asyncPutMessage(one)).get();
                if (result.getPutMessageStatus() != PutMessageStatus.PUT_OK) {
                    throw new IllegalStateException(result.getPutMessageStatus().toString());
                }
                return result.getAppendMessageResult().getWroteOffset();
            }

            @Override
            public int perCall() {
                return batch;
            }

            @Override
            public void drain() throws Exception {
                do {
                    log.flush();
                } while (log.getFlushedWhere() < log.getMaxOffset());
            }
        };
    }

    @Override
    Pass pass() {
        boolean crc = number("no_crc") == 0;
        return () -> {
            long at = log.getMinOffset(), end = log.getMaxOffset(), records = 0;
            while (at < end) {
                SelectMappedBufferResult selected = log.getData(at);
                try {
                    ByteBuffer buffer = selected.getByteBuffer();
                    long until = at + selected.getSize();
                    while (at < until) {
                        DispatchRequest found =
                                log.checkMessageAndReturnSize(buffer, crc, false, true);
                        if (!found.isSuccess()) {
                            throw new IllegalStateException("damaged at " + at);
                        }
                        if (found.getMsgSize() == 0) { // the blank at the end of a segment
                            at = log.rollNextFile(at);
                            break;
                        }
                        at += found.getMsgSize();
                        records++;
                    }
                } finally {
                    selected.release();
                }
            }
            return records;
        };
    }

    public static void main(String[] arguments) {
        new RocketPeer().start(arguments);
    }
}
