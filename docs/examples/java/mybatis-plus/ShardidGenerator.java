// A bean from which fields with @TableId(type = IdType.ASSIGN_ID) get their IDs.
import com.baomidou.mybatisplus.core.incrementer.IdentifierGenerator;
import shardid.*;

public class ShardidGenerator implements IdentifierGenerator {
  private final Snowflakes ids;

  public ShardidGenerator(Snowflakes ids) {
    this.ids = ids;
  }

  @Override
  public Number nextId(Object entity) {
    return ids.next();
  }
}
