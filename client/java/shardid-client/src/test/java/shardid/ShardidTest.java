package shardid;

import com.sun.net.httpserver.HttpServer;
import java.net.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import java.util.function.*;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;

/** Tests against fake replicas and, with the URL of a shardid as -Dshardid.url, against that. */
final class ShardidTest {
    /** A replica: answers a request, "METHOD path?form", by a status and a body, such as "200 {…}". */
    private static final class Fake implements AutoCloseable {
        final HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        final String url = "http://127.0.0.1:" + server.getAddress().getPort();
        final List<String> asked = new CopyOnWriteArrayList<>();
        volatile Function<String, String> answer;

        Fake(Function<String, String> answer) throws Exception {
            this.answer = answer;
            server.setExecutor(Executors.newCachedThreadPool());
            server.createContext("/", http -> {
                Scanner body = new Scanner(http.getRequestBody(), "UTF-8").useDelimiter("\\A");
                String form = body.hasNext() ? body.next() : "";
                String request = http.getRequestMethod() + " " + http.getRequestURI() + "?" + URLDecoder.decode(form, "UTF-8");
                asked.add(request);
                String[] said = this.answer.apply(request).split(" ", 2);
                byte[] answered = said[1].getBytes(StandardCharsets.UTF_8);
                http.getResponseHeaders().set("Retry-After", "0");
                http.sendResponseHeaders(Integer.parseInt(said[0]), answered.length);
                http.getResponseBody().write(answered);
                http.close();
            });
            server.start();
        }

        @Override
        public void close() {
            server.stop(0);
            ((ExecutorService) server.getExecutor()).shutdownNow();
        }
    }

    /** The rules of leases, of 8 worker IDs, for one holder at a time: the next one gets the next worker ID. */
    private static final class Leases implements Function<String, String> {
        volatile long hold = 60_000;
        volatile long after;
        volatile long until; // what was granted last
        volatile int worker = -1;
        volatile boolean lost = true;

        @Override
        public synchronized String apply(String request) {
            String renew = "POST /v1/leases/orders/" + worker + "/renew?secret=s" + worker;
            if (request.startsWith("POST /v1/leases/orders?instance=") && lost) {
                worker++;
                lost = false;
            } else if (lost || System.currentTimeMillis() > until || !request.startsWith(renew) && !request.startsWith("DELETE")) {
                lost = true;
                return "409 {\"code\":-14,\"message\":\"the lease is lost\"}";
            }
            until = Math.max(until, System.currentTimeMillis() + hold);
            return "200 {\"code\":0,\"lease\":{\"name\":\"orders\",\"workerId\":" + worker + ",\"secret\":\"s" + worker + "\",\"epoch\":\"" + EPOCH + "\","
                    + "\"workerBits\":3,\"seqBits\":5,\"after\":\"" + after + "\",\"until\":\"" + until + "\",\"now\":\"0\",\"renewMs\":100}}";
        }
    }

    /** Tags with ten shard bits, and keys that are read as Go's client reads them. */
    @Test
    void keys() throws Exception {
        AtomicLong last = new AtomicLong();
        try (Fake fake = new Fake(request -> {
            long count = Long.parseLong(request.replaceAll(".*count=", ""));
            return "200 {\"code\":0,\"ranges\":[{\"first\":\"" + ((last.getAndAdd(count) + 1) << 10) + "\",\"count\":" + count
                    + ",\"stride\":\"1024\"}]" + (request.contains("sharded=true") ? ",\"shardBits\":10}" : "}");
        }); Shardid client = Shardid.connect(fake.url, null, 3000)) {
            Source orders = client.segment("orders");
            Set<Long> numbers = new HashSet<>();
            for (long key = 0; key < 3000; key++) {
                long id = orders.next(key);
                long tenant = orders.next("tenant-7");
                check(id % 1024 == key % 1024 && tenant % 1024 == 202 && numbers.add(id >> 10) && numbers.add(tenant >> 10), id + " " + tenant);
            }
            String[] words = {"666", "18446744073709551615", "a", "用户", "6.5"};
            long[] keys = {666, -1, 0xe8b7be43L, 0x1deaa2ddL, 0x82138d3fL};
            for (int i = 0; i < words.length; i++) {
                check(ShardKey.of(words[i]) == keys[i], words[i]);
            }
            for (String bad : new String[] {null, "", " 7", "7 ", "-7", "+7", "007", "18446744073709551616"}) {
                refused(0, () -> orders.next(bad));
            }
            refused(0, () -> orders.next(-1));
            refused(0, () -> client.queue(1).shard(5).next(7));
            refused(0, () -> client.queue(1).shard(64));
        }
    }

    /** The last IDs of a limit, which is not told ahead, come before the refusal. */
    @Test
    void limit() throws Exception {
        AtomicLong left = new AtomicLong(21);
        try (Fake fake = new Fake(request -> {
            long count = Long.parseLong(request.replaceAll(".*count=", ""));
            return left.get() < count ? "409 {\"code\":-5,\"message\":\"raise the limit\"}"
                    : "200 {\"code\":0,\"ranges\":[{\"first\":\"" + (22 - left.getAndAdd(-count)) + "\",\"count\":"
                            + count + ",\"stride\":\"1\"}]}";
        }); Shardid client = Shardid.connect(fake.url, null)) {
            for (int id = 1; id <= 21; id++) {
                check(client.segment("a").next() == id, "it is not " + id);
            }
            refused(-5, client.segment("a")::next);
            int asked = fake.asked.size();
            refused(-5, client.segment("a")::next);
            check(fake.asked.size() == asked + 1, "it asks for more than one when none is left: " + fake.asked);
            left.set(1);
            check(client.segment("a").next() == 21, "a limit that is raised");
        }
    }

    /** What is told to listeners and of what is held; a replica that is not ready fails a ping. */
    @Test
    void meters() throws Exception {
        Leases leases = new Leases();
        Function<String, String> numbers = ranges(new AtomicLong(1));
        try (Fake fake = new Fake(r -> r.startsWith("GET /readyz") ? "200 {\"status\":\"ok\"}"
                : r.contains("/leases/") ? leases.apply(r) : r.contains("/none/")
                        ? "404 {\"code\":-2,\"message\":\"add it\"}" : numbers.apply(r));
                Shardid client = Shardid.connect(fake.url, null, 3000)) {
            List<String> told = new CopyOnWriteArrayList<>();
            ClassLoader callers = new URLClassLoader(new URL[0]);
            client.listen((source, nanos, error) -> told.add(source + (error == null ? " ok" : " " + error.code())
                    + (nanos > 0 ? "" : " 0 ns")
                    + (Thread.currentThread().getContextClassLoader() == callers ? " with the caller's classes" : "")));
            client.listen((source, nanos, error) -> {
                throw new IllegalStateException("a listener is wrong");
            });
            client.ping();
            Thread.currentThread().setContextClassLoader(callers);
            client.segment("orders").next();
            Thread.currentThread().setContextClassLoader(Shardid.class.getClassLoader());
            client.queue(1).next("alice");
            check(client.snowflakes("orders").awaitWorkerId() == 0, "a worker ID");
            refused(-2, client.segment("none")::next);
            eventually("four are told: " + told,
                    () -> told.containsAll(Arrays.asList("segment:orders ok", "queue:1 ok", "snowflake:orders ok",
                            "segment:none -2")));
            check(client.held().get("segment:orders") == 15 && client.held().get("queue:1") == 15 && client.held()
                    .get("segment:none") == 0, client.held());
            check(client.leases().get("orders") > 50_000, client.leases());
            eventually("it is renewed: " + told, () -> Collections.frequency(told, "snowflake:orders ok") > 1);
            client.snowflakes("orders").close();
            check(client.leases().isEmpty(), "a closed generator has no lease to lose");
            fake.answer = r -> "503 {\"status\":\"not ready\",\"message\":\"no store answers\"}";
            long begun = System.nanoTime();
            check(refused(0, () -> {
                client.ping();
                return null;
            }).getMessage().contains("no store answers"), "why it is not ready");
            check(-Shardid.left(begun) < 1000, "a ping that is answered waits");
        }
    }

    private static final long EPOCH = 1_700_000_000_000L;
    private static final String NOT_READY = "503 {\"code\":-1,\"message\":\"not yet\"}";

    private static void check(boolean good, Object what) {
        if (!good) {
            throw new AssertionError(what);
        }
    }

    private static ShardidException refused(int code, Supplier<?> call) {
        try {
            throw new AssertionError("it answered " + call.get());
        } catch (ShardidException e) {
            check(e.code() == code, e);
            return e;
        }
    }

    private static void eventually(String what, BooleanSupplier good) throws Exception {
        for (long end = Shardid.after(10_000); !good.getAsBoolean(); Thread.sleep(5)) {
            check(Shardid.left(end) > 0, what);
        }
    }

    /** Ranges as the queue mode has them, of the numbers from first on. */
    private static Function<String, String> ranges(AtomicLong first) {
        return request -> {
            long count = Long.parseLong(request.replaceAll(".*count=", ""));
            long half = count / 2;
            long begin = first.getAndAdd(count + half);
            return "200 {\"ranges\":[{\"stride\":\"2\",\"first\":\"" + begin + "\",\"count\":" + half + "},{\"first\":\"" + (begin + 2 * half)
                    + "\",\"count\":" + (count - half) + ",\"stride\":\"1\"}],\"code\":0,\"more\":[null,true,-1.5e3,{}]}";
        };
    }

    /** What 4 threads get together; none twice. */
    private static SortedSet<Long> together(int each, LongSupplier next) throws Exception {
        SortedSet<Long> all = new ConcurrentSkipListSet<>();
        ExecutorService threads = Executors.newFixedThreadPool(4);
        for (Future<?> f : threads.invokeAll(Collections.nCopies(4, () -> {
            for (int i = 0; i < each; i++) {
                long id = next.getAsLong();
                check(all.add(id), id + " came twice");
            }
            return null;
        }))) {
            f.get();
        }
        threads.shutdown();
        return all;
    }

    @Test
    void json() {
        check(new Json("{\"a\":[{\"b\":\"\\u00e9\\n\\\"\"}]}").text("a.0.b").equals("é\n\""), "a text");
        for (String bad : new String[] {"", "{", "{}x", "[1,]", "{\"a\":1,\"a\":2}", "{\"a\" 1}", "{a:1}", "\"\\x\"", "\"\\u12\"", "\"a\n\"", "01", "1.", "nul",
            "[1 2]", "\"", "\"\\", "{\"a\":}", String.join("", Collections.nCopies(99_999, "[")), String.join("", Collections.nCopies(99, "9"))}) {
            try {
                throw new AssertionError("read: " + new Json(bad));
            } catch (IllegalArgumentException e) {
                check(e.getMessage().contains("lacks"), e);
            }
        }
    }

    @Test
    void arguments() {
        for (String url : new String[] {null, "", "ftp://a", "http://", "http://user:pass@a", "http://a?b", "http://a,b"}) {
            check(!refused(0, () -> Shardid.connect(url, null)).getMessage().contains("pass@"), "it shows a password");
        }
        refused(0, () -> Shardid.connect("http://a", "a b"));
        refused(0, () -> Shardid.connect("http://a", null, 0));
        try (Shardid client = Shardid.connect("http://a b", null)) {
            refused(0, () -> client.queue(256));
            refused(0, () -> client.queue(1).next(""));
            refused(0, client.segment("a")::next);
        }
    }

    @Test
    void buffersAndFailover() throws Exception {
        AtomicLong first = new AtomicLong((1L << 53) + 1);
        try (Fake good = new Fake(ranges(first)); Fake busy = new Fake(r -> NOT_READY); Fake proxy = new Fake(r -> "502 <html>");
                Shardid client = Shardid.connect("http://127.0.0.1:1," + busy.url + "," + good.url + "/," + proxy.url, "secret")) {
            SortedSet<Long> ids = together(50_000, client.segment("a b/ü")::next);
            check(ids.first() == (1L << 53) + 1 && ids.last() < first.get(), ids.first() + "…" + ids.last());
            check(good.asked.size() < 100 && good.asked.get(0).equals("POST /v1/segment/a%20b%2F%C3%BC/ids?ranges=true&count=16"), good.asked);
            for (String gatePass : new String[] {"bob", "张三", "𝒳", "?", "o", "polygenelubricants"}) { // the last one's hash is -2^31
                client.queue(3).next(gatePass);
                String sent = String.join("\n", good.asked).replaceAll("(?s).*POST /v1/queue/3/ids\\?gatePass=(.)&.*", "$1");
                check(Math.abs((long) gatePass.hashCode()) % 64 == sent.charAt(0) % 64, gatePass + " became " + sent);
            }
            check(busy.asked.size() < 3, "one without IDs is asked last: " + busy.asked);
        }
    }

    @Test
    void refusals() throws Exception {
        try (Fake fake = new Fake(r -> "404 {\"code\":-2,\"message\":\"no such tag\"}"); Shardid client = Shardid.connect(fake.url, null, 60_000)) {
            ShardidException e = refused(-2, client.segment("a")::next); // at once
            check(e.status() == 404 && e.getMessage().startsWith("no such tag"), e);
            fake.answer = ranges(new AtomicLong(1));
            check(client.segment("a").next() == 1, "an error stays");
            fake.answer = r -> "404 {\"code\":-2,\"message\":\"no such tag\"}";
            for (int i = 0; i < 15; i++) {
                client.segment("a").next(); // what was fetched
                Thread.sleep(30);
            }
            check(fake.asked.size() < 5, fake.asked);
        }
        String range = "200 {\"code\":0,\"ranges\":[{\"first\":\"1\",\"count\":16,\"stride\":\"1\"}]}";
        for (String hostile : new String[] {"200 {}", "200 []", "200 {\"code\":0}", range + String.join("", Collections.nCopies(5 << 20, " ")), range.replace("16", "15"),
            range.replace("16", "17"), range.replace("16", "-1"), range.replace("16", "1.6e1"), range.replace("\"1\"", "1"), range.replace("t\":\"1", "t\":\"0"),
            range.replace("t\":\"1", "t\":\"9223372036854775800"), range.replace("t\":\"1", "t\":\"92233720368547758070"), range.replace("e\":\"1", "e\":\"-1"),
            range.replace("0,", "-1,"), "302 " + range.substring(4), "500 {\"code\":0}", NOT_READY, "200 " + range.substring(4, 60)}) {
            int patience = hostile == NOT_READY ? 1000 : 100; // it has to come in time
            try (Fake fake = new Fake(r -> hostile); Shardid client = Shardid.connect(fake.url, null, patience)) {
                refused(hostile == NOT_READY ? -1 : 0, client.segment("a")::next);
            }
        }
    }

    @Test
    void hangsAndThreads() throws Exception {
        CountDownLatch end = new CountDownLatch(1);
        Function<String, String> hang = r -> {
            try {
                end.await();
            } catch (InterruptedException e) {
                // it ends
            }
            return NOT_READY;
        };
        AtomicLong before = new AtomicLong();
        Function<String, String> once = r -> before.getAndIncrement() == 0 ? NOT_READY : hang.apply(r);
        try (Fake fake = new Fake(once); Shardid client = Shardid.connect(fake.url, null, 1000)) {
            refused(-1, client.segment("a")::next); // what it said before it hung
        }
        try (Fake fake = new Fake(hang); Fake good = new Fake(ranges(new AtomicLong(1)))) {
            for (int i = 0; i < 4; i++) { // either one may be first
                try (Shardid client = Shardid.connect(fake.url + "," + good.url, null, 1000)) {
                    client.segment("a").next();
                }
            }
            Shardid client = Shardid.connect(fake.url, null, 300);
            long begun = System.nanoTime();
            refused(0, client.segment("a")::next);
            refused(0, client.snowflakes("orders")::next);
            check(-Shardid.left(begun) < 5000, "it waited for " + -Shardid.left(begun) + " ms");
            client.close();
            refused(0, client.segment("a")::next);
            refused(0, () -> client.snowflakes("orders"));
            eventually("threads end", () -> Thread.getAllStackTraces().keySet().stream().noneMatch(t -> t.getName().startsWith("shardid-")));
            end.countDown();
        }
    }

    @Test
    void snowflakes() throws Exception {
        Leases leases = new Leases();
        AtomicLong ahead = new AtomicLong(); // how far the clock of the holder is ahead
        try (Fake fake = new Fake(leases); Shardid client = Shardid.connect(fake.url, null, 400)) {
            long begun = System.currentTimeMillis();
            Snowflakes s = new Snowflakes(client, "orders", "a b", () -> System.currentTimeMillis() + ahead.get());
            SortedSet<Long> ids = together(2000, s::next);
            long took = System.currentTimeMillis() - begun;
            check(took >= 8000 / 32 - 1 && (ids.first() >> 8) + EPOCH >= begun && (ids.last() >> 8) + EPOCH <= System.currentTimeMillis(), "8000 IDs in " + took + " ms");
            check(ids.stream().allMatch(id -> (id >> 5 & 7) == 0) && s.workerId() == 0, "another worker ID");
            check(ids.stream().map(id -> id >> 8).distinct().count() <= took + 1 && fake.asked.get(0).endsWith("?instance=a b"), fake.asked.get(0));

            ahead.set(200); // and back, by less than the timeout, and by more
            long last = s.next();
            ahead.set(0);
            check(s.next() > last, "it fell");
            ahead.set(5000);
            last = s.next();
            ahead.set(0);
            check(refused(0, s::next).getMessage().contains("were issued"), "another message");

            leases.lost = true; // the next lease has another worker ID
            eventually("a new lease", () -> s.workerId() == 1);
            check((s.next() >> 5 & 7) == 1, "the old worker ID");

            leases.hold = 500;
            leases.until = 0;
            leases.lost = true;
            eventually("a short lease", () -> s.workerId() == 2);
            ahead.set(1_000_000); // a time that was not granted, though the lease lives
            check(refused(0, s::next).getMessage().contains("ended at"), "another message");
            ahead.set(0);

            fake.answer = r -> NOT_READY;
            AtomicReference<Exception> refusal = new AtomicReference<>();
            AtomicLong latest = new AtomicLong();
            eventually("it refuses", () -> {
                try {
                    latest.set(s.next());
                } catch (ShardidException e) {
                    refusal.set(e);
                }
                return refusal.get() != null && refusal.get().getMessage().contains("not yet");
            });
            check((latest.get() >> 8) + EPOCH <= leases.until, refusal.get());
            leases.hold = 60_000;
            fake.answer = leases;
            eventually("it goes on", () -> s.workerId() == 3);
            check(s.next() > latest.get(), "it fell");

            leases.after = System.currentTimeMillis() + 300; // a time to come
            leases.lost = true;
            eventually("a later lease", () -> s.workerId() == 4);
            check(s.leaseLeft() == 0 || System.currentTimeMillis() > leases.after, "it can issue nothing yet");
            check(s.awaitWorkerId() == 4 && System.currentTimeMillis() >= leases.after, "it did not wait");
            last = s.next();
            check((last >> 8) + EPOCH > leases.after, "too early");

            new Thread(s::close).start();
            AtomicLong highest = new AtomicLong(last);
            try {
                for (;;) {
                    highest.set(s.next());
                }
            } catch (ShardidException e) {
                check(e.getMessage().contains("closed"), e);
            }
            s.close();
            String released = fake.asked.get(fake.asked.size() - 1);
            check(released.equals("DELETE /v1/leases/orders/4?secret=s4&lastUsed=" + ((highest.get() >> 8) + EPOCH)), released + " after " + highest);
        }
    }

    /** A source that is dry takes no thread from one that is not. */
    @Test
    void dryAndNot() throws Exception {
        Function<String, String> numbers = ranges(new AtomicLong(1));
        try (Fake fake = new Fake(r -> r.contains("/queue/") ? NOT_READY : numbers.apply(r));
                Shardid client = Shardid.connect(fake.url, null, 2000)) {
            ExecutorService callers = Executors.newCachedThreadPool();
            for (int app = 0; app < 20; app++) {
                QueueSource dry = client.queue(app);
                callers.execute(() -> refused(-1, () -> dry.next("alice")));
            }
            eventually("all are asked for",
                    () -> fake.asked.stream().map(r -> r.replaceAll("/ids.*", "")).distinct().count() == 20);
            long begun = System.nanoTime();
            client.segment("orders").next();
            check(-Shardid.left(begun) < 1000, "a tag waited for a queue");
            callers.shutdown();
        }
    }

    /** A thread that stops between its looks at lease and clock issues nothing once the lease is released. */
    @Test
    void lateThread() throws Exception {
        CountDownLatch reads = new CountDownLatch(1);
        CountDownLatch released = new CountDownLatch(1);
        try (Fake fake = new Fake(new Leases()); Shardid client = Shardid.connect(fake.url, null)) {
            Snowflakes s = new Snowflakes(client, "orders", "", () -> {
                for (reads.countDown(); Thread.currentThread().getName().equals("late") && released.getCount() > 0; Thread.yield()) {
                }
                return System.currentTimeMillis();
            });
            eventually("a lease", () -> s.workerId() == 0);
            FutureTask<ShardidException> late = new FutureTask<>(() -> refused(0, s::next));
            new Thread(late, "late").start();
            reads.await();
            s.close();
            released.countDown();
            check(late.get().getMessage().contains("closed"), late.get());
        }
    }

    /** Against a shardid that has an app 1, the tag leaf-segment-test and the name demo. */
    @Test
    @EnabledIfSystemProperty(named = "shardid.url", matches = "http.*", disabledReason = "make test-java has a shardid")
    void realServer() throws Exception {
        String url = System.getProperty("shardid.url");
        try (Shardid one = Shardid.connect(url, null); Shardid two = Shardid.connect(url, null)) {
            SortedSet<Long> ids = together(20_000, one.segment("leaf-segment-test")::next);
            together(10_000, () -> {
                long id = two.segment("leaf-segment-test").next();
                check(!ids.contains(id), id + " came to two clients");
                return id;
            });
            Set<Long> shards = new HashSet<>();
            for (int i = 0; i < 1000; i++) {
                String gatePass = "user-" + i;
                long id = one.queue(1).next(gatePass);
                check((id >> 8 & 63) == Math.abs((long) gatePass.hashCode()) % 64 && (id & 255) == 1, gatePass + " got " + id);
                shards.add(id >> 8 & 63);
            }
            check(shards.size() == 64 && refused(-2, one.segment("no-such-tag")::next).status() == 404, shards);
            refused(-2, one.snowflakes("no-such-name")::next);
            Snowflakes a = one.snowflakes("demo", "a");
            Snowflakes b = two.snowflakes("demo", "b");
            SortedSet<Long> made = together(20_000, a::next);
            for (long id : together(20_000, b::next)) {
                check(!made.contains(id), id + " came to two generators");
            }
            long worker = a.workerId();
            check(worker != b.workerId(), "two have the worker ID " + worker);
            a.close();
            check(one.snowflakes("demo", "a").next() > made.last() && one.snowflakes("demo", "a").workerId() == worker, "the worker ID did not come back");
        }
    }
}
