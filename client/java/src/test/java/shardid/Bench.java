package shardid;

import java.util.*;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongSupplier;

/** Nanoseconds an ID on one thread, in rounds that take turns: the median and the least. Its argument is the URL of a shardid. */
public final class Bench {
    private static final int ROUNDS = 7;
    private static final int IDS = 3_000_000;

    /** What all sources write to, so that no call can be left out. */
    private static volatile long last;

    private Bench() {}

    /** Asks the name bench, of 20 bits of sequence, and the tag bench. */
    public static void main(String[] args) throws Exception {
        try (Shardid client = Shardid.connect(args[0], null)) {
            Snowflakes snowflakes = client.snowflakes("bench");
            Source segment = client.segment("bench");
            AtomicLong counter = new AtomicLong();
            Map<String, LongSupplier> all = new LinkedHashMap<>();
            all.put("AtomicLong.incrementAndGet, the floor", counter::incrementAndGet);
            all.put("System.currentTimeMillis, the clock", System::currentTimeMillis);
            all.put("snowflakes(name).next()", snowflakes::next);
            all.put("segment(tag).next()", segment::next);
            all.put("java.util.UUID.randomUUID()", () -> UUID.randomUUID().getLeastSignificantBits());
            Map<String, List<Double>> took = new LinkedHashMap<>();
            for (int round = 0; round < ROUNDS + 2; round++) { // the first two warm up
                for (Map.Entry<String, LongSupplier> source : all.entrySet()) {
                    double ns = round(source.getValue());
                    if (round >= 2) {
                        took.computeIfAbsent(source.getKey(), key -> new ArrayList<>()).add(ns);
                    }
                }
            }
            for (Map.Entry<String, List<Double>> source : took.entrySet()) {
                Collections.sort(source.getValue());
                System.out.printf("%-40s %7.1f ns  %.1f%n", source.getKey(), source.getValue().get(ROUNDS / 2), source.getValue().get(0));
            }
        }
    }

    private static double round(LongSupplier source) {
        long begun = System.nanoTime();
        long sum = 0;
        for (int i = 0; i < IDS; i++) {
            sum += source.getAsLong();
        }
        last = sum;
        return (System.nanoTime() - begun) / (double) IDS;
    }
}
