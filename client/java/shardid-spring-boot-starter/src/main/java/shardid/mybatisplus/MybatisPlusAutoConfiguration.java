package shardid.mybatisplus;

import com.baomidou.mybatisplus.core.config.GlobalConfig;
import com.baomidou.mybatisplus.core.incrementer.*;
import com.baomidou.mybatisplus.core.toolkit.*;
import java.lang.reflect.Field;
import java.util.Optional;
import org.apache.ibatis.session.SqlSessionFactory;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.config.BeanPostProcessor;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.*;
import org.springframework.context.annotation.Bean;
import org.springframework.util.ReflectionUtils;
import shardid.spring.*;

/** Fills the fields that MyBatis-Plus assigns IDs to. */
@AutoConfiguration(after = ShardidAutoConfiguration.class,
        beforeName = "com.baomidou.mybatisplus.autoconfigure.IdentifierGeneratorAutoConfiguration") // of Spring Cloud
@ConditionalOnClass(IdentifierGenerator.class)
@ConditionalOnBean(ShardidIds.class)
public class MybatisPlusAutoConfiguration {

    /** In place of the bean of MyBatis-Plus, which has one beside Spring Cloud only: it overrules customizers. */
    @Bean
    @ConditionalOnMissingBean
    @ConditionalOnClass(name = "org.springframework.cloud.commons.util.InetUtils")
    IdentifierGenerator shardidIdentifierGenerator(ShardidIds ids) {
        return new Generator(ids);
    }

    /** A factory without a generator of the application's has MyBatis-Plus' one, which is no bean. */
    @Bean
    static BeanPostProcessor shardidSqlSessionFactories(ObjectProvider<ShardidIds> ids,
            ObjectProvider<IdentifierGenerator> beans) {
        return new BeanPostProcessor() {
            @Override
            public Object postProcessAfterInitialization(Object bean, String name) {
                if (bean instanceof SqlSessionFactory factory) {
                    GlobalConfig set = GlobalConfigUtils.getGlobalConfig(factory.getConfiguration());
                    IdentifierGenerator has = set.getIdentifierGenerator();
                    if (has != null && has.getClass() == DefaultIdentifierGenerator.class
                            && beans.stream().noneMatch(b -> b == has)) {
                        set.setIdentifierGenerator(new Generator(ids.getObject()));
                        IdWorker.setIdentifierGenerator(set.getIdentifierGenerator());
                    }
                }
                return bean;
            }
        };
    }

    private static final class Generator implements IdentifierGenerator {
        private static final ClassValue<Optional<ShardidId>> ANNOTATED = new ClassValue<>() {
            @Override
            protected Optional<ShardidId> computeValue(Class<?> entity) {
                Field[] found = new Field[1];
                ReflectionUtils.doWithFields(entity, field -> found[0] = field, // that of the class before its parents'
                        field -> found[0] == null && field.isAnnotationPresent(ShardidId.class));
                return Optional.ofNullable(found[0]).map(field -> field.getAnnotation(ShardidId.class));
            }
        };

        private final ShardidIds ids;

        Generator(ShardidIds ids) {
            this.ids = ids;
        }

        @Override
        public Number nextId(Object entity) {
            Optional<ShardidId> at = entity == null ? Optional.empty() : ANNOTATED.get(entity.getClass());
            return at.isEmpty() ? ids.next("", null) : ids.next(at.get().value(), entity, at.get().shardKey());
        }
    }
}
