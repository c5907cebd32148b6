package app;

import cn.hutool.core.util.IdUtil;
import com.baomidou.mybatisplus.core.incrementer.DefaultIdentifierGenerator;
import com.github.yitter.contract.IdGeneratorOptions;
import com.github.yitter.idgen.YitIdHelper;
import com.xfvape.uid.impl.CachedUidGenerator;
import com.xfvape.uid.worker.DisposableWorkerIdAssigner;
import com.xfvape.uid.worker.dao.WorkerNodeDAO;
import java.io.*;
import java.lang.reflect.Field;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.locks.LockSupport;
import me.ahoo.cosid.machine.*;
import me.ahoo.cosid.segment.*;
import me.ahoo.cosid.snowflake.*;
import org.apache.ibatis.builder.xml.XMLMapperBuilder;
import org.apache.ibatis.io.Resources;
import org.apache.ibatis.mapping.Environment;
import org.apache.ibatis.session.Configuration;
import org.apache.ibatis.session.SqlSessionFactoryBuilder;
import org.apache.ibatis.transaction.jdbc.JdbcTransactionFactory;
import org.apache.shardingsphere.infra.algorithm.keygen.core.KeyGenerateAlgorithm;
import org.apache.shardingsphere.infra.spi.type.typed.TypedSPILoader;
import org.mariadb.jdbc.MariaDbDataSource;
import shardid.*;

/** Issues IDs by generators in Java, in the process: as scripts/compare/peers does in Go, by the same commands. */
public class Peers {
    private interface Generator {
        long next() throws Exception;
    }

    /** A generator as the page of its makers shows it, with their defaults. */
    private static Generator make(String kind, short number) throws Exception {
        switch (kind) {
            case "lease-java":
                return shardid().snowflakes("demo")::next;
            case "client-java":
                return shardid().segment("orders")::next;
            case "mybatis-plus":
                return () -> DefaultIdentifierGenerator.getInstance().nextId(null);
            case "hutool":
                return IdUtil::getSnowflakeNextId;
            case "yitter":
                YitIdHelper.setIdGenerator(new IdGeneratorOptions(number));
                return YitIdHelper::nextId;
            case "shardingsphere":
                KeyGenerateAlgorithm ids =
                    TypedSPILoader.getService(KeyGenerateAlgorithm.class, "SNOWFLAKE", new Properties());
                return () -> (Long) ids.generateKeys(null, 1).iterator().next();
            case "cosid-snowflake":
                return cosIdSnowflake(number);
            case "cosid-memory":
                return new SegmentChainId(new IdSegmentDistributor.Atomic(100_000))::generate;
            case "uidgenerator":
                return uidGenerator()::getUID;
            default:
                throw new IllegalArgumentException("no kind " + kind);
        }
    }

    private static Shardid shardid() {
        return Shardid.connect(System.getenv("COMPARE_SHARDID"), null, 5000);
    }

    /** With the distributor that its configuration has by default: the machine ID is set by hand. */
    private static Generator cosIdSnowflake(int number) {
        MachineIdDistributor distributor = new ManualMachineIdDistributor(number, MachineStateStorage.IN_MEMORY,
            ClockBackwardsSynchronizer.DEFAULT);
        int machine = distributor.distribute("compare", MillisecondSnowflakeId.DEFAULT_MACHINE_BIT,
            InstanceId.of("compare", false), Duration.ofMinutes(5)).getMachineId();
        return new ClockSyncSnowflakeId(new MillisecondSnowflakeId(machine))::generate;
    }

    /** Configured as in the example of its page, as the default of 28 bits of time ended in 2024. */
    private static CachedUidGenerator uidGenerator() throws Exception {
        Configuration mybatis = new Configuration(new Environment("compare", new JdbcTransactionFactory(),
            new MariaDbDataSource(System.getenv("COMPARE_JDBC"))));
        String mapper = "META-INF/mybatis/mapper/WORKER_NODE.xml";
        new XMLMapperBuilder(Resources.getResourceAsStream(mapper), mybatis, mapper, mybatis.getSqlFragments()).parse();
        DisposableWorkerIdAssigner assigner = new DisposableWorkerIdAssigner();
        Field field = DisposableWorkerIdAssigner.class.getDeclaredField("workerNodeDAO");
        field.setAccessible(true);
        field.set(assigner, // as Spring does
            new SqlSessionFactoryBuilder().build(mybatis).openSession(true).getMapper(WorkerNodeDAO.class));
        CachedUidGenerator ids = new CachedUidGenerator();
        ids.setWorkerIdAssigner(assigner);
        ids.setTimeBits(29);
        ids.setWorkerBits(21);
        ids.setSeqBits(13);
        ids.setEpochStr("2016-09-20");
        ids.afterPropertiesSet();
        return ids;
    }

    private final String kind;
    private final short number;
    private Generator generator;

    private Peers(String kind, short number) {
        this.kind = kind;
        this.number = number;
    }

    private long next() throws Exception {
        if (generator == null) {
            generator = make(kind, number);
        }
        return generator.next();
    }

    private void take(int n) {
        Throwable why = null;
        long begun = System.nanoTime();
        for (int i = 1; i <= n; i++) {
            try {
                say(kind + " " + next());
            } catch (Throwable e) {
                why = e;
                if (System.nanoTime() > begun + n * 1_000_000L + 1_000_000_000L) {
                    break;
                }
            }
            for (long due = begun + i * 1_000_000L; System.nanoTime() < due; ) {
                LockSupport.parkNanos(due - System.nanoTime());
            }
        }
        if (why != null) {
            say(kind + " ! " + why.toString().replace('\n', ' '));
        }
    }

    private void speed() {
        try {
            nanoseconds(1); // while it is compiled
            say(String.format(Locale.ROOT, "%s %.1f", kind, nanoseconds(2)));
        } catch (Throwable e) {
            say(kind + " ! " + e);
        }
    }

    private double nanoseconds(int seconds) throws Exception {
        long n = 0, took = 0;
        for (long begun = System.nanoTime(); took < seconds * 1_000_000_000L; took = System.nanoTime() - begun) {
            for (int i = 0; i < 1000; i++, n++) {
                next();
            }
        }
        return (double) took / n;
    }

    private static final PrintStream OUT = System.out;

    private static void say(String line) {
        synchronized (OUT) {
            OUT.println(line);
            OUT.flush();
        }
    }

    public static void main(String[] args) throws Exception {
        System.setOut(System.err); // for what libraries print
        List<Peers> peers = new ArrayList<>();
        for (int i = 1; i < args.length; i++) {
            peers.add(new Peers(args[i], Short.parseShort(args[0])));
        }
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            if (line.equals("speed")) {
                peers.forEach(Peers::speed);
            } else {
                int n = Integer.parseInt(line.substring("take ".length()));
                List<Thread> threads = new ArrayList<>();
                peers.forEach(peer -> threads.add(new Thread(() -> peer.take(n))));
                threads.forEach(Thread::start);
                for (Thread thread : threads) {
                    thread.join();
                }
            }
            say("done");
        }
        System.exit(0);
    }
}
