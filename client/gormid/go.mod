module shardid/client/gormid

go 1.25.0

require (
	gorm.io/gorm v1.25.0
	shardid/client v0.0.0
)

require (
	github.com/jinzhu/inflection v1.0.0 // indirect
	github.com/jinzhu/now v1.1.5 // indirect
)

replace shardid/client => ../
