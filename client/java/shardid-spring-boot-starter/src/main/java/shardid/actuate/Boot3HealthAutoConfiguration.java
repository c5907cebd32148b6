package shardid.actuate;

import org.springframework.boot.actuate.autoconfigure.health.ConditionalOnEnabledHealthIndicator;
import org.springframework.boot.actuate.health.*;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.*;
import org.springframework.context.annotation.Bean;
import shardid.spring.*;

/** Health in the Actuator of Spring Boot 3: DOWN when no replica answers, or a lease has ended. */
@AutoConfiguration(after = ShardidAutoConfiguration.class)
@ConditionalOnClass(HealthIndicator.class)
@ConditionalOnBean(ShardidIds.class)
@ConditionalOnEnabledHealthIndicator("shardid")
public class Boot3HealthAutoConfiguration {

    @Bean
    HealthIndicator shardidHealthIndicator(ShardidIds ids) {
        return () -> {
            try {
                return Health.up().withDetail("leaseMs", ids.check()).build();
            } catch (RuntimeException e) {
                return Health.down(e).build();
            }
        };
    }
}
