package gormid_test

import (
	"fmt"

	"shardid/client"
	"shardid/client/clienttest"
	"shardid/client/gormid"

	"gorm.io/gorm"
	"gorm.io/gorm/utils/tests"
)

// Example fills the key of a row. Without the options for a dry run, gorm also inserts it.
func Example() {
	shardid := clienttest.Start() // it stands for a running shardid
	defer shardid.Close()

	type Order struct {
		ID    int64 `gorm:"primaryKey" shardid:"segment:orders"`
		Buyer string
	}
	c, err := client.New(client.Options{Addrs: []string{shardid.URL}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	// tests.DummyDialector stands for the driver of a database.
	db, err := gorm.Open(tests.DummyDialector{}, &gorm.Config{DryRun: true, SkipDefaultTransaction: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := db.Use(gormid.New(c)); err != nil {
		fmt.Println(err)
		return
	}
	orders := []Order{{Buyer: "alice"}, {Buyer: "bob"}, {ID: 7, Buyer: "carol"}}
	err = db.Create(&orders).Error
	fmt.Println(orders, err)
	// Output: [{1 alice} {2 bob} {7 carol}] <nil>
}
