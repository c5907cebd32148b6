// Shop keeps orders in 64 tables, later in 128. The ID of an order and its customer have the same remainder, so each
// tells the table. docs/tutorial.md goes through it.
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

	"gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// Order is a row of one of the tables. gormid fills ID from the tag shop, for the customer.
type Order struct {
	ID       int64  `gorm:"primaryKey;autoIncrement:false" shardid:"segment:shop:Customer"`
	Customer int64  `gorm:"index"`
	Item     string `gorm:"size:64"`
}

// BeforeCreate chooses the table by the ID, which gormid has filled by now.
func (o *Order) BeforeCreate(tx *gorm.DB) error {
	name := tableOf(o.ID)
	if chosen := tx.Statement.Table; chosen != "orders" && chosen != name {
		return errors.New("one insert is for one table: create orders of several customers one by one")
	}
	tx.Statement.Table = name
	return nil
}

// tableOf is the table of an order's ID, or of its customer.
func tableOf(idOrCustomer int64) string { return table(idOrCustomer % tables()) }

func table(n int64) string { return fmt.Sprintf("orders_%03d", n) }

// tables is how many there are: a power of two, 64 unless SHOP_TABLES says another one.
func tables() int64 {
	n := number(cmp.Or(os.Getenv("SHOP_TABLES"), "64"))
	if n == 0 || n&(n-1) != 0 {
		log.Fatal("set SHOP_TABLES to a power of two, such as 64")
	}
	return n
}

const usage = `usage: shop tables                  makes the tables
       shop buy CUSTOMER ITEM...    stores an order for each item
       shop list CUSTOMER           shows the orders of a customer
       shop show ID                 shows an order
       shop keep                    stores orders until Ctrl-C
       shop grow                    makes as many tables again, and copies the orders that are to be there
       shop trim                    removes what was copied from the tables of before
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
		return makeTables(db, 0, tables())
	case len(args) > 2 && args[0] == "buy":
		return buy(db, number(args[1]), args[2:])
	case len(args) == 2 && args[0] == "list":
		return list(db, number(args[1]))
	case len(args) == 2 && args[0] == "show":
		return show(db, number(args[1]))
	case len(args) == 1 && args[0] == "keep":
		return keep(db)
	case len(args) == 1 && args[0] == "grow":
		return grow(db)
	case len(args) == 1 && args[0] == "trim":
		return trim(db)
	case len(args) == 1 && args[0] == "check":
		return check(db)
	}
	return errors.New(usage)
}

// number is the number of a text. It ends the program if there is none.
func number(text string) int64 {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		log.Fatal("write whole numbers for customers and orders, and in SHOP_TABLES")
	}
	return int64(n)
}

func makeTables(db *gorm.DB, from, to int64) error {
	for n := from; n < to; n++ {
		if err := db.Table(table(n)).AutoMigrate(&Order{}); err != nil {
			return err
		}
	}
	fmt.Println("there are", table(0), "to", table(to-1))
	return nil
}

func buy(db *gorm.DB, customer int64, items []string) error {
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
func list(db *gorm.DB, customer int64) error {
	var orders []Order
	err := db.Table(tableOf(customer)).Where("customer = ?", customer).Order("id").Find(&orders).Error
	return errors.Join(err, printed(orders))
}

// show finds the table by the ID alone.
func show(db *gorm.DB, id int64) error {
	var o Order
	if err := db.Table(tableOf(id)).First(&o, id).Error; err != nil {
		return err
	}
	return printed([]Order{o})
}

func printed(orders []Order) error {
	for _, o := range orders {
		fmt.Println(o.ID, tableOf(o.ID), o.Customer, o.Item)
	}
	return nil
}

// grow doubles the tables. Those of an old one stay, or are to be in the one that is as far behind it as there were
// tables: the IDs say which, by one more bit. What was copied before is not copied twice.
func grow(db *gorm.DB) error {
	old, copied := tables(), int64(0)
	if err := makeTables(db, old, 2*old); err != nil {
		return err
	}
	for n := range old {
		done := db.Exec("INSERT IGNORE INTO "+table(n+old)+" SELECT * FROM "+table(n)+" WHERE id & ?", old)
		if done.Error != nil {
			return done.Error
		}
		copied += done.RowsAffected
	}
	fmt.Println("copied", copied, "orders: set SHOP_TABLES to", 2*old)
	return nil
}

// trim removes from the older half of the tables what grow has copied into the other.
func trim(db *gorm.DB) error {
	old, removed := tables()/2, int64(0)
	for n := range old {
		done := db.Exec("DELETE FROM "+table(n)+" WHERE id & ?", old)
		if done.Error != nil {
			return done.Error
		}
		removed += done.RowsAffected
	}
	fmt.Println("removed", removed, "orders that were copied")
	return nil
}

// keep stores 200 orders a second, of 1000 customers. One that fails is tried again.
func keep(db *gorm.DB) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ticks := time.NewTicker(5 * time.Millisecond)
	defer ticks.Stop()
	stored, said := 0, time.Now()
	for ctx.Err() == nil {
		o := Order{Customer: int64(stored % 1000), Item: "book"}
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
	for n := range tables() {
		var orders []Order
		if err := db.Table(table(n)).Find(&orders).Error; err != nil {
			return err
		}
		for _, o := range orders {
			if seen[o.ID] || o.ID%tables() != n || o.Customer%tables() != n {
				return fmt.Errorf("%s has the order %+v, twice or in the wrong place", table(n), o)
			}
			seen[o.ID] = true
		}
	}
	fmt.Println(len(seen), "orders, each in its table, no ID twice")
	return nil
}
