// Shop keeps orders in 64 tables, and an order's ID tells its table. docs/tutorial.md goes through it.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"shardid/client"
	"shardid/client/gormid"
	"shardid/client/idtext"

	"gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// Order is a row of one of the tables. gormid fills ID, with the shard of the customer, from app 1.
type Order struct {
	ID       int64  `gorm:"primaryKey;autoIncrement:false" shardid:"queue:1:Customer"`
	Customer string `gorm:"size:64;index"`
	Item     string `gorm:"size:64"`
}

// BeforeCreate chooses the table by the ID, which gormid has filled by now.
func (o *Order) BeforeCreate(tx *gorm.DB) error {
	name := table(shardOf(o.ID))
	if chosen := tx.Statement.Table; chosen != "orders" && chosen != name {
		return errors.New("one insert is for one table: create orders of several customers one by one")
	}
	tx.Statement.Table = name
	return nil
}

// shardOf takes the shard out of an ID: its bits 8 to 13.
func shardOf(id int64) int { return int(id >> 8 & 63) }

func table(shard int) string { return fmt.Sprintf("orders_%02d", shard) }

const usage = `usage: shop tables                  makes the 64 tables
       shop buy CUSTOMER ITEM...    stores an order for each item
       shop list CUSTOMER           shows the orders of a customer
       shop show ID                 shows an order
       shop keep                    stores orders until Ctrl-C
       shop check                   looks for an ID that is there twice`

func main() {
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(args []string) error {
	urls := cmp.Or(os.Getenv("SHARDID_URLS"), "http://127.0.0.1:8080")
	ids, err := client.New(client.Options{Addrs: strings.Split(urls, ",")})
	if err != nil {
		return err
	}
	defer ids.Close()
	dsn := cmp.Or(os.Getenv("SHOP_DSN"), "shop:secret@tcp(127.0.0.1:3306)/shop")
	db, err := gorm.Open(mysql.Open(dsn), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		return err
	}
	if err := db.Use(gormid.New(ids)); err != nil {
		return err
	}
	switch {
	case len(args) == 1 && args[0] == "tables":
		return tables(db)
	case len(args) > 2 && args[0] == "buy":
		return buy(db, args[1], args[2:])
	case len(args) == 2 && args[0] == "list":
		return list(db, args[1])
	case len(args) == 2 && args[0] == "show":
		return show(db, args[1])
	case len(args) == 1 && args[0] == "keep":
		return keep(db)
	case len(args) == 1 && args[0] == "check":
		return check(db)
	}
	return errors.New(usage)
}

func tables(db *gorm.DB) error {
	for shard := range idtext.Shards {
		if err := db.Table(table(shard)).AutoMigrate(&Order{}); err != nil {
			return err
		}
	}
	fmt.Println("there are", table(0), "to", table(idtext.Shards-1))
	return nil
}

func buy(db *gorm.DB, customer string, items []string) error {
	var orders []Order
	for _, item := range items {
		orders = append(orders, Order{Customer: customer, Item: item})
	}
	if err := db.Create(&orders).Error; err != nil {
		return err
	}
	return printed(orders)
}

// list finds the table by the customer, as there is no ID yet.
func list(db *gorm.DB, customer string) error {
	var orders []Order
	shard := int(idtext.ShardOf(customer))
	err := db.Table(table(shard)).Where("customer = ?", customer).Order("id").Find(&orders).Error
	return errors.Join(err, printed(orders))
}

// show finds the table by the ID alone.
func show(db *gorm.DB, text string) error {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return err
	}
	var o Order
	if err := db.Table(table(shardOf(id))).First(&o, id).Error; err != nil {
		return err
	}
	return printed([]Order{o})
}

func printed(orders []Order) error {
	for _, o := range orders {
		fmt.Println(o.ID, table(shardOf(o.ID)), o.Customer, o.Item)
	}
	return nil
}

// keep stores 200 orders a second, of 100 customers. One that fails is tried again.
func keep(db *gorm.DB) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ticks := time.NewTicker(5 * time.Millisecond)
	defer ticks.Stop()
	stored, said := 0, time.Now()
	for ctx.Err() == nil {
		o := Order{Customer: fmt.Sprint("customer", stored%100), Item: "book"}
		if err := db.Create(&o).Error; err != nil {
			fmt.Println(err)
		} else {
			stored++
		}
		if time.Since(said) > time.Second {
			said = time.Now()
			fmt.Println(said.Format(time.TimeOnly), stored, "orders")
		}
		<-ticks.C
	}
	fmt.Println("stored", stored, "orders")
	return nil
}

// check reads all tables: an order is where its ID and its customer say, and no ID is there twice.
func check(db *gorm.DB) error {
	seen := map[int64]bool{}
	for shard := range idtext.Shards {
		var orders []Order
		if err := db.Table(table(shard)).Find(&orders).Error; err != nil {
			return err
		}
		for _, o := range orders {
			if seen[o.ID] || shardOf(o.ID) != shard || int(idtext.ShardOf(o.Customer)) != shard {
				return fmt.Errorf("%s has the order %+v, twice or in the wrong place", table(shard), o)
			}
			seen[o.ID] = true
		}
	}
	fmt.Println(len(seen), "orders, each in its table, no ID twice")
	return nil
}
