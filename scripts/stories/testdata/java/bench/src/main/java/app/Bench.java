package app;

import java.util.concurrent.TimeUnit;
import me.ahoo.cosid.segment.*;
import me.ahoo.cosid.snowflake.*;
import org.openjdk.jmh.annotations.*;
import shardid.*;

/** An ID in the process, beside CosId's, whose segments come from a counter in memory. */
@State(Scope.Benchmark)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
public class Bench {
    private final Shardid client = Shardid.connect(System.getProperty("shardid.url"), null);
    private final Source segment = client.segment("leaf-segment-test");
    private final Source keyed = client.segment("carts");
    private final Snowflakes snowflakes = client.snowflakes("demo");
    private final SegmentChainId theirSegment = new SegmentChainId(new IdSegmentDistributor.Atomic(100_000));
    private final SnowflakeId theirSnowflakes = new MillisecondSnowflakeId(1);

    @TearDown
    public void close() {
        client.close();
    }

    @Benchmark
    public long shardidSegment() {
        return segment.next();
    }

    @Benchmark
    public long shardidSegmentByKey() {
        return keyed.next(666);
    }

    @Benchmark
    public long shardidSnowflake() {
        return snowflakes.next();
    }

    @Benchmark
    public long cosIdSegmentChain() {
        return theirSegment.generate();
    }

    @Benchmark
    public long cosIdSnowflake() {
        return theirSnowflakes.generate();
    }
}
