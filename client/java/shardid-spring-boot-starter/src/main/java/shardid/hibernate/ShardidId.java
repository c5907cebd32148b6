package shardid.hibernate;

import java.lang.annotation.*;
import org.hibernate.annotations.IdGeneratorType;
import shardid.spring.ShardidIds;

/** Where the ID of an entity comes from, beside {@code @Id}, for Hibernate 6 and 7; the ID is a Long, a long or a String. */
@IdGeneratorType(ShardidGenerator.class)
@Retention(RetentionPolicy.RUNTIME)
@Target({ElementType.FIELD, ElementType.METHOD})
public @interface ShardidId {
    /** A source of {@link ShardidIds}, such as segment:orders; "" for that of shardid.default. */
    String value() default "";

    /** The property whose value is the shard key, such as buyerId or buyer.id; "" for none. */
    String shardKey() default "";
}
