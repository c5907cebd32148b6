package app;

import com.baomidou.mybatisplus.annotation.*;
import com.baomidou.mybatisplus.core.mapper.BaseMapper;
import org.apache.ibatis.annotations.Mapper;
import org.springframework.boot.*;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import shardid.mybatisplus.ShardidId;

/** Inserts a thousand orders in five seconds, and says how many there are. */
@SpringBootApplication
public class App {
    public static class Orders {
        @TableId(type = IdType.ASSIGN_ID)
        @ShardidId(value = "segment:carts", shardKey = "buyerId")
        public Long id;
        public Long buyerId;
    }

    @Mapper
    public interface OrderMapper extends BaseMapper<Orders> {}

    public static void main(String[] args) {
        SpringApplication.run(App.class, args);
    }

    @Bean
    CommandLineRunner inserts(OrderMapper orders) {
        return args -> {
            for (long i = 1; i <= 1000; i++) {
                Orders order = new Orders();
                order.buyerId = 7 * i;
                orders.insert(order);
                System.out.println("inserted " + i);
                Thread.sleep(5);
            }
        };
    }
}
