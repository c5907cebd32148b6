// Beans of a client and of a generator, which Spring closes.
import org.springframework.beans.factory.annotation.Value;
import org.springframework.context.annotation.*;
import shardid.*;

@Configuration
public class Ids {
  @Bean // Spring closes it
  public Shardid shardid(@Value("${shardid.urls:http://127.0.0.1:8080}") String urls, @Value("${shardid.token:#{null}}") String token) {
    return Shardid.connect(urls, token);
  }

  @Bean
  public Snowflakes snowflakes(Shardid shardid) {
    return shardid.snowflakes("demo");
  }
}
