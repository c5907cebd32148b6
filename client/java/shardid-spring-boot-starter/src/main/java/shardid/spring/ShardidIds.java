package shardid.spring;

import java.math.BigInteger;
import java.util.*;
import java.util.concurrent.*;
import org.springframework.beans.*;
import shardid.*;

/**
 * IDs by the text that names their source, for frameworks that take IDs from one place. Safe for many threads; errors
 * are {@link ShardidException} and, for what the application got wrong, IllegalArgumentException.
 *
 * <pre>
 * segment:orders       the tag orders; with a shard key, when the tag has shard bits
 * snowflake:demo       the name demo, whose worker ID this process leases; with a shard key, when it has shard bits
 * queue:1              the app 1; the shard key is the gatePass
 * queue:1:shard        the app 1; the shard is the shard key's remainder by 64
 * </pre>
 */
public final class ShardidIds implements AutoCloseable {
    private static final Deque<ShardidIds> OPEN = new ConcurrentLinkedDeque<>(); // for what no context makes

    private final Shardid client;
    private final String defaultSource; // null: there is none
    private final String instance; // null: as the environment says
    private final Map<String, Keyed> sources = new ConcurrentHashMap<>();

    private interface Keyed {
        long next(Object key);
    }

    /** Sources of a client, which it does not close. The last two may be null: see {@link ShardidProperties}. */
    public ShardidIds(Shardid client, String defaultSource, String instance) {
        this.client = client;
        this.defaultSource = defaultSource;
        this.instance = instance;
    }

    /** Has {@link #current} give this one, until it is closed. */
    ShardidIds asCurrent() {
        OPEN.addFirst(this);
        return this;
    }

    /** The one of the context that started last. */
    public static ShardidIds current() {
        ShardidIds ids = OPEN.peekFirst();
        if (ids == null) {
            throw new IllegalStateException("set shardid.urls, such as http://ids-1:8080: no context has a client");
        }
        return ids;
    }

    @Override
    public void close() {
        OPEN.remove(this);
    }

    /** One ID of a source, the default one for "" and null; the key is null where there is none. */
    public long next(String source, Object shardKey) {
        String from = source == null || source.isEmpty() ? defaultSource : source;
        if (from == null) {
            throw new IllegalArgumentException(
                    "set shardid.default, or the property source of ShardingSphere's key generator, to a source such as "
                            + "segment:orders, or name one by @ShardidId at the ID");
        }
        return sources.computeIfAbsent(from, this::keyed).next(shardKey);
    }

    /** One ID for an entity, whose field or property at the path is the shard key; an empty path is for none. */
    public long next(String source, Object entity, String path) {
        if (path.isEmpty()) {
            return next(source, null);
        }
        PropertyAccessor by = PropertyAccessorFactory.forBeanPropertyAccess(entity); // it loads what is loaded late
        if (!by.isReadableProperty(path)) {
            by = PropertyAccessorFactory.forDirectFieldAccess(entity);
        }
        Object key = null;
        try {
            key = by.getPropertyValue(path);
        } catch (NullValueInNestedPathException e) {
            // as if the key itself were missing
        }
        if (key == null) {
            throw new IllegalArgumentException("set " + path + " of the " + entity.getClass().getSimpleName()
                    + " before it is stored: it is the shard key of its ID, and a MetaObjectHandler fills it too late");
        }
        return next(source, key);
    }

    private Keyed keyed(String source) {
        String[] words = source.split(":", 2);
        String of = words.length > 1 ? words[1] : "";
        if (words[0].equals("segment") && !of.isEmpty()) {
            Source tag = client.segment(of);
            return key -> key == null ? tag.next() : tag.next(text(key));
        }
        if (words[0].equals("snowflake") && !of.isEmpty()) {
            Snowflakes name = instance == null ? client.snowflakes(of) : client.snowflakes(of, instance);
            return key -> key == null ? name.next() : name.nextFor(ShardKey.of(text(key)));
        }
        if (words[0].equals("queue") && of.matches("[0-9]{1,3}(:shard)?")) {
            QueueSource app = client.queue(Integer.parseInt(of.replace(":shard", "")));
            if (of.endsWith(":shard")) {
                return key -> app.shard((int) (ShardKey.of(text(key)) & 63)).next();
            }
            return key -> app.next(text(key));
        }
        throw new IllegalArgumentException("write segment:<tag>, snowflake:<name>, queue:<appId> or queue:<appId>:shard"
                + " in place of the source \"" + source + "\"");
    }

    /** The text of a shard key, which every client writes in the same way. */
    private static String text(Object key) {
        if (key == null || key instanceof CharSequence || key instanceof Long || key instanceof Integer || key instanceof Short
                || key instanceof Byte || key instanceof BigInteger || key instanceof UUID) {
            return Objects.toString(key, null);
        }
        throw new IllegalArgumentException("name a field with a whole number or a text as the shard key: "
                + key.getClass().getName() + " is neither");
    }

    /** What is left of each lease in milliseconds, by its name. It throws when no replica answers, or a lease ended. */
    public Map<String, Long> check() {
        client.ping();
        Map<String, Long> leases = client.leases();
        leases.forEach((name, left) -> {
            if (left <= 0) {
                throw new IllegalStateException("the lease of the name " + name + " has ended, or none was granted yet: it waits for a replica");
            }
        });
        return leases;
    }
}
