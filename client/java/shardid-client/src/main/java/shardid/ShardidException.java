package shardid;

/** No ID came. Its message says what is wrong and what to do. */
public class ShardidException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final int code;
    private final int status;
    boolean mayPass; // the same request can succeed later, or at another replica
    long afterMs; // from when on, where shardid says so

    ShardidException(int code, int status, String message, Throwable cause) {
        super(message, cause);
        this.code = code;
        this.status = status;
    }

    ShardidException(String message) {
        this(0, 0, message, null);
    }

    /** An error that was another call's, with words before it. With null nothing was heard. */
    ShardidException(String before, ShardidException e) {
        this(e == null ? 0 : e.code, e == null ? 0 : e.status, before + (e == null ? "no replica answered in time" : e.getMessage()), e);
    }

    /**
     * The code of docs/api.md with which shardid refused, such as -5 for a limit. 0 where it did not: no replica
     * answered, the client is closed, or the thread was interrupted.
     */
    public int code() {
        return code;
    }

    /** The status of HTTP with which shardid refused, such as 409, or 0. */
    public int status() {
        return status;
    }
}
