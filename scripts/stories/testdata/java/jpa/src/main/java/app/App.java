package app;

import jakarta.persistence.*;
import org.springframework.boot.*;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.transaction.support.TransactionTemplate;
import shardid.hibernate.ShardidId;

/** Inserts a thousand orders in five seconds, and serves the Actuator until it is ended. */
@SpringBootApplication
public class App {
    @Entity(name = "orders")
    public static class Order {
        @Id
        @ShardidId(shardKey = "buyerId")
        public Long id;
        public Long buyerId;
    }

    public static void main(String[] args) {
        SpringApplication.run(App.class, args);
    }

    @Bean
    CommandLineRunner inserts(EntityManager orders, TransactionTemplate transaction) {
        return args -> {
            for (long i = 1; i <= 1000; i++) {
                Order order = new Order();
                order.buyerId = 7 * i;
                transaction.executeWithoutResult(t -> orders.persist(order));
                System.out.println("inserted " + i);
                Thread.sleep(5);
            }
        };
    }
}
