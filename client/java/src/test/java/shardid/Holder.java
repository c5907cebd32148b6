package shardid;

import java.io.PrintStream;

/** Prints IDs of a name until it is killed, or its standard output is: URLs, name. For tests with faults. */
public final class Holder {
    private Holder() {}

    /** What is refused for now is tried again. */
    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, false);
        Shardid client = Shardid.connect(args[0], null);
        for (Snowflakes snowflakes = null; !out.checkError(); Thread.sleep(1)) { // which writes out, too
            try {
                if (snowflakes == null) {
                    snowflakes = client.snowflakes(args[1]);
                }
                for (int i = 0; i < 20; i++) {
                    out.println(snowflakes.next());
                }
            } catch (ShardidException e) {
                System.err.println(e.getMessage());
                Thread.sleep(100);
            }
        }
    }
}
