package shardid;

import java.util.Arrays;

/** The IDs of an app of the queue mode: a {@link Source} for each of its 64 shards. Safe for many threads. */
public final class QueueSource {
    private final Source[] shards = new Source[64];

    QueueSource(Shardid client, int app) {
        if (app < 0 || app > 255) {
            throw new ShardidException("the app " + app + " is not 0…255");
        }
        for (int shard = 0; shard < shards.length; shard++) {
            // Any gatePass of a shard gets the shard's IDs. These have one character, whose code is its hash.
            String gatePass = Shardid.encoded(String.valueOf((char) (shard == 63 ? 63 : 64 + shard)));
            shards[shard] = new Source(client, "queue:" + app, "/v1/queue/" + app + "/ids", "gatePass=" + gatePass
                    + "&");
        }
    }

    /** One ID of the shard of gatePass, which is what you shard by; as {@link Source#next()}. */
    public long next(String gatePass) {
        if (gatePass == null || gatePass.isEmpty()) {
            throw new ShardidException("pass the user name, phone number or e-mail address that the ID is for: gatePass is missing or empty");
        }
        return shards[(int) (Math.abs((long) gatePass.hashCode()) % shards.length)].next();
    }

    long held() {
        return Arrays.stream(shards).mapToLong(Source::held).sum();
    }

    /** Where the IDs of a shard come from, 0…63. */
    public Source shard(int shard) {
        if (shard < 0 || shard >= shards.length) {
            throw new ShardidException("the shard " + shard + " is not 0…63");
        }
        return shards[shard];
    }
}
