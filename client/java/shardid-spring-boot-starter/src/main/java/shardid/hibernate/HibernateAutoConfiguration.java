package shardid.hibernate;

import org.hibernate.annotations.IdGeneratorType;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.config.BeanPostProcessor;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.*;
import org.springframework.context.annotation.Bean;
import org.springframework.orm.jpa.AbstractEntityManagerFactoryBean;
import shardid.spring.*;

/** Hands the IDs to each EntityManagerFactory of the context, for {@link ShardidGenerator}. */
@AutoConfiguration(after = ShardidAutoConfiguration.class)
@ConditionalOnClass({IdGeneratorType.class, AbstractEntityManagerFactoryBean.class})
@ConditionalOnBean(ShardidIds.class)
public class HibernateAutoConfiguration {

    @Bean
    static BeanPostProcessor shardidEntityManagerFactories(ObjectProvider<ShardidIds> ids) {
        return new BeanPostProcessor() {
            @Override
            public Object postProcessBeforeInitialization(Object bean, String name) {
                if (bean instanceof AbstractEntityManagerFactoryBean factory) {
                    factory.getJpaPropertyMap().put(ShardidGenerator.IDS, ids.getObject());
                }
                return bean;
            }
        };
    }
}
