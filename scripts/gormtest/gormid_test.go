// Package gormtest tests client/gormid on a real database, whose driver its module does not need.
package gormtest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"shardid/client"
	"shardid/client/gormid"
	"shardid/scripts/testserver"

	"gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

func TestMain(m *testing.M) { testserver.Main(m) }

type order struct {
	ID      int64 `gorm:"primaryKey" shardid:"segment:orders"`
	Buyer   string
	Address address
	Items   []item
}

type item struct {
	ID      uint64 `gorm:"primaryKey" shardid:"segment:items"`
	OrderID int64
	Name    string
}

type address struct {
	ID      string `gorm:"primaryKey;size:32" shardid:"uid"`
	OrderID int64
	City    string
}

type account struct {
	ID    int64 `gorm:"primaryKey" shardid:"queue:7:Email"`
	Email string
}

// open is a new database, with a service that issues 1001, 1002… for each path, or
// refuses while refuse is set.
func open(t *testing.T) (db *gorm.DB, requests *atomic.Int64, refuse *atomic.Bool) {
	t.Helper()
	requests, refuse = new(atomic.Int64), new(atomic.Bool)
	var last atomic.Int64
	last.Store(1000)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if refuse.Load() {
			w.WriteHeader(http.StatusConflict)
			_, _ = fmt.Fprint(w, `{"code":-5,"message":"app reached its limit"}`)
			return
		}
		count, _ := strconv.ParseInt(r.URL.Query().Get("count"), 10, 64)
		if strings.HasPrefix(r.URL.Path, "/v1/queue/") && r.URL.Query().Get("gatePass") == "" {
			t.Error("no gatePass")
		}
		_, _ = fmt.Fprintf(w, `{"code":0,"ranges":[{"first":"%d","count":%d,"stride":"1"}]}`, last.Add(count)-count+1, count)
	}))
	t.Cleanup(service.Close)
	c, err := client.New(client.Options{Addrs: []string{service.URL}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	dsn := testserver.SharedMariaDB(t).NewDatabase(t)
	// With RETURNING, gorm cannot scan into the maps of TestCreate.
	db, err = gorm.Open(mysql.New(mysql.Config{DSN: dsn, DisableWithReturning: true}), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if pool, err := db.DB(); err == nil {
			_ = pool.Close()
		}
	})
	if err := db.Use(gormid.New(c)); err != nil {
		t.Fatal(err)
	}
	if err := db.AutoMigrate(&order{}, &item{}, &address{}, &account{}); err != nil {
		t.Fatal(err)
	}
	return db, requests, refuse
}

func TestCreate(t *testing.T) {
	db, _, _ := open(t)
	o := order{Buyer: "alice", Address: address{City: "Ulm"}, Items: []item{{Name: "pen"}, {ID: 7, Name: "ink"}, {Name: "paper"}}}
	if err := db.Create(&o).Error; err != nil {
		t.Fatal(err)
	}
	var read order
	if err := db.Preload("Items").Preload("Address").First(&read, o.ID).Error; err != nil {
		t.Fatal(err)
	}
	if o.ID <= 1000 || len(read.Items) != 3 || read.Items[0].ID != 7 || read.Items[1].ID <= 1000 || read.Address.OrderID != o.ID || len(read.Address.ID) < 4 {
		t.Errorf("%+v", read)
	}
	given := order{ID: 42, Buyer: "bob"}
	if err := db.Create(&given).Error; err != nil || given.ID != 42 {
		t.Errorf("an ID that was given became %d, %v", given.ID, err)
	}
	for _, dest := range []any{map[string]any{"buyer": "carol"}, []map[string]any{{"buyer": "carol"}, {"id": 43, "buyer": "carol"}}} {
		if err := db.Model(&order{}).Create(dest).Error; err != nil {
			t.Error(err)
		}
	}
	var ids []int64
	if err := db.Model(&order{}).Where("buyer = 'carol'").Order("id").Pluck("id", &ids).Error; err != nil || len(ids) != 3 || ids[0] != 43 || ids[1] <= 1000 {
		t.Errorf("rows from maps have the IDs %v, %v", ids, err)
	}
}

func TestCreateInBatches(t *testing.T) {
	db, requests, _ := open(t)
	orders := make([]*order, 3000)
	for i := range orders {
		orders[i] = &order{Buyer: "b" + strconv.Itoa(i)}
	}
	if err := db.CreateInBatches(orders, 1000).Error; err != nil {
		t.Fatal(err)
	}
	var n int64
	if err := db.Model(&order{}).Where("id > 1000").Count(&n).Error; err != nil || n != 3000 {
		t.Errorf("%d rows, %v", n, err)
	}
	if got := requests.Load(); got > 30 {
		t.Errorf("%d requests for 3000 rows", got)
	}
	accounts := []account{{Email: "a@x"}, {Email: "b@x"}, {Email: "a@x"}}
	if err := db.Create(&accounts).Error; err != nil || accounts[0].ID == accounts[2].ID || accounts[1].ID == 0 {
		t.Errorf("%v, %v", accounts, err)
	}
}

// An error stops the insert, and so does a tag that cannot be used.
func TestErrorsStopTheInsert(t *testing.T) {
	db, _, refuse := open(t)
	refuse.Store(true)
	if err := db.Create(&account{Email: "a@x"}).Error; err == nil || !strings.Contains(err.Error(), "app reached its limit") {
		t.Errorf("%v", err)
	}
	if err := db.Create(&account{}).Error; err == nil || !strings.Contains(err.Error(), "gatePass") {
		t.Errorf("no gatePass: %v", err)
	}
	var n int64
	if err := db.Model(&account{}).Count(&n).Error; err != nil || n != 0 {
		t.Errorf("%d rows, %v", n, err)
	}
	if err := db.Create([]*account{nil}).Error; err == nil {
		t.Error("a nil row was created")
	}
	for what, err := range map[string]error{
		"segment:": db.Table("accounts").Create(&struct {
			ID int64 `shardid:"segment:"`
		}{}).Error,
		"queue:1": db.Table("accounts").Create(&struct {
			ID int64 `shardid:"queue:1"`
		}{}).Error,
		"queue:256:Email": db.Table("accounts").Create(&struct {
			ID    int64 `shardid:"queue:256:Email"`
			Email string
		}{}).Error,
		"on an int32": db.Table("accounts").Create(&struct {
			ID int32 `shardid:"uid"`
		}{}).Error,
	} {
		if err == nil || !strings.Contains(err.Error(), "gormid: ") {
			t.Errorf("the tag %s: %v", what, err)
		}
	}
}
