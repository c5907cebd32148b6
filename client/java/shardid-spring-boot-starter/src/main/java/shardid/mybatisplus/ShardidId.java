package shardid.mybatisplus;

import java.lang.annotation.*;
import shardid.spring.ShardidIds;

/** Where the ID of an entity comes from, at its field with {@code @TableId(type = IdType.ASSIGN_ID)}. */
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.FIELD)
public @interface ShardidId {
    /** A source of {@link ShardidIds}, such as segment:orders; "" for that of shardid.default. */
    String value() default "";

    /** The field whose value is the shard key, such as buyerId or buyer.id; "" for none. */
    String shardKey() default "";
}
