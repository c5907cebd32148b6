package shardid;

import java.util.*;
import java.util.concurrent.RejectedExecutionException;

/**
 * IDs that are fetched ahead of demand. It holds what about two seconds take, and fetches more in the background when
 * half of it is used. What it holds when the client or the process ends is never used. So IDs are unique, and neither
 * dense nor in the order of time between processes. Safe for many threads.
 */
public final class Source {
    private static final int FIRST_TARGET = 16;
    private static final int MOST_HELD = 100_000;
    private static final int MOST_OF_A_REQUEST = 10_000;
    private static final int RETRY_MS = 1000; // between fetches that fail, while there are IDs at hand
    private static final int LIMIT = -5; // the code of a request for more than a limit leaves
    private static final String SHARDED = "sharded=true&"; // asks for numbers that a key is to join
    static final int GRACE_MS = 500; // for a fetch to end, which has the timeout too, and says why nothing came

    private final Shardid client;
    private final String name; // as listeners are told
    private final String path;
    private final String form;
    private final Source numbers; // of a tag, which a key joins when it has shard bits; null for others
    private volatile int shardBits; // of such numbers, 0 before the first answer

    // What follows is guarded by this.
    private long next; // the IDs at hand: next, next + stride, …, left of them
    private long stride;
    private long left;
    private final Queue<long[]> ahead = new ArrayDeque<>(); // the ranges that follow: first, stride, count
    private long held; // the IDs of both
    private boolean fetching;
    private int fetches; // so many began
    private long began; // when the last one did
    private ShardidException error; // of the last one
    private int target = FIRST_TARGET; // how many IDs it was for

    Source(Shardid client, String name, String path, String form) {
        this(client, name, path, form, null);
    }

    private Source(Shardid client, String name, String path, String form, Source numbers) {
        this.client = client;
        this.name = name;
        this.path = path;
        this.form = form;
        this.numbers = numbers;
    }

    static Source ofTag(Shardid client, String tag) {
        String name = "segment:" + tag;
        String path = "/v1/segment/" + Shardid.encoded(tag) + "/ids";
        return new Source(client, name, path, "", new Source(client, name, path, SHARDED));
    }

    /**
     * One ID of a tag with shard bits, whose remainder is that of a key, 0 or more: {@code id % n == key % n} for each n
     * that is a power of two up to 2^bits. All keys share one buffer.
     */
    public long next(long key) {
        if (key < 0) {
            throw new ShardidException("send a shard key of 0 or more, not " + key);
        }
        return join(key);
    }

    /** As {@link #next(long)}, for a text such as the name of a tenant; see {@link ShardKey#of}. */
    public long next(String key) {
        return join(ShardKey.of(key));
    }

    private long join(long key) {
        if (numbers == null) {
            throw new ShardidException("ask Shardid.segment for the IDs of a key: others have no shard bits");
        }
        long number = numbers.next();
        return number | key & (1L << numbers.shardBits) - 1;
    }

    /** One ID. Where none is at hand it waits for the client's timeout, and half a second more. */
    public synchronized long next() {
        client.checkOpen();
        if (left == 0) {
            advance();
        }
        if (--held < target / 2 && (error == null || Shardid.left(began) < -RETRY_MS)) {
            fetch();
        }
        left--;
        next += stride;
        return next - stride;
    }

    /** Puts the next range in the place of one that is used up, and fetches it when there is none. */
    private void advance() {
        long end = Shardid.after(client.timeoutMs + GRACE_MS);
        int before = fetching ? fetches - 1 : fetches;
        while (left == 0 && ahead.isEmpty()) {
            if (!fetching && error != null && fetches != before || Shardid.left(end) <= 0) {
                throw new ShardidException("", error);
            }
            fetch();
            Shardid.await(this, Shardid.left(end));
            client.checkOpen();
        }
        if (left == 0) { // else another caller was here
            long[] range = ahead.remove();
            next = range[0];
            stride = range[1];
            left = range[2];
        }
    }

    /** Begins a fetch, unless one is under way. */
    private void fetch() {
        if (fetching) {
            return;
        }
        long lasted = -Shardid.left(began);
        if (fetches > 0 && error == null && (lasted < 1000 || held == 0 && lasted <= 4000)) {
            target = Math.min(2 * target, MOST_HELD);
        } else if (lasted > 4000) {
            target = Math.max(target / 2, FIRST_TARGET);
        }
        int count = target;
        long end = Shardid.after(client.timeoutMs);
        try {
            client.pool.execute(() -> run(count, end));
        } catch (RejectedExecutionException e) {
            return; // the client is closed
        }
        began = System.nanoTime();
        fetches++;
        fetching = true;
    }

    /** The IDs at hand, those of a key as well. */
    long held() {
        long keyed = numbers == null ? 0 : numbers.held();
        synchronized (this) {
            return held + keyed;
        }
    }

    private void run(int count, long end) {
        long begun = System.nanoTime();
        ShardidException failed = null;
        try {
            int most = MOST_OF_A_REQUEST;
            for (int done = 0; done < count;) {
                int n = Math.min(count - done, most);
                try {
                    String asked = form + "ranges=true&count=" + n;
                    add(client.replicas.ask("POST", path, asked, end, answer -> ranges(answer, n)), n);
                    done += n;
                } catch (ShardidException e) {
                    if (e.code() != LIMIT || n == 1) {
                        throw e;
                    }
                    most = n / 2; // they come together or not at all, so fewer may be left
                }
            }
        } catch (ShardidException e) {
            failed = e;
        } catch (RuntimeException | Error e) {
            failed = new ShardidException(0, 0, "while IDs were fetched: " + e, e);
        }
        synchronized (this) {
            fetching = false;
            error = failed;
            target = failed != null && failed.code() == LIMIT ? 1 : target; // one is enough to hear of a new limit
            notifyAll();
        }
        client.told(name, begun, failed);
    }

    private List<long[]> ranges(Json answer, int count) {
        if (form.equals(SHARDED)) {
            int bits = (int) answer.number("shardBits", false, shardBits == 0 ? 1 : shardBits, shardBits == 0 ? 16 : shardBits);
            shardBits = bits;
        }
        List<long[]> ranges = new ArrayList<>();
        for (long missing = count; missing > 0; missing -= ranges.get(ranges.size() - 1)[2]) {
            String path = "ranges." + ranges.size();
            long n = answer.number(path + ".count", false, 1, missing);
            long stride = answer.number(path + ".stride", true, 1, Long.MAX_VALUE / n);
            ranges.add(new long[] {answer.number(path + ".first", true, 1, Long.MAX_VALUE - (n - 1) * stride), stride, n});
        }
        return ranges;
    }

    private synchronized void add(List<long[]> ranges, int count) {
        ahead.addAll(ranges);
        held += count;
        notifyAll();
    }
}
