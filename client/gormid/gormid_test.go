package gormid_test

import (
	"strings"
	"testing"

	"shardid/client"
	"shardid/client/clienttest"
	"shardid/client/gormid"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"
	"gorm.io/gorm/utils/tests"
)

type (
	embedded struct {
		gorm.Model `shardid:"segment:embedded"`
		Buyer      string
	}
	plain struct {
		ID    int
		Buyer string
	}
	signed struct {
		ID int `shardid:"uid"`
	}
	unsigned struct {
		ID uint `shardid:"snowflake"`
	}
	numbered struct {
		ID     uint64 `shardid:"segment:numbered"`
		Number string `shardid:"number:numbers"`
	}
	wrongNumber struct {
		ID int64 `shardid:"number:numbers"`
	}
	small struct {
		ID int32 `shardid:"uid"`
	}
	keyless struct {
		inner `shardid:"uid"`
	}
	inner struct{ Name string }
)

// open is a gorm without a database, whose rows are filled all the same.
func open(t *testing.T) (*gorm.DB, *gormid.Plugin, *clienttest.Server) {
	t.Helper()
	ids := clienttest.Start()
	t.Cleanup(ids.Close)
	c, err := client.New(client.Options{Addrs: []string{ids.URL}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	db, err := gorm.Open(tests.DummyDialector{}, &gorm.Config{DryRun: true, SkipDefaultTransaction: true, Logger: logger.Discard})
	if err != nil {
		t.Fatal(err)
	}
	p := gormid.New(c)
	if err := db.Use(p); err != nil {
		t.Fatal(err)
	}
	return db, p, ids
}

func TestKeysOfEveryKind(t *testing.T) {
	db, p, _ := open(t)
	p.Register(&plain{}, "segment:plain")
	e, pl, s, u := []*embedded{{}, {}}, plain{}, signed{}, unsigned{}
	n := make([]numbered, client.MaxNumbers+1)
	for _, dest := range []any{&e, &pl, &s, &u, &n} {
		if err := db.Create(dest).Error; err != nil {
			t.Error(err)
		}
	}
	if e[0].ID != 1 || e[1].ID != 2 || pl.ID != 1 || s.ID != 1 || u.ID != 1 {
		t.Errorf("embedded %d %d, registered %d, int %d, uint %d", e[0].ID, e[1].ID, pl.ID, s.ID, u.ID)
	}
	for i := range n {
		if n[i].ID != uint64(i+1) || n[i].Number == "" || i > 0 && n[i].Number == n[i-1].Number {
			t.Fatalf("row %d is %+v", i, n[i])
		}
	}
	given := embedded{Model: gorm.Model{ID: 7}}
	if err := db.Create(&given).Error; err != nil || given.ID != 7 {
		t.Errorf("an ID that was given became %d, %v", given.ID, err)
	}
}

func TestTagsThatCannotBe(t *testing.T) {
	db, p, ids := open(t)
	p.Register(plain{}, "nothing")
	for what, err := range map[string]error{
		"a business number in an integer": db.Create(&wrongNumber{}).Error,
		"an int32":                        db.Create(&small{}).Error,
		"no primary key":                  db.Create(&keyless{}).Error,
		"a tag of Register":               db.Create(&plain{}).Error,
	} {
		if err == nil || !strings.Contains(err.Error(), "gormid: ") {
			t.Errorf("%s: %v", what, err)
		}
	}
	ids.Refuse(client.CodeLimit, "no more today")
	if err := db.Create(&numbered{}).Error; err == nil || !strings.Contains(err.Error(), "no more today") {
		t.Errorf("a refusal: %v", err)
	}
}
