package shardid;

import java.io.*;
import java.net.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Function;

/** Asks the replicas in turn, over HTTP. */
final class Replicas {
    private static final int MOST_BYTES = 4 << 20; // of an answer
    private static final int FIRST_PAUSE_MS = 50; // between rounds in which no replica had an answer
    private static final int LAST_PAUSE_MS = 2000;
    private static final int LAST_FOR_MS = 10_000; // is how long a replica that had no answer is asked last

    private final Map<String, Long> lastTill = new LinkedHashMap<>(); // of each address; guarded by this
    private final String token;
    private final int timeoutMs; // of one request
    private int turn = ThreadLocalRandom.current().nextInt(1024); // not all clients begin with the same; guarded by this

    Replicas(String urls, String token, int timeoutMs) {
        for (String url : (urls == null ? "" : urls).split(",")) {
            check(url.trim().matches("https?://[^/@?#]+(/[^@?#]*)?"),
                    "write each address as http://host:port or https://host:port, and a token apart from it");
            lastTill.put(url.trim().replaceAll("/+$", ""), System.nanoTime());
        }
        check(token == null || token.matches("[!-~]+"), "pass null where no token is required: this one is empty, or has a character that none has");
        check(timeoutMs > 0, "set a timeout of 1 ms or more, not of " + timeoutMs);
        this.token = token;
        this.timeoutMs = lastTill.size() > 1 ? timeoutMs - timeoutMs / 4 : timeoutMs; // one that hangs leaves time to ask another
    }

    private static void check(boolean good, String wrong) {
        if (!good) {
            throw new ShardidException(wrong);
        }
    }

    /**
     * The first answer that use takes; what it cannot use is an IllegalArgumentException. A refusal that another replica
     * would repeat ends it. Anything else is tried at the others, and but for a GET again and again until the end, by
     * System.nanoTime. The form has the parameters, encoded.
     */
    <T> T ask(String method, String path, String form, long end, Function<Json, T> use) {
        ShardidException last = null;
        for (long pause = FIRST_PAUSE_MS;; pause = Math.min(2 * pause, LAST_PAUSE_MS)) {
            long wait = pause;
            boolean hope = false;
            for (String url : inTurn()) {
                int left = (int) Math.min(Shardid.left(end), timeoutMs);
                if (left <= 0) {
                    throw new ShardidException(last == null ? "" : "no other answer in time: ", last);
                }
                ShardidException refusal;
                try {
                    return askOne(url, method, path, form, left, use);
                } catch (ShardidException e) {
                    refusal = e;
                }
                if (last == null || last.code() == 0 || refusal.code() != 0) { // an answer says more than none
                    last = refusal;
                }
                if (refusal.code() != 0 && !refusal.mayPass) {
                    throw refusal;
                }
                askLast(url);
                hope |= refusal.mayPass;
                wait = Math.max(wait, refusal.afterMs);
            }
            if (!hope || method.equals("GET")) { // a check asks each once
                throw last;
            }
            synchronized (this) {
                Shardid.await(this, Math.min(wait, Shardid.left(end)));
            }
        }
    }

    /** The replicas, beginning with the next one; those that had no answer lately are last. */
    private synchronized List<String> inTurn() {
        List<String> turned = new ArrayList<>(lastTill.keySet());
        Collections.rotate(turned, turn++);
        long now = System.nanoTime();
        turned.sort(Comparator.comparing(url -> lastTill.get(url) - now > 0));
        return turned;
    }

    private synchronized void askLast(String url) {
        lastTill.put(url, Shardid.after(LAST_FOR_MS));
    }

    private <T> T askOne(String url, String method, String path, String form, int ms, Function<Json, T> use) {
        try {
            HttpURLConnection http = (HttpURLConnection) URI.create(url + path).toURL().openConnection();
            http.setConnectTimeout(ms);
            http.setReadTimeout(ms);
            http.setInstanceFollowRedirects(false); // the token is for this address
            http.setRequestMethod(method);
            http.setRequestProperty("User-Agent", "shardid-java-client (" + System.getProperty("java.version") + ")");
            if (token != null) {
                http.setRequestProperty("Authorization", "Bearer " + token);
            }
            // Java sends it once more when a kept connection breaks. What was issued and never came is left out.
            if (!form.isEmpty()) {
                http.setRequestProperty("Content-Type", "application/x-www-form-urlencoded");
                http.setDoOutput(true);
                try (OutputStream out = http.getOutputStream()) {
                    out.write(form.getBytes(StandardCharsets.US_ASCII));
                }
            }
            int status = http.getResponseCode();
            return used(url, status, http.getHeaderField("Retry-After"), body(http, status, Shardid.after(ms)), use);
        } catch (IOException | IllegalArgumentException e) { // the latter for an address that Java does not read
            ShardidException failed = new ShardidException(0, 0, url + " does not answer: " + e, e);
            failed.mayPass = e instanceof IOException;
            throw failed;
        }
    }

    private static String body(HttpURLConnection http, int status, long end) throws IOException {
        try (InputStream in = status >= 400 ? http.getErrorStream() : http.getInputStream()) {
            ByteArrayOutputStream all = new ByteArrayOutputStream();
            byte[] some = new byte[8192];
            for (int n = 0; in != null && n >= 0; n = in.read(some)) {
                all.write(some, 0, n);
                if (all.size() > MOST_BYTES || Shardid.left(end) <= 0) {
                    http.disconnect();
                    throw new IOException("its answer is too large, or did not end in time");
                }
            }
            return new String(all.toByteArray(), StandardCharsets.UTF_8);
        }
    }

    private static <T> T used(String url, int status, String retryAfter, String body, Function<Json, T> use) {
        ShardidException failed;
        try {
            Json answer = new Json(body);
            int code = answer.has("code") ? (int) answer.number("code", false, -1000, 0) : 0; // /readyz has none
            if (code == 0 && status == 200) {
                return use.apply(answer);
            }
            failed = new ShardidException(code, status, answer.text("message")
                    + (code == 0 ? "" : " (code " + code + ")"), null);
            failed.afterMs = retryAfter != null && retryAfter.matches("[0-9]{1,4}") ? 1000 * Long.parseLong(retryAfter) : 0;
        } catch (IllegalArgumentException e) {
            String said = body.substring(0, Math.min(body.length(), 80)).replaceAll("\\p{Cntrl}", " ");
            failed = new ShardidException(0, 0, url + " answered " + status + " with '" + said + "': is its address right? " + e.getMessage(), e);
        }
        failed.mayPass = status >= 500 || status == 429 || status == 200;
        throw failed;
    }
}
