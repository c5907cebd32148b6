package shardid;

import java.nio.charset.StandardCharsets;
import java.util.zip.CRC32;

/** What the low bits of an ID are taken from, so that its remainder by a power of two is that of the key. */
public final class ShardKey {
    private static final int MOST_BYTES = 1024;

    private ShardKey() {}

    /**
     * The key of a text, 0…2^64-1 as an unsigned long: decimal digits are that number, and any other text is the CRC-32
     * (IEEE) of its UTF-8, as MySQL's CRC32(). An empty text is refused, and blanks at its ends, digits behind a sign or
     * a zero, and a number above 2^64-1: what two programs could take for different keys is none.
     */
    public static long of(String text) {
        byte[] utf8 = text == null ? new byte[0] : text.getBytes(StandardCharsets.UTF_8);
        if (utf8.length == 0 || utf8.length > MOST_BYTES) {
            throw new ShardidException("send a shard key of 1 to " + MOST_BYTES + " bytes, not of " + utf8.length);
        }
        int last = text.length() - 1;
        if (isBlank(text.charAt(0)) || isBlank(text.charAt(last))) {
            throw new ShardidException("send the shard key without blanks at its ends: it is \"" + text + "\"");
        }
        if (!text.matches("[+-]*[0-9]+")) {
            CRC32 sum = new CRC32();
            sum.update(utf8, 0, utf8.length);
            return sum.getValue();
        }
        if (!text.matches("0|[1-9][0-9]*")) {
            throw new ShardidException("send the digits of the shard key without a sign and without zeros before them: it is \"" + text + "\"");
        }
        try {
            return Long.parseUnsignedLong(text);
        } catch (NumberFormatException e) {
            throw new ShardidException("send a shard key of at most 2^64-1, or one with a letter: it is \"" + text + "\"");
        }
    }

    private static boolean isBlank(char c) {
        return Character.isWhitespace(c) || Character.isSpaceChar(c);
    }
}
