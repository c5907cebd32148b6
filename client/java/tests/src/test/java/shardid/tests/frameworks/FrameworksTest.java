package shardid.tests.frameworks;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.baomidou.mybatisplus.annotation.*;
import com.baomidou.mybatisplus.core.mapper.BaseMapper;
import io.micrometer.core.instrument.MeterRegistry;
import jakarta.persistence.*;
import java.util.*;
import java.util.stream.*;
import org.apache.ibatis.annotations.Mapper;
import org.apache.shardingsphere.infra.algorithm.keygen.core.KeyGenerateAlgorithm;
import org.apache.shardingsphere.infra.spi.type.typed.TypedSPILoader;
import org.hibernate.SessionFactory;
import org.junit.jupiter.api.*;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.mybatis.spring.annotation.MapperScan;
import org.springframework.beans.factory.DisposableBean;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.*;
import org.springframework.transaction.support.TransactionTemplate;
import shardid.*;
import shardid.spring.ShardidIds;

/**
 * Entities that MyBatis-Plus and Hibernate fill, ShardingSphere's keys, health and meters, of a shardid with the tag
 * carts of ten shard bits, the tag leaf-segment-test, the names demo and, of six shard bits, flakes.
 */
@EnabledIfSystemProperty(named = "shardid.url", matches = "http.*", disabledReason = "make test-java has a shardid")
class FrameworksTest {
    @Configuration
    @EnableAutoConfiguration
    @MapperScan(basePackageClasses = FrameworksTest.class, annotationClass = Mapper.class)
    static class App {
        @Bean
        DisposableBean takesAnIdAtItsEnd(ShardidIds ids) {
            return () -> last = ids.next("snowflake:demo", null);
        }

        @Bean
        Snowflakes own(Shardid client) {
            return client.snowflakes("flakes");
        }
    }

    static class Base {
        @TableId(type = IdType.ASSIGN_ID)
        @shardid.mybatisplus.ShardidId("segment:none")
        Long id;
    }

    @TableName("cart")
    static class Cart extends Base {
        @TableId(type = IdType.ASSIGN_ID)
        @shardid.mybatisplus.ShardidId(value = "segment:carts", shardKey = "buyerId")
        Long id;
        Long buyerId;
    }

    @TableName("plain")
    static class Plain {
        @TableId(type = IdType.ASSIGN_ID)
        String id;
    }

    @Mapper
    interface Carts extends BaseMapper<Cart> {}

    @Mapper
    interface Plains extends BaseMapper<Plain> {}

    @Entity
    public static class Buyer {
        @Id
        @shardid.hibernate.ShardidId("segment:leaf-segment-test")
        Long id;

        public Long getId() {
            return id;
        }
    }

    @Entity
    public static class Sku {
        @Id
        @shardid.hibernate.ShardidId("segment:leaf-segment-test")
        long id;
    }

    @Entity
    @IdClass(Line.Key.class)
    public static class Line {
        record Key(String id, int place) implements java.io.Serializable {}

        @Id
        @shardid.hibernate.ShardidId("segment:leaf-segment-test")
        String id;

        @Id
        int place;
    }

    @Entity(name = "orders")
    public static class Order {
        @Id
        @shardid.hibernate.ShardidId(value = "snowflake:flakes", shardKey = "buyer.id")
        String id;

        @ManyToOne(fetch = FetchType.LAZY)
        Buyer buyer;

        public Buyer getBuyer() {
            return buyer;
        }
    }

    static ConfigurableApplicationContext app;
    static ShardidIds ids;
    static long last; // that was taken while the context closed

    @BeforeAll
    static void start() {
        app = new SpringApplicationBuilder(App.class).web(WebApplicationType.NONE)
                .properties("shardid.urls=" + System.getProperty("shardid.url"),
                "shardid.snowflake.name=demo", "spring.datasource.url=jdbc:h2:mem:test",
                        "spring.jpa.hibernate.ddl-auto=create",
                "spring.sql.init.mode=always", "spring.sql.init.schema-locations=optional:classpath:tables.sql",
                "management.health.db.enabled=false").run();
        ids = app.getBean(ShardidIds.class);
    }

    @AfterAll
    static void stop() {
        app.close();
        assertThat(last).isPositive();
    }

    @Test
    void myBatisPlus() {
        Set<Long> numbers = new HashSet<>();
        for (long buyer = 0; buyer < 2000; buyer++) {
            Cart cart = new Cart();
            cart.buyerId = buyer;
            app.getBean(Carts.class).insert(cart);
            assertThat(cart.id % 1024).isEqualTo(buyer % 1024);
            assertThat(numbers.add(cart.id >> 10)).isTrue();
        }
        assertThat(app.getBean(Carts.class).selectCount(null)).isEqualTo(2000);
        assertThatThrownBy(() -> app.getBean(Carts.class).insert(new Cart())).rootCause()
                .hasMessageStartingWith("set buyerId of the Cart");
        Plain first = new Plain();
        Plain second = new Plain();
        app.getBean(Plains.class).insert(List.of(first, second));
        assertThat(Long.parseLong(second.id)).isGreaterThan(Long.parseLong(first.id));
    }

    @Test
    void hibernate() {
        EntityManager manager = app.getBean(EntityManager.class);
        TransactionTemplate transaction = app.getBean(TransactionTemplate.class);
        List<Long> buyers = transaction.execute(t -> Stream.generate(Buyer::new).limit(100).peek(manager::persist)
                .map(b -> b.id).toList());
        assertThat(new HashSet<>(buyers)).hasSize(100);
        List<Long> skus = transaction.execute(t -> Stream.generate(Sku::new).limit(2).peek(manager::persist)
                .map(s -> s.id).toList());
        assertThat(skus).doesNotContain(0L).doesNotHaveDuplicates();
        Line line = new Line();
        transaction.executeWithoutResult(t -> manager.persist(line));
        assertThat(Long.parseLong(line.id)).isPositive();
        try (SessionFactory own = new org.hibernate.cfg.Configuration().addAnnotatedClass(Sku.class)
                .setProperty("hibernate.connection.url", "jdbc:h2:mem:own")
                .setProperty("hibernate.hbm2ddl.auto", "create").buildSessionFactory()) {
            Sku sku = new Sku();
            own.inTransaction(session -> session.persist(sku));
            assertThat(sku.id).isPositive();
        }
        transaction.executeWithoutResult(t -> {
            for (long buyer : buyers) {
                Order order = new Order();
                order.buyer = manager.getReference(Buyer.class, buyer); // a proxy that is not loaded
                manager.persist(order);
                assertThat(Long.parseLong(order.id) % 64).isEqualTo(buyer % 64);
            }
        });
        assertThat(manager.createQuery("select count(*) from orders", Long.class).getSingleResult()).isEqualTo(100);
        assertThatThrownBy(() -> transaction.executeWithoutResult(t -> manager.persist(new Order())))
                .hasMessageStartingWith("set buyer.id of the Order before it is stored");
    }

    @Test
    void shardingSphere() {
        Properties set = new Properties();
        set.setProperty("source", "segment:leaf-segment-test");
        Collection<? extends Comparable<?>> keys = TypedSPILoader.getService(KeyGenerateAlgorithm.class, "SHARDID",
                set).generateKeys(null, 1000);
        assertThat(new HashSet<>(keys)).hasSize(1000);
        set.setProperty("urls", System.getProperty("shardid.url"));
        KeyGenerateAlgorithm withoutSpring = TypedSPILoader.getService(KeyGenerateAlgorithm.class, "SHARDID", set);
        assertThat(Collections.disjoint(keys, withoutSpring.generateKeys(null, 10))).isTrue();
    }

    @Test
    void sources() {
        assertThat(ids.next("queue:1", "alice") >> 8 & 63).isEqualTo("alice".hashCode() & 63);
        assertThat(ids.next("queue:1:shard", 70) >> 8 & 63).isEqualTo(6);
        assertThat(ids.next("segment:carts", "tenant-7") % 1024).isEqualTo(202);
        assertThatThrownBy(() -> ids.next("segment:carts", 666.0)).hasMessageStartingWith("name a field with a whole number");
        assertThatThrownBy(() -> ids.next("segment:carts", null)).hasMessageContaining("shardKey");
        assertThatThrownBy(() -> ids.next("segment:none", null)).hasMessageContaining("none");
    }

    @Test
    void metersAndHealth() {
        ids.next("segment:leaf-segment-test", null);
        MeterRegistry meters = app.getBean(MeterRegistry.class);
        assertThat(meters.get("shardid.held").tag("source", "segment:leaf-segment-test").gauge().value()).isPositive();
        assertThat(meters.get("shardid.fetch").tag("source", "segment:leaf-segment-test").tag("code", "ok").timer()
                .count()).isPositive();
        assertThatThrownBy(() -> ids.next("segment:none", null)).isNotNull();
        assertThat(meters.get("shardid.fetch").tag("source", "segment:none").tag("code", "-2").timer().count())
                .isPositive();
        assertThat(ids.check().get("demo")).isPositive();
        assertThat(app.getBean(Snowflakes.class)).isNotSameAs(app.getBean("shardidSnowflakes"));
    }
}
