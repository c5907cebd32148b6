package shardid.spring;

import javax.sql.DataSource;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.config.BeanPostProcessor;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.*;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.boot.context.properties.bind.*;
import org.springframework.boot.diagnostics.*;
import org.springframework.context.annotation.*;
import org.springframework.core.type.AnnotatedTypeMetadata;
import shardid.*;

/** A client of shardid, closed with the context, where shardid.urls is set. The frameworks' packages build on it. */
@AutoConfiguration
@Conditional(ShardidAutoConfiguration.WithUrls.class)
@EnableConfigurationProperties(ShardidProperties.class)
public class ShardidAutoConfiguration {

    @Bean
    @ConditionalOnMissingBean
    Shardid shardid(ShardidProperties set) {
        return Shardid.connect(String.join(",", set.urls()), set.token(), Math.toIntExact(set.timeout().toMillis()));
    }

    @Bean
    @ConditionalOnMissingBean
    @Lazy(false)
    ShardidIds shardidIds(Shardid client, ShardidProperties set) {
        String name = set.snowflake().name();
        String source = set.source() == null && name != null ? "snowflake:" + name : set.source();
        return new ShardidIds(client, source, set.instance());
    }

    /** Has {@link ShardidIds#current} give the bean, from before a DataSource is used till after that. */
    @Bean
    static BeanPostProcessor shardidCurrent(ObjectProvider<ShardidIds> made) {
        return new BeanPostProcessor() {
            @Override
            public Object postProcessAfterInitialization(Object bean, String name) {
                if (bean instanceof DataSource) { // it may be ShardingSphere's, which asks for the current one
                    made.getIfUnique();
                }
                return bean instanceof ShardidIds ids ? ids.asCurrent() : bean;
            }
        };
    }

    /** Has a worker ID when it is made, which is before the application serves. The client closes it, after all who ask. */
    @Bean(destroyMethod = "")
    @Lazy(false)
    @Fallback // where the application has one of its own
    @ConditionalOnMissingBean(name = "shardidSnowflakes")
    @ConditionalOnExpression("!'${shardid.snowflake.name:}'.isBlank()")
    Snowflakes shardidSnowflakes(Shardid client, ShardidProperties set) {
        String name = set.snowflake().name();
        Snowflakes ids = set.instance() == null ? client.snowflakes(name) : client.snowflakes(name, set.instance());
        ids.awaitWorkerId();
        return ids;
    }

    /** Whether shardid.urls is set, be it a text or a list. */
    static class WithUrls implements Condition {
        @Override
        public boolean matches(ConditionContext context, AnnotatedTypeMetadata of) {
            return Binder.get(context.getEnvironment()).bind("shardid.urls", Bindable.listOf(String.class))
                    .map(urls -> !String.join("", urls).isBlank()).orElse(false);
        }
    }

    /** Says in a sentence why a start failed for want of an ID. */
    static class Failed extends AbstractFailureAnalyzer<ShardidException> {
        @Override
        protected FailureAnalysis analyze(Throwable root, ShardidException e) {
            boolean unheard = e.code() == 0 && e.getCause() != null;
            String remedy = unheard ? "Start shardid, or correct shardid.urls." : "Do as the description says.";
            return new FailureAnalysis(e.getMessage(), remedy, e);
        }
    }
}
