package shardid;

import java.util.HashMap;
import java.util.Map;

/**
 * Reads a JSON document into its values, by paths such as "lease.until" or "ranges.0.first". What is malformed, nested
 * more than 16 deep, or not what is asked for is an IllegalArgumentException.
 */
final class Json {
    private final Map<String, String> values = new HashMap<>(); // as they are written; texts without escapes, after a quote
    private static final char END = 0;

    private final String text;
    private int at;

    Json(String document) {
        text = document + END;
        value("", 0);
        check(take(END) && at == text.length(), "an end");
    }

    String text(String path) {
        String value = values.getOrDefault(path, "");
        check(value.startsWith("\""), "the text " + path);
        return value.substring(1);
    }

    /** A whole number from least to most; as a text where JavaScript would round it. */
    long number(String path, boolean asText, long least, long most) {
        String digits = asText ? text(path) : values.getOrDefault(path, "");
        check(digits.matches("-?[0-9]{1,19}"), "the number " + path);
        long number = Long.parseLong(digits); // beyond its bounds an IllegalArgumentException, too
        check(number >= least && number <= most, path + " from " + least + " to " + most + " and not " + digits);
        return number;
    }

    boolean has(String path) {
        return values.containsKey(path);
    }

    private void check(boolean good, String wanted) {
        if (!good) {
            throw new IllegalArgumentException("at character " + at + " of " + (text.length() - 1) + " it lacks " + wanted);
        }
    }

    private boolean take(char wanted) {
        while (" \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
        boolean taken = text.charAt(at) == wanted;
        at += taken ? 1 : 0;
        return taken;
    }

    private void value(String path, int depth) {
        check(depth <= 16, "an end of nesting");
        String inside = depth == 0 ? "" : path + ".";
        if (take('{')) {
            for (boolean more = false; !take('}'); more = true) {
                check((!more || take(',')) && take('"'), "a field");
                String name = string();
                check(take(':'), "a colon");
                value(inside + name, depth + 1);
            }
        } else if (take('[')) {
            for (int i = 0; !take(']'); i++) {
                check(i == 0 || take(','), "a comma");
                value(inside + i, depth + 1);
            }
        } else {
            check(values.put(path, take('"') ? '"' + string() : word()) == null, "one value of " + path);
        }
    }

    private String word() {
        int begin = at;
        while (at - begin < 40 && " \t\r\n,]}\0".indexOf(text.charAt(at)) < 0) {
            at++;
        }
        String word = text.substring(begin, at);
        check(word.matches("null|true|false|-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?"), "a value");
        return word;
    }

    private String string() {
        StringBuilder string = new StringBuilder();
        for (; text.charAt(at) != '"'; at++) {
            char c = text.charAt(at);
            check(c >= ' ', "a quote");
            if (c == '\\') {
                c = text.charAt(++at);
                int plain = "\"\\/bfnrt".indexOf(c);
                String hex = text.substring(at, Math.min(at + 5, text.length()));
                check(plain >= 0 || hex.matches("u[0-9a-fA-F]{4}"), "an escape");
                c = plain >= 0 ? "\"\\/\b\f\n\r\t".charAt(plain) : (char) Integer.parseInt(hex.substring(1), 16);
                at += plain >= 0 ? 0 : 4;
            }
            string.append(c);
        }
        at++;
        return string.toString();
    }
}
