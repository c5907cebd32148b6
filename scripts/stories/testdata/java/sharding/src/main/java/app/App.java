package app;

import com.baomidou.mybatisplus.annotation.*;
import com.baomidou.mybatisplus.core.conditions.query.QueryWrapper;
import com.baomidou.mybatisplus.core.mapper.BaseMapper;
import java.nio.file.*;
import java.util.*;
import java.util.stream.*;
import org.apache.ibatis.annotations.Mapper;
import org.apache.shardingsphere.sharding.api.sharding.complex.*;
import org.springframework.boot.*;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.jdbc.core.JdbcTemplate;
import shardid.mybatisplus.ShardidId;

/**
 * Orders of 2,000 buyers in two databases, by ShardingSphere. "fill FILE" inserts 20,000, their IDs into the file, and
 * 1,000 payments, whose IDs ShardingSphere makes; "read FILE" reads each order by its ID alone, and those of each buyer
 * by the buyer alone. ShardingSphere's log says which tables each statement asked.
 */
@SpringBootApplication
public class App {
    private static final int BUYERS = 2000;

    public static class Orders {
        @TableId(type = IdType.ASSIGN_ID)
        @ShardidId(value = "segment:carts", shardKey = "buyerId")
        public Long id;
        public Long buyerId;
    }

    @Mapper
    public interface OrderMapper extends BaseMapper<Orders> {}

    /** Where a row is, by its ID or its buyer, whichever a statement names: their remainders are equal. */
    public static class Remainder implements ComplexKeysShardingAlgorithm<Long> {
        private long divisor;

        @Override
        public void init(Properties set) {
            divisor = Long.parseLong(set.getProperty("divisor"));
        }

        @Override
        public Collection<String> doSharding(Collection<String> names, ComplexKeysShardingValue<Long> asked) {
            int count = names.size();
            Map<String, Collection<Long>> values = asked.getColumnNameAndShardingValuesMap();
            return values.getOrDefault("id", values.get("buyer_id")).stream()
                    .map(value -> asked.getLogicTableName() + "_" + value / divisor % count)
                    .flatMap(name -> names.stream()
                            .filter(n -> n.equals(name) || n.equals(name.replace("orders", "ds"))))
                    .collect(Collectors.toSet());
        }
    }

    public static void main(String[] args) {
        SpringApplication.run(App.class, args);
    }

    @Bean
    CommandLineRunner run(OrderMapper orders, JdbcTemplate jdbc) {
        return args -> {
            Path file = Path.of(args[1]);
            if (args[0].equals("fill")) {
                List<String> ids = new ArrayList<>();
                for (long i = 0; i < 10L * BUYERS; i++) {
                    Orders order = new Orders();
                    order.buyerId = i % BUYERS;
                    orders.insert(order);
                    ids.add(order.id + " " + order.buyerId);
                }
                Files.write(file, ids);
                for (int i = 0; i < 1000; i++) {
                    jdbc.update("INSERT INTO payments (amount) VALUES (?)", i);
                }
                return;
            }
            for (String line : Files.readAllLines(file)) {
                String[] words = line.split(" ");
                System.out.println("ORDER " + words[0]);
                if (orders.selectById(Long.valueOf(words[0])).buyerId != Long.parseLong(words[1])) {
                    throw new AssertionError(line);
                }
            }
            for (long buyer = 0; buyer < BUYERS; buyer++) {
                System.out.println("BUYER " + buyer);
                if (orders.selectList(new QueryWrapper<Orders>().eq("buyer_id", buyer)).size() != 10) {
                    throw new AssertionError("buyer " + buyer);
                }
            }
            System.out.println("END");
        };
    }
}
