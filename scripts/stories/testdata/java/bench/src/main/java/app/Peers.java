package app;

import com.github.yitter.idgen.YitIdHelper;
import com.sun.net.httpserver.*;
import com.xfvape.uid.impl.CachedUidGenerator;
import com.xfvape.uid.worker.DisposableWorkerIdAssigner;
import com.xfvape.uid.worker.dao.WorkerNodeDAO;
import java.io.IOException;
import java.lang.reflect.Field;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.Executors;
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
import shardid.*;

/** Issues IDs by generators in Java, in the process: as scripts/compare/peers does in Go, with the same arguments. */
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
                var mybatisPlus = com.baomidou.mybatisplus.core.incrementer.DefaultIdentifierGenerator.getInstance();
                return () -> mybatisPlus.nextId(null);
            case "hutool":
                return cn.hutool.core.util.IdUtil::getSnowflakeNextId;
            case "yitter":
                YitIdHelper.setIdGenerator(new com.github.yitter.contract.IdGeneratorOptions(number));
                return YitIdHelper::nextId;
            case "shardingsphere":
                var shardingSphere =
                    TypedSPILoader.getService(KeyGenerateAlgorithm.class, "SNOWFLAKE", new Properties());
                return () -> (Long) shardingSphere.generateKeys(null, 1).iterator().next();
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
        return Shardid.connect(System.getenv("SHARDID_URLS"), null, 5000);
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
            new org.mariadb.jdbc.MariaDbDataSource(System.getenv("SHARDID_JDBC"))));
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

    private synchronized void answer(HttpExchange exchange) throws IOException {
        List<String> ids = new ArrayList<>();
        String message = "";
        try {
            issue(Integer.parseInt(exchange.getRequestURI().getQuery().substring("count=".length())), ids);
        } catch (Throwable e) {
            message = e.toString().replaceAll("[^\\w .:]", " "); // without what JSON would have to escape
        }
        String list = ids.isEmpty() ? "" : '"' + String.join("\",\"", ids) + '"';
        byte[] body = ("{\"ids\":[" + list + "],\"message\":\"" + message + "\"}").getBytes();
        exchange.sendResponseHeaders(200, body.length);
        exchange.getResponseBody().write(body);
        exchange.close();
    }

    private void issue(int count, List<String> ids) throws Exception {
        if (generator == null) {
            generator = make(kind, number);
        }
        if (count == 0) {
            nanoseconds(1); // while it is compiled
            ids.add(String.format(Locale.ROOT, "%.1f", nanoseconds(2)));
        }
        long begun = System.nanoTime();
        for (int i = 1; i <= count; i++) {
            ids.add(Long.toString(generator.next()));
            LockSupport.parkNanos(begun + i * 1_000_000L - System.nanoTime());
        }
    }

    private double nanoseconds(int seconds) throws Exception {
        long n = 0, took = 0;
        for (long begun = System.nanoTime(); took < seconds * 1_000_000_000L; took = System.nanoTime() - begun) {
            for (int i = 0; i < 1000; i++, n++) {
                generator.next();
            }
        }
        return (double) took / n;
    }

    public static void main(String[] args) throws Exception {
        System.setProperty("sun.net.httpserver.nodelay", "true"); // or an answer may wait for 40 ms
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(args[0])), 0);
        for (String kind : Arrays.asList(args).subList(2, args.length)) {
            server.createContext("/" + kind, new Peers(kind, Short.parseShort(args[1]))::answer);
        }
        server.setExecutor(Executors.newCachedThreadPool());
        server.start();
    }
}
