package gormid_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"shardid/client"
	"shardid/client/gormid"

	"gorm.io/driver/mysql"
	"gorm.io/gorm"
)

// Example fills the key of a row. Without the options for a dry run, gorm also inserts it.
func Example() {
	// It stands for a running shardid.
	shardid := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, `{"code":0,"ranges":[{"first":"1001","count":%s,"stride":"1"}]}`, r.FormValue("count"))
	}))
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
	db, err := gorm.Open(mysql.New(mysql.Config{DSN: "user@tcp(db:3306)/shop", SkipInitializeWithVersion: true}),
		&gorm.Config{DryRun: true, DisableAutomaticPing: true, SkipDefaultTransaction: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	if pool, err := db.DB(); err == nil {
		defer pool.Close()
	}
	if err := db.Use(gormid.New(c)); err != nil {
		fmt.Println(err)
		return
	}
	orders := []Order{{Buyer: "alice"}, {Buyer: "bob"}, {ID: 7, Buyer: "carol"}}
	err = db.Create(&orders).Error
	fmt.Println(orders, err)
	// Output: [{1001 alice} {1002 bob} {7 carol}] <nil>
}

// ExampleNew shows the forms of the tag.
func ExampleNew() {
	type Account struct {
		ID    int64 `gorm:"primaryKey" shardid:"queue:1:Email"` // the ID of app 1 for this Email
		Email string
	}
	type Event struct {
		ID string `gorm:"primaryKey;size:32" shardid:"snowflake"` // or uid
	}
	c, err := client.New(client.Options{Addrs: []string{"http://127.0.0.1:8080"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	fmt.Println(gormid.New(c).Name(), Account{}, Event{})
	// Output: shardid {0 } {}
}
