package shardid;

import java.time.Instant;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.LongSupplier;

/**
 * A generator of snowflakes in this process. Its worker ID is leased: shardid grants times, as they are in the IDs, and
 * no time of a worker ID twice. It issues IDs of these times only, so a process that was frozen, or a wrong clock,
 * repeats nothing. A thread renews the lease. Without shardid it goes on to the end of the lease, and after that when
 * shardid is back, with another worker ID if need be.
 *
 * <p>IDs of one generator rise while it keeps its worker ID, and none has a time ahead of the clock.
 */
public final class Snowflakes implements AutoCloseable {
    private static final int FIRST_PAUSE_MS = 1000; // after a failure, and the least between two renewals
    private static final int LAST_PAUSE_MS = 5000;
    private static final int RANDOM_START = 100; // so that IDs of a low rate are not all even
    private static final int MOST_BITS = 24; // of worker ID and sequence: the time has the others of 63
    private static final long ENDED = Long.MAX_VALUE - 1; // as a mark: after any time

    /** A worker ID for a run of times, which are in milliseconds since the epoch here. */
    private static final class Lease {
        final long worker;
        final String secret;
        final long epoch; // Unix ms
        final int workerBits;
        final int shardBits;
        final int seqBits; // without these
        volatile long renewMs;
        volatile long until;
        final AtomicLong mark; // the time of the last ID above its sequence: who moves it owns the ID that it moves to

        Lease(Json o, String name) {
            workerBits = (int) o.number("lease.workerBits", false, 1, MOST_BITS - 1);
            int low = (int) o.number("lease.seqBits", false, 1, MOST_BITS - workerBits);
            shardBits = o.has("lease.shardBits") ? (int) o.number("lease.shardBits", false, 1, Math.min(16, low - 1)) : 0;
            seqBits = low - shardBits;
            worker = o.number("lease.workerId", false, 0, (1L << workerBits) - 1);
            secret = o.text("lease.secret");
            epoch = o.number("lease.epoch", true, 0, Long.MAX_VALUE);
            renewMs = o.number("lease.renewMs", false, 1, 3_600_000);
            long most = (1L << (63 - workerBits - low)) - 1; // that fits
            long after = Math.max(o.number("lease.after", true, 0, Long.MAX_VALUE) - epoch, -1);
            until = Math.min(o.number("lease.until", true, 0, Long.MAX_VALUE) - epoch, most);
            mark = new AtomicLong((Math.min(after, most) + 1 << seqBits) - 1);
            if (!name.equals(o.text("lease.name"))) {
                throw new IllegalArgumentException("it is not a lease of " + name);
            }
        }
    }

    private final Shardid client;
    private final String name;
    private final String path;
    private final String instance;
    private final LongSupplier clock; // Unix ms
    private final Thread renewer;
    private volatile Lease lease; // null: there is none now

    private boolean closed; // this and what is below is guarded by this
    private boolean hurry; // somebody waits for the next renewal
    private ShardidException error; // of the last one

    Snowflakes(Shardid client, String name, String instance, LongSupplier clock) {
        this.client = client;
        this.name = name;
        this.path = "/v1/leases/" + Shardid.encoded(name);
        this.instance = instance;
        this.clock = clock;
        renewer = Shardid.daemon("shardid-lease", this::renewUntilClosed);
        renewer.start();
    }

    /**
     * One ID. It waits for the first lease, for a clock that was set back, and at the cap of IDs a millisecond; at most
     * for the client's timeout, and half a second more. {@link #nextFor} is for a name with shard bits.
     */
    public long next() {
        return issue(0, false);
    }

    /**
     * One ID of a name with shard bits, whose remainder is that of a key, as an unsigned number: {@code id % n == key % n}
     * for each n that is a power of two up to 2^bits. {@link ShardKey#of} is the key of a text.
     */
    public long nextFor(long key) {
        return issue(key, true);
    }

    private long issue(long key, boolean sharded) {
        for (long end = 0;;) {
            Lease l = lease;
            long now = 0;
            long time = 0;
            if (l != null) {
                if (sharded != l.shardBits > 0) {
                    throw new ShardidException("ask with " + (sharded ? "next: the name " + name + " has no shard bits"
                            : "nextFor: the last " + l.shardBits + " bits of the IDs of the name " + name + " are those of a shard key"));
                }
                long last = l.mark.get(); // before the clock: so it is no later than that
                long mark = last + 1;
                time = mark >> l.seqBits;
                now = clock.getAsLong() - l.epoch;
                if (time < now) {
                    time = now;
                    mark = now << l.seqBits | start(l.seqBits);
                }
                if (time <= now && time <= l.until) {
                    if (l.mark.compareAndSet(last, mark)) {
                        long number = time << l.workerBits + l.seqBits | l.worker << l.seqBits | mark & (1L << l.seqBits) - 1;
                        return number << l.shardBits | key & (1L << l.shardBits) - 1;
                    }
                    continue; // another thread took it
                }
            }
            end = end == 0 ? Shardid.after(client.timeoutMs + Source.GRACE_MS) : end;
            waitFor(l, time, now, Shardid.left(end));
        }
    }

    private static long start(int seqBits) {
        return ThreadLocalRandom.current().nextInt(Math.min(RANDOM_START, 1 << seqBits - 1));
    }

    /** The worker ID that IDs have now; -1 while there is none. The next lease may have another. */
    public long workerId() {
        Lease l = lease;
        return l == null ? -1 : l.worker;
    }

    /** Waits as {@link #next()} does for a worker ID that can issue, and gives it. */
    public long awaitWorkerId() {
        for (long end = Shardid.after(client.timeoutMs + Source.GRACE_MS);;) {
            Lease l = lease;
            long now = l == null ? 0 : clock.getAsLong() - l.epoch;
            long last = l == null ? 0 : l.mark.get() >> l.seqBits;
            if (l != null && last <= now && now <= l.until) {
                return l.worker;
            }
            waitFor(l, last, now, Shardid.left(end));
        }
    }

    /** How many milliseconds the lease has left; 0 or less while it can issue nothing. */
    long leaseLeft() {
        Lease l = lease;
        long now = l == null ? 0 : clock.getAsLong() - l.epoch;
        return l == null || l.mark.get() >> l.seqBits > now ? 0 : l.until - now;
    }

    /** Issues nothing more, and gives the worker ID back; as {@link Shardid#close()}. */
    @Override
    public void close() {
        end();
        try {
            renewer.join();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    synchronized void end() {
        closed = true;
        notifyAll();
    }

    synchronized boolean isClosed() {
        return closed;
    }

    /** Waits a little for what keeps a time from being issued under a lease, or says what does. */
    private void waitFor(Lease l, long time, long now, long left) {
        if (l != null && time == now + 1 && left > 0) { // the cap
            LockSupport.parkNanos(100_000);
            return;
        }
        synchronized (this) {
            if (closed) {
                throw new ShardidException("the generator is closed");
            }
            boolean early = l != null && time > now;
            if (lease != l) {
                return;
            }
            if (early && time - now > left) {
                throw new ShardidException("the clock says " + text(l, now) + ", and IDs up to " + text(l, time) + " were issued, or may have been");
            }
            if (!early && (error != null || left <= 0)) {
                String ended = l == null ? "" : "the lease of worker ID " + l.worker + " ended at " + text(l, l.until)
                        + ", and the clock says " + text(l, now);
                if (l != null && error == null) { // it is renewed, and has ended all the same
                    throw new ShardidException("set the clock of this machine: " + ended);
                }
                throw new ShardidException((l == null ? "no worker ID of the name " + name : ended) + ": ", error);
            }
            if (!early && !hurry) {
                hurry = true;
                notifyAll();
            }
            Shardid.await(this, early ? time - now : left);
        }
    }

    private static String text(Lease l, long time) {
        return Instant.ofEpochMilli(time + l.epoch).toString();
    }

    private void renewUntilClosed() {
        for (int pause = FIRST_PAUSE_MS; !isClosed();) {
            long begun = System.nanoTime();
            ShardidException failed = null;
            try {
                renew(lease);
            } catch (ShardidException e) {
                failed = e;
            } catch (RuntimeException | Error e) {
                failed = new ShardidException(0, 0, "while a lease was renewed: " + e, e);
            }
            boolean lost = failed != null && lease != null && (failed.code() == -14 || failed.code() == -2);
            lease = lost ? null : lease;
            synchronized (this) {
                error = lost ? null : failed;
                hurry = false;
                notifyAll();
            }
            client.told("snowflake:" + name, begun, failed);
            sleep(lost ? 0 : failed == null ? lease.renewMs : pause);
            pause = failed == null ? FIRST_PAUSE_MS : Math.min(2 * pause, LAST_PAUSE_MS);
        }
        release();
    }

    /** Renews a lease, or gets one. */
    private void renew(Lease l) {
        if (l == null) {
            lease = client.replicas.ask("POST", path, "instance=" + Shardid.encoded(instance), Shardid.after(client.timeoutMs), a -> new Lease(a, name));
            return;
        }
        long end = Shardid.after(Math.min(client.timeoutMs, l.renewMs)); // so that it can be repeated
        l.until = client.replicas.ask("POST", path + "/" + l.worker + "/renew", "secret=" + Shardid.encoded(l.secret), end, a -> {
            Lease renewed = new Lease(a, name);
            if (renewed.worker != l.worker || renewed.epoch != l.epoch || renewed.workerBits != l.workerBits || renewed.seqBits != l.seqBits
                    || renewed.shardBits != l.shardBits) {
                throw new IllegalArgumentException("it is another lease");
            }
            l.renewMs = renewed.renewMs;
            return Math.max(l.until, renewed.until);
        });
    }

    private void release() {
        Lease l = lease;
        lease = null;
        if (l == null) {
            return;
        }
        long last = Math.min(l.mark.getAndSet(ENDED) >> l.seqBits, l.until) + l.epoch; // no ID of the lease follows
        String form = "secret=" + Shardid.encoded(l.secret) + "&lastUsed=" + Math.max(1, last);
        try {
            client.replicas.ask("DELETE", path + "/" + l.worker, form, Shardid.after(client.timeoutMs), a -> a);
        } catch (ShardidException e) {
            // the lease ends by itself; or the first of two requests ended it
        }
    }

    private synchronized void sleep(long ms) {
        long begun = System.nanoTime();
        while (!closed) {
            long left = (hurry ? Math.min(ms, FIRST_PAUSE_MS) : ms) + Shardid.left(begun);
            if (left <= 0) {
                return;
            }
            Shardid.await(this, left);
        }
    }
}
