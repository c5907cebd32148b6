// Orders creates an order for each buyer, in one insert, with IDs of shardid:
//
//	SHARDID_URLS=http://127.0.0.1:8080 DATABASE_DSN='root@tcp(127.0.0.1:3306)/shop' \
//	  go run ./docs/examples/go-gorm alice bob
//
// The client holds IDs ahead of demand, tries again by itself, and asks another replica when
// one fails.
package main

import (
	"cmp"
	"fmt"
	"log"
	"os"
	"strings"

	"shardid/client"
	"shardid/client/gormid"

	"gorm.io/driver/mysql"
	"gorm.io/gorm"
)

// Order is a row; gormid fills ID from the tag orders of the segment mode.
type Order struct {
	ID    int64  `gorm:"primaryKey;autoIncrement:false" shardid:"segment:orders"`
	Buyer string `gorm:"size:64"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(buyers []string) error {
	urls := cmp.Or(os.Getenv("SHARDID_URLS"), "http://127.0.0.1:8080")
	ids, err := client.New(client.Options{Addrs: strings.Split(urls, ","), Token: os.Getenv("SHARDID_TOKEN")})
	if err != nil {
		return err
	}
	defer ids.Close()
	db, err := gorm.Open(mysql.Open(os.Getenv("DATABASE_DSN")))
	if err != nil {
		return err
	}
	if err := db.AutoMigrate(&Order{}); err != nil {
		return err
	}
	if err := db.Use(gormid.New(ids)); err != nil {
		return err
	}
	var orders []Order
	for _, buyer := range buyers {
		orders = append(orders, Order{Buyer: buyer})
	}
	if err := db.Create(&orders).Error; err != nil {
		return err
	}
	for _, o := range orders {
		fmt.Println(o.ID, o.Buyer)
	}
	return nil
}
