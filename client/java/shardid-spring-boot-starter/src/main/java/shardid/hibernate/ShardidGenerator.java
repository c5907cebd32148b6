package shardid.hibernate;

import java.lang.reflect.*;
import java.util.EnumSet;
import org.hibernate.engine.config.spi.ConfigurationService;
import org.hibernate.engine.spi.SharedSessionContractImplementor;
import org.hibernate.generator.*;
import org.hibernate.mapping.Property;
import shardid.spring.ShardidIds;

/** Fills IDs with {@link ShardidId}; Hibernate makes one for each such property. An ID that is set, and not 0, stays. */
public class ShardidGenerator implements BeforeExecutionGenerator, AnnotationBasedGenerator<ShardidId> {
    private static final long serialVersionUID = 1;

    /** The setting of Hibernate that has the {@link ShardidIds}; the current ones are taken without it. */
    static final String IDS = "shardid.ids";

    private transient ShardidIds ids;
    private transient ShardidId at;
    private transient boolean asText;

    @Override
    public void initialize(ShardidId annotation, Member member, GeneratorCreationContext context) {
        ConfigurationService configuration = context.getServiceRegistry().requireService(ConfigurationService.class);
        ShardidIds set = (ShardidIds) configuration.getSettings().get(IDS);
        ids = set == null ? ShardidIds.current() : set;
        at = annotation;
        Property property = context.getProperty(); // null for an ID of an @IdClass in Hibernate 6
        Class<?> type = property != null ? property.getType().getReturnedClass()
                : member instanceof Field field ? field.getType() : ((Method) member).getReturnType();
        asText = type == String.class;
    }

    @Override
    public Object generate(SharedSessionContractImplementor session, Object owner, Object current, EventType event) {
        if (current != null && !Long.valueOf(0).equals(current)) { // a long is 0 in a new row
            return current;
        }
        long id = ids.next(at.value(), owner, at.shardKey());
        return asText ? (Object) Long.toString(id) : id;
    }

    @Override
    public boolean allowAssignedIdentifiers() {
        return true;
    }

    @Override
    public EnumSet<EventType> getEventTypes() {
        return EventTypeSets.INSERT_ONLY;
    }
}
