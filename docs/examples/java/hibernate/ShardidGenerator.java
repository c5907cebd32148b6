// For Hibernate 5 and 6, which make generators themselves, and fields with @GeneratedValue(generator = "shardid") and
// @GenericGenerator(name = "shardid", strategy = "ShardidGenerator").
import org.hibernate.engine.spi.SharedSessionContractImplementor;
import org.hibernate.id.IdentifierGenerator;
import shardid.*;

public class ShardidGenerator implements IdentifierGenerator {
  private static final Shardid CLIENT = Shardid.connect(System.getenv("SHARDID_URLS"), System.getenv("SHARDID_TOKEN"));
  private static final Snowflakes IDS = CLIENT.snowflakes("demo");

  static {
    Runtime.getRuntime().addShutdownHook(new Thread(CLIENT::close)); // the worker ID is free at once
  }

  @Override
  public Long generate(SharedSessionContractImplementor session, Object entity) {
    return IDS.next();
  }
}
