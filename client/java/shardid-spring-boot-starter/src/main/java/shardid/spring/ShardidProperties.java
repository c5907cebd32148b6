package shardid.spring;

import java.time.Duration;
import java.util.List;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.*;
import org.springframework.util.StringUtils;

/**
 * What the application's configuration says of shardid.
 *
 * @param urls the replicas, such as http://ids-1:8080,http://ids-2:8080. Without them the starter does nothing
 * @param token the token that the replicas require, if they do
 * @param timeout how long a call that has no ID at hand waits for one, and the start for a worker ID
 * @param source the source of IDs that name none, such as segment:orders; by default snowflakes of the name in
 *     shardid.snowflake.name
 * @param snowflake IDs that are made in this process
 * @param instance what this process calls itself when it asks for a worker ID, so that it gets its last one back; the
 *     environment's HOSTNAME without it
 */
@ConfigurationProperties("shardid")
public record ShardidProperties(
        List<String> urls,
        String token,
        @DefaultValue("3s") Duration timeout,
        @Name("default") String source,
        @DefaultValue Snowflake snowflake,
        String instance) {

    /**
     * IDs that are made in this process.
     *
     * @param name the name of leases whose worker ID is taken before the application serves; a start without one fails
     */
    public record Snowflake(String name) {
        public Snowflake {
            name = set(name);
        }
    }

    public ShardidProperties {
        token = set(token);
        source = set(source);
        instance = set(instance);
    }

    /** Null for a blank text, such as that of ${SHARDID_TOKEN:}: it is not set. */
    private static String set(String text) {
        return StringUtils.hasText(text) ? text : null;
    }
}
