package shardid.tests.context;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.net.ConnectException;
import java.util.*;
import javax.sql.DataSource;
import com.baomidou.mybatisplus.autoconfigure.MybatisPlusPropertiesCustomizer;
import com.baomidou.mybatisplus.core.incrementer.DefaultIdentifierGenerator;
import com.baomidou.mybatisplus.core.incrementer.IdentifierGenerator;
import com.baomidou.mybatisplus.core.toolkit.GlobalConfigUtils;
import com.baomidou.mybatisplus.core.toolkit.IdWorker;
import com.baomidou.mybatisplus.extension.spring.MybatisSqlSessionFactoryBean;
import org.apache.ibatis.session.SqlSessionFactory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.beans.factory.*;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.boot.test.context.FilteredClassLoader;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.support.GenericApplicationContext;
import org.springframework.jdbc.datasource.DriverManagerDataSource;
import shardid.Shardid;
import shardid.hibernate.HibernateAutoConfiguration;
import shardid.micrometer.MicrometerAutoConfiguration;
import shardid.mybatisplus.MybatisPlusAutoConfiguration;
import shardid.spring.ShardidAutoConfiguration;
import shardid.spring.ShardidIds;

/** What a context has where no shardid answers: with and without each framework, and with each mistake. */
@ExtendWith(OutputCaptureExtension.class)
class ContextTest {
    private static final String URLS = "shardid.urls=http://127.0.0.1:1"; // where nothing listens

    @Configuration
    @EnableAutoConfiguration
    static class App {}

    private static ApplicationContextRunner app(String... properties) {
        return new ApplicationContextRunner().withUserConfiguration(App.class)
                .withPropertyValues("shardid.timeout=1s").withPropertyValues(properties);
    }

    @ParameterizedTest
    @ValueSource(strings = {"shardid.token=secret", "shardid.urls=", "shardid.urls[0]= "})
    void doesNothingWithoutUrls(String set) {
        app(set).run(c -> assertThat(c).hasNotFailed().doesNotHaveBean(Shardid.class)
                .doesNotHaveBean(ShardidIds.class));
    }

    @ParameterizedTest
    @ValueSource(strings = {URLS, "shardid.urls=http://127.0.0.1:1,http://127.0.0.1:2",
            "shardid.urls[0]=http://127.0.0.1:1"})
    void startsWithUrls(String urls) {
        app(urls)
                .run(c -> assertThat(c).hasNotFailed().hasSingleBean(Shardid.class)
                .hasBean("shardidMeters").hasBean("shardidHealthIndicator").hasBean("shardidEntityManagerFactories"));
    }

    @Test
    void hasNoHealthWhereIndicatorsAreOff() {
        app(URLS, "management.health.defaults.enabled=false")
                .run(c -> assertThat(c).hasNotFailed().doesNotHaveBean("shardidHealthIndicator"));
    }

    @Test
    void startsWithoutAnyFramework() {
        new ApplicationContextRunner().withPropertyValues(URLS)
                .withClassLoader(new FilteredClassLoader("com.baomidou", "org.hibernate", "io.micrometer",
                        "org.springframework.orm"))
                .withConfiguration(AutoConfigurations.of(ShardidAutoConfiguration.class,
                        MybatisPlusAutoConfiguration.class,
                        HibernateAutoConfiguration.class, MicrometerAutoConfiguration.class))
                .run(c -> assertThat(c).hasNotFailed().hasSingleBean(ShardidIds.class));
    }

    @Test
    void fillsTheFactoriesOfTheApplication() {
        app(URLS).withBean("second", MybatisSqlSessionFactoryBean.class, () -> {
            MybatisSqlSessionFactoryBean second = new MybatisSqlSessionFactoryBean();
            second.setDataSource(new DriverManagerDataSource("jdbc:h2:mem:second"));
            return second;
        }).run(c -> {
            SqlSessionFactory second = c.getBean(SqlSessionFactory.class);
            IdentifierGenerator ids = GlobalConfigUtils.getGlobalConfig(second.getConfiguration())
                    .getIdentifierGenerator();
            assertThatThrownBy(() -> ids.nextId(null)).hasMessageStartingWith("set shardid.default");
            assertThatThrownBy(() -> IdWorker.getId()).hasMessageStartingWith("set shardid.default");
        });
    }

    @Test
    void leavesTheGeneratorOfTheApplication() {
        app(URLS).withBean(IdentifierGenerator.class, () -> new DefaultIdentifierGenerator(1, 2)).run(c -> {
            SqlSessionFactory factory = c.getBean(SqlSessionFactory.class);
            assertThat(GlobalConfigUtils.getGlobalConfig(factory.getConfiguration()).getIdentifierGenerator())
                    .isSameAs(c.getBean(IdentifierGenerator.class));
        });
        IdentifierGenerator own = entity -> 7;
        app(URLS).withBean(MybatisPlusPropertiesCustomizer.class,
                () -> set -> set.getGlobalConfig().setIdentifierGenerator(own)).run(c -> {
                    SqlSessionFactory factory = c.getBean(SqlSessionFactory.class);
                    assertThat(GlobalConfigUtils.getGlobalConfig(factory.getConfiguration()).getIdentifierGenerator())
                            .isSameAs(own);
                });
    }

    @Test
    void takesTheClientOfTheApplication() {
        Shardid own = Shardid.connect("http://127.0.0.1:3", null);
        ShardidIds ids = new ShardidIds(own, null, null);
        app(URLS).withBean(Shardid.class, () -> own).withBean(ShardidIds.class, () -> ids).run(c -> {
            assertThat(c.getBean(Shardid.class)).isSameAs(own);
            assertThat(ShardidIds.current()).isSameAs(ids);
        });
    }

    /** What ShardingSphere has, without JPA and MyBatis-Plus, for beans that insert at their start and their end. */
    @Test
    void hasIdsWhileThereIsADataSource() {
        List<ShardidIds> had = new ArrayList<>();
        class Inserts implements InitializingBean, DisposableBean {
            Inserts(DataSource into) {}

            @Override
            public void afterPropertiesSet() {
                had.add(ShardidIds.current());
            }

            @Override
            public void destroy() {
                had.add(ShardidIds.current());
            }
        }
        new ApplicationContextRunner().withPropertyValues(URLS)
                .withInitializer(c -> ((GenericApplicationContext) c).registerBean(Inserts.class,
                        () -> new Inserts(c.getBeanFactory().getBean(DataSource.class))))
                .withBean(DataSource.class, DriverManagerDataSource::new)
                .withConfiguration(AutoConfigurations.of(ShardidAutoConfiguration.class))
                .run(c -> assertThat(c).hasNotFailed());
        assertThat(had).hasSize(2);
    }

    @Test
    void closesTheClientWithTheContext() {
        app(URLS).run(c -> {
            Shardid client = c.getBean(Shardid.class);
            c.close();
            assertThatThrownBy(client.segment("orders")::next).hasMessage("the client is closed");
            assertThatThrownBy(ShardidIds::current).hasMessageStartingWith("set shardid.urls");
        });
    }

    /** What a user reads when no replica answers and a worker ID is wanted. */
    @Test
    void saysWhyItDoesNotStart(CapturedOutput out) {
        SpringApplication app = new SpringApplicationBuilder(App.class).lazyInitialization(true)
                .properties(URLS, "shardid.timeout=1s", "shardid.snowflake.name=demo").build();
        assertThatThrownBy(() -> app.run()).hasRootCauseInstanceOf(ConnectException.class);
        assertThat(out)
                .contains("APPLICATION FAILED TO START", "no worker ID of the name demo: ",
                        "http://127.0.0.1:1 does not answer",
                "Start shardid, or correct shardid.urls.");
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', textBlock = """
            ''                | set shardid.default, or the property source
            orders            | write segment:<tag>, snowflake:<name>, queue:<appId>
            segment:          | write segment:<tag>
            tag:orders        | write segment:<tag>
            queue:one         | write segment:<tag>
            queue:1           | gatePass is missing
            segment:orders    | http://127.0.0.1:1 does not answer
            snowflake:demo    | no worker ID of the name demo
            """)
    void saysWhatToWrite(String source, String message) {
        app(URLS, "shardid.default=", "shardid.snowflake.name=").run(c -> {
            ShardidIds ids = c.getBean(ShardidIds.class);
            assertThatThrownBy(() -> ids.next(source, null)).hasMessageContaining(message);
        });
    }

    @Test
    void saysWhichShardKeyIsMissing() {
        record Order(Long buyerId) {}
        app(URLS).run(c -> {
            ShardidIds ids = c.getBean(ShardidIds.class);
            assertThatThrownBy(() -> ids.next("segment:orders", new Order(null), "buyerId"))
                    .hasMessageStartingWith("set buyerId of the Order");
            assertThatThrownBy(() -> ids.next("segment:orders", new Order(7L), "buyer")).hasMessageContaining("buyer");
        });
    }
}
