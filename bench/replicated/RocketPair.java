import java.io.File;
import java.net.InetSocketAddress;
import java.util.Arrays;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.PutMessageStatus;
import org.apache.rocketmq.store.config.BrokerRole;
import org.apache.rocketmq.store.config.FlushDiskType;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/**
 * RocketMQ's message store as a master that waits for one slave, or as that slave: ROLE PATH PORT,
 * then for the master the number of messages for each line of its input. The master answers a line
 * with p50 and p99 in microseconds.
 */
final class RocketPair {
    private static DefaultMessageStore open(boolean slave, String path, int port)
            throws Exception {
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(path);
        config.setStorePathCommitLog(path + File.separator + "commitlog");
        config.setMappedFileSizeCommitLog(64 << 20);
        config.setMessageIndexEnable(false);
        config.setTimerWheelEnable(false);
        config.setEnableCompaction(false);
        config.setDiskMaxUsedSpaceRatio(99);
        config.setHaListenPort(slave ? 0 : port);
        config.setFlushDiskType(FlushDiskType.SYNC_FLUSH);
        config.setBrokerRole(slave ? BrokerRole.SLAVE : BrokerRole.SYNC_MASTER);
        config.setTotalReplicas(2);
        config.setInSyncReplicas(2); // with 1, the master alone is enough
        BrokerConfig broker = new BrokerConfig();
        broker.setBrokerId(slave ? 1 : 0);
        DefaultMessageStore store = new DefaultMessageStore(config,
                new BrokerStatsManager("peer", false), null, broker, new ConcurrentHashMap<>());
        if (!store.load()) {
            throw new IllegalStateException("the store did not load");
        }
        store.start();
        return store;
    }

    private static MessageExtBrokerInner message() {
        InetSocketAddress host = new InetSocketAddress("127.0.0.1", 8123);
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        message.setTopic("peer");
        message.setBody(new byte[128]);
        message.setQueueId(0);
        message.setBornTimestamp(System.currentTimeMillis());
        message.setStoreHost(host);
        message.setBornHost(host);
        message.setPropertiesString("");
        message.setWaitStoreMsgOK(true);
        return message;
    }

    private static long[] append(DefaultMessageStore store, int count) throws Exception {
        long[] taken = new long[count];
        for (int i = 0; i < count; i++) {
            MessageExtBrokerInner message = message();
            long began = System.nanoTime();
            PutMessageStatus status = store.asyncPutMessage(message).get().getPutMessageStatus();
            taken[i] = System.nanoTime() - began;
            if (status != PutMessageStatus.PUT_OK) {
                throw new IllegalStateException(status.toString());
            }
        }
        Arrays.sort(taken);
        return taken;
    }

    public static void main(String[] arguments) throws Exception {
        boolean slave = arguments[0].equals("slave");
        int port = Integer.parseInt(arguments[2]);
        DefaultMessageStore store = open(slave, arguments[1], port);
        if (slave) {
            store.updateHaMasterAddress("127.0.0.1:" + port);
            while (System.in.read() >= 0) { // until the benchmark ends
            }
            Runtime.getRuntime().halt(0);
        }
        while (store.getHaService().inSyncReplicasNums(store.getMaxPhyOffset()) < 2) {
            Thread.sleep(10);
        }
        int count = Integer.parseInt(arguments[3]);
        while (System.in.read() >= 0) {
            long[] taken = append(store, count);
            System.out.println(taken[count / 2] / 1e3 + " " + taken[count * 99 / 100] / 1e3);
        }
        Runtime.getRuntime().halt(0);
    }
}
