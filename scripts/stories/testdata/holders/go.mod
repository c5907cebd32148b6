module example.com/holders

go 1.26

require (
	github.com/bwmarrin/snowflake v0.3.0
	github.com/sony/sonyflake v1.2.0
	github.com/yitter/idgenerator-go v1.3.3
)
