import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import shardid.Shardid;
import shardid.Source;

/**
 * Appends an order for each buyer to orders.csv, with IDs of shardid. Java 11 or later, and the jar of client/java:
 *
 * <pre>SHARDID_URLS=http://127.0.0.1:8080 java -cp shardid.jar Orders.java alice bob</pre>
 */
public class Orders {
    public static void main(String[] buyers) throws Exception {
        String urls = System.getenv().getOrDefault("SHARDID_URLS", "http://127.0.0.1:8080");
        try (Shardid client = Shardid.connect(urls, System.getenv("SHARDID_TOKEN"))) {
            Source orders = client.segment("orders");
            for (String buyer : buyers) {
                long id = orders.next();
                Files.writeString(Path.of("orders.csv"), id + "," + buyer + "\n",
                        StandardOpenOption.CREATE, StandardOpenOption.APPEND);
                System.out.println(id + " " + buyer);
            }
        }
    }
}
