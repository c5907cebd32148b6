module shardid/scripts/compare/peers

go 1.26.0

require (
	github.com/bwmarrin/snowflake v0.3.0
	github.com/google/uuid v1.6.0
	github.com/sony/sonyflake/v2 v2.2.0
	shardid/client v0.0.0
)

replace shardid/client => ../../../client
