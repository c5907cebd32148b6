import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;

/**
 * Appends an order for each buyer to orders.csv, with IDs of shardid. Java 17, no libraries:
 *
 * <pre>SHARDID_URLS=http://127.0.0.1:8080 java Orders.java alice bob</pre>
 */
public class Orders {
    private static final String[] URLS =
            System.getenv().getOrDefault("SHARDID_URLS", "http://127.0.0.1:8080").split(",");
    private static final String TOKEN = System.getenv("SHARDID_TOKEN");
    private static final Set<Integer> AGAIN = Set.of(429, 502, 503, 504);
    private static final HttpClient HTTP = HttpClient.newBuilder()
            .connectTimeout(Duration.ofSeconds(2)).build();

    /** Takes count IDs. What was asked for and never came is a gap, so trying again is safe. */
    static List<Long> take(String path, int count) throws IOException, InterruptedException {
        IOException error = null;
        for (int attempt = 0; attempt < 6; attempt++) {
            double wait = 0.1 * (1 << attempt);
            URI uri = URI.create(URLS[attempt % URLS.length] + "/v1/" + path + "/ids?count=" + count);
            HttpRequest.Builder request = HttpRequest.newBuilder(uri).timeout(Duration.ofSeconds(5))
                    .POST(HttpRequest.BodyPublishers.noBody());
            if (TOKEN != null) {
                request.header("Authorization", "Bearer " + TOKEN);
            }
            try {
                var answer = HTTP.send(request.build(), HttpResponse.BodyHandlers.ofString());
                if (answer.statusCode() == 200) {
                    // {"code":0,"ids":["16385",…]}: the only texts in quotes that are digits are IDs.
                    return Pattern.compile("\"(\\d+)\"").matcher(answer.body()).results()
                            .map((MatchResult m) -> Long.valueOf(m.group(1))).toList();
                }
                if (!AGAIN.contains(answer.statusCode())) {
                    throw new IllegalStateException(answer.body()); // asking again would not help
                }
                error = new IOException(answer.body());
                wait = Math.max(wait, answer.headers().firstValueAsLong("Retry-After").orElse(0));
            } catch (IOException e) {
                error = e; // refused, reset, timed out
            }
            Thread.sleep((long) (1000 * wait * (1 + Math.random() / 2)));
        }
        throw error;
    }

    public static void main(String[] buyers) throws Exception {
        List<Long> ids = take("segment/orders", buyers.length);
        for (int i = 0; i < buyers.length; i++) {
            Files.writeString(Path.of("orders.csv"), ids.get(i) + "," + buyers[i] + "\n",
                    StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            System.out.println(ids.get(i) + " " + buyers[i]);
        }
    }
}
