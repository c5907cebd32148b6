package shardid.micrometer;

import io.micrometer.core.instrument.*;
import io.micrometer.core.instrument.binder.MeterBinder;
import java.util.Set;
import java.util.concurrent.*;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.*;
import org.springframework.context.annotation.Bean;
import shardid.Shardid;
import shardid.spring.ShardidAutoConfiguration;

/** Meters of the client, each with the tag source, such as segment:orders. */
@AutoConfiguration(after = ShardidAutoConfiguration.class)
@ConditionalOnClass(MeterBinder.class)
@ConditionalOnBean(Shardid.class)
public class MicrometerAutoConfiguration {
    private static final String LEASED = "snowflake:"; // begins a source whose worker ID is leased

    @Bean
    MeterBinder shardidMeters(Shardid client) {
        return registry -> {
            Set<String> gauged = ConcurrentHashMap.newKeySet();
            client.leases().keySet().forEach(name -> gauge(registry, client, gauged, LEASED + name));
            client.listen((source, nanos, error) -> {
                gauge(registry, client, gauged, source);
                String code = error == null ? "ok" : String.valueOf(error.code()); // 0 when no replica answered
                registry.timer("shardid.fetch", "source", source, "code", code).record(nanos, TimeUnit.NANOSECONDS);
            });
        };
    }

    private static void gauge(MeterRegistry registry, Shardid client, Set<String> gauged, String source) {
        if (!gauged.add(source)) {
            return;
        }
        if (source.startsWith(LEASED)) {
            String name = source.substring(LEASED.length());
            Gauge.builder("shardid.lease.left", client, c -> c.leases().getOrDefault(name, 0L) / 1000.0)
                    .description("What a lease has left").baseUnit("seconds").tag("source", source).register(registry);
        } else {
            Gauge.builder("shardid.held", client, c -> c.held().getOrDefault(source, 0L))
                    .description("IDs that are held ahead of demand").tag("source", source).register(registry);
        }
    }
}
