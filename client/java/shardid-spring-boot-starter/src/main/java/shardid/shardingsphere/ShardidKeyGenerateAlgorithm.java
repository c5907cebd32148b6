package shardid.shardingsphere;

import java.util.*;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;
import org.apache.shardingsphere.infra.algorithm.core.context.AlgorithmSQLContext;
import org.apache.shardingsphere.infra.algorithm.keygen.core.KeyGenerateAlgorithm;
import shardid.Shardid;
import shardid.spring.ShardidIds;

/**
 * ShardingSphere's key generator of type SHARDID. Its property source names a source of {@link ShardidIds}, without a
 * shard key, as ShardingSphere does not show the row. The client is that of the Spring context, or one of its own where
 * the property urls, and token where one is required, are set.
 */
public final class ShardidKeyGenerateAlgorithm implements KeyGenerateAlgorithm {
    /** By addresses and token, as ShardingSphere initialises anew with each change of a rule. */
    private static final Map<String, ShardidIds> OWN = new ConcurrentHashMap<>();

    private String source;
    private ShardidIds own; // null: the context's

    @Override
    public void init(Properties set) {
        source = set.getProperty("source");
        String urls = set.getProperty("urls");
        String token = set.getProperty("token");
        own = urls == null ? null
                : OWN.computeIfAbsent(urls + " " + token, key -> new ShardidIds(Shardid.connect(urls, token), null, null));
    }

    @Override
    public Collection<Long> generateKeys(AlgorithmSQLContext context, int count) {
        ShardidIds ids = own == null ? ShardidIds.current() : own;
        return Stream.generate(() -> ids.next(source, null)).limit(count).toList();
    }

    @Override
    public String getType() {
        return "SHARDID";
    }
}
