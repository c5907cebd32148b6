package app;

import com.baomidou.mybatisplus.core.incrementer.DefaultIdentifierGenerator;
import shardid.*;

/** Prints IDs by a lease of the name that is given, and IDs of MyBatis-Plus' default, and ends with its input. */
public class Hundred {
    public static void main(String[] args) throws Exception {
        try (Shardid client = Shardid.connect(args[0], null, 20_000)) {
            Snowflakes ids = client.snowflakes(args[1], "");
            System.out.println("worker " + ids.awaitWorkerId());
            for (int i = 0; i < 1000; i++) {
                System.out.println("shardid " + ids.next());
            }
            DefaultIdentifierGenerator theirs = DefaultIdentifierGenerator.getInstance();
            for (int i = 0; i < 1000; i++) {
                System.out.println("mybatis-plus " + theirs.nextId(null));
            }
            System.out.println("done");
            while (System.in.read() >= 0) {
                // a worker ID is held until the last one has its own
            }
        }
    }
}
