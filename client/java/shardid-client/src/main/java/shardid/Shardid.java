package shardid;

import java.io.UnsupportedEncodingException;
import java.net.URLEncoder;
import java.util.*;
import java.util.concurrent.*;

/**
 * A client of shardid. Make one, share it, and close it. Its methods, and those of what it gives, may be called by many
 * threads at once; their errors are {@link ShardidException}.
 *
 * <pre>
 * try (Shardid client = Shardid.connect("http://10.0.0.1:8080,http://10.0.0.2:8080", null)) {
 *     long order = client.segment("orders").next();
 * }
 * </pre>
 *
 * Its threads are daemons, one for each source that is fetched. A process that is copied with its memory, by a snapshot
 * of its virtual machine or a checkpoint, would use what it holds twice: close before, and connect after.
 */
public final class Shardid implements AutoCloseable {
    /** How long a call that has no ID at hand waits for one, in milliseconds. */
    public static final int DEFAULT_TIMEOUT_MS = 3000;

    final Replicas replicas;
    final int timeoutMs;
    final ThreadPoolExecutor pool; // it fetches IDs
    private final Map<String, Source> segments = new HashMap<>(); // these maps are guarded by this
    private final Map<Integer, QueueSource> queues = new HashMap<>();
    private final Map<String, Snowflakes> snowflakes = new HashMap<>();
    private final List<Listener> listeners = new CopyOnWriteArrayList<>();
    private volatile boolean closed;

    /** Is told of each fetch, by the thread that fetched; so it must return at once. What it throws is ignored. */
    public interface Listener {
        /**
         * IDs were fetched, or a lease granted or renewed, or neither.
         *
         * @param source such as {@code segment:orders}, {@code snowflake:demo} or {@code queue:1}
         * @param nanos how long that took, with the replicas that were asked in vain
         * @param error null when it succeeded
         */
        void fetched(String source, long nanos, ShardidException error);
    }

    private Shardid(Replicas replicas, int timeoutMs) {
        this.replicas = replicas;
        this.timeoutMs = timeoutMs;
        // A source has one fetch at a time, so there is a thread for each at most: none waits for those that are dry.
        pool = new ThreadPoolExecutor(0, Integer.MAX_VALUE, 10, TimeUnit.SECONDS, new SynchronousQueue<>(),
                run -> daemon("shardid-fetch", run));
    }

    /** A client with the default timeout. */
    public static Shardid connect(String urls, String token) {
        return connect(urls, token, DEFAULT_TIMEOUT_MS);
    }

    /**
     * Checks the addresses, and asks no replica.
     *
     * @param urls the replicas, with commas between: {@code http://host:port} or {@code https://host:port}; requests
     *     are spread over them, and one that does not answer, or has no IDs, is asked last for a while
     * @param token is sent with each request; null where none is required
     * @param timeoutMs how long a call that has no ID at hand waits for one; 1 or more
     */
    public static Shardid connect(String urls, String token, int timeoutMs) {
        return new Shardid(new Replicas(urls, token, timeoutMs), timeoutMs);
    }

    /** Where the IDs of a tag come from, always the same one; those of a tag with shard bits are asked for with a key. */
    public synchronized Source segment(String tag) {
        return segments.computeIfAbsent(tag, t -> Source.ofTag(this, t));
    }

    /** Where the IDs of an app come from, 0…255; always the same one. */
    public synchronized QueueSource queue(int app) {
        return queues.computeIfAbsent(app, a -> new QueueSource(this, a));
    }

    /** {@link #snowflakes(String, String)} for the instance that the environment names as HOSTNAME. */
    public Snowflakes snowflakes(String name) {
        return snowflakes(name, System.getenv().getOrDefault("HOSTNAME", ""));
    }

    /**
     * A generator of snowflakes in this process, with a worker ID of a name that nobody else has; until it is closed,
     * always the same one of a name. It begins to ask for a worker ID, and does not wait for one.
     *
     * @param instance what this process calls itself, at most 128 printable bytes, "" for nothing: one that comes
     *     back gets its worker ID back where it can
     */
    public synchronized Snowflakes snowflakes(String name, String instance) {
        checkOpen();
        snowflakes.values().removeIf(Snowflakes::isClosed);
        return snowflakes.computeIfAbsent(name, n -> new Snowflakes(this, n, instance, System::currentTimeMillis));
    }

    /** Tells a listener of what is fetched from now on. */
    public void listen(Listener listener) {
        listeners.add(listener);
    }

    /** Asks each replica once, until one can issue IDs; throws what was heard when none can. */
    public void ping() {
        checkOpen();
        replicas.ask("GET", "/readyz", "", after(timeoutMs), answer -> answer.text("status"));
    }

    /** How many IDs are held, by their source, such as {@code segment:orders}; for a queue those of all shards. */
    public synchronized Map<String, Long> held() {
        Map<String, Long> held = new TreeMap<>();
        segments.forEach((tag, source) -> held.put("segment:" + tag, source.held()));
        queues.forEach((app, queue) -> held.put("queue:" + app, queue.held()));
        return held;
    }

    /** How many milliseconds the leases have left, by their names; 0 or less while an open generator has none. */
    public synchronized Map<String, Long> leases() {
        Map<String, Long> left = new TreeMap<>();
        snowflakes.values().removeIf(Snowflakes::isClosed);
        snowflakes.forEach((name, generator) -> left.put(name, generator.leaseLeft()));
        return left;
    }

    /**
     * Throws away what is held, gives worker IDs back, and lets nothing be issued any more. Where no replica answers it
     * takes the timeout twice at most, and its threads end within the timeout after that.
     */
    @Override
    public void close() {
        List<Snowflakes> leased;
        synchronized (this) {
            closed = true;
            leased = new ArrayList<>(snowflakes.values());
        }
        leased.forEach(Snowflakes::end); // all at once
        leased.forEach(Snowflakes::close);
        pool.shutdownNow();
    }

    /** Tells the listeners how a fetch ended that began at an instant of System.nanoTime. */
    void told(String source, long began, ShardidException error) {
        long nanos = System.nanoTime() - began;
        for (Listener listener : listeners) {
            try {
                listener.fetched(source, nanos, error);
            } catch (RuntimeException | Error e) {
                // the thread that is here renews leases, too
            }
        }
    }

    void checkOpen() {
        if (closed) {
            throw new ShardidException("the client is closed");
        }
    }

    static Thread daemon(String name, Runnable run) {
        Thread thread = new Thread(run, name);
        thread.setDaemon(true);
        thread.setContextClassLoader(Shardid.class.getClassLoader()); // not that of who asks first
        return thread;
    }

    /** Waits for a change of what the lock guards, which the caller holds, or so many milliseconds, 1 at least. */
    static void await(Object lock, long ms) {
        try {
            lock.wait(Math.max(1, ms));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new ShardidException("the thread was interrupted");
        }
    }

    /** The instant of System.nanoTime in so many milliseconds. */
    static long after(long ms) {
        return System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(ms);
    }

    /** How many milliseconds are left until an instant; 0 or less when it has passed. */
    static long left(long end) {
        return TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime());
    }

    static String encoded(String text) {
        try {
            return URLEncoder.encode(text, "UTF-8").replace("+", "%20");
        } catch (UnsupportedEncodingException e) {
            throw new IllegalStateException(e); // every Java has UTF-8
        }
    }
}
