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
	signed struct {
		ID    int64 `shardid:"uid"`
		Other string
	}
	unsigned struct {
		ID uint64 `shardid:"snowflake"`
	}
	sharded struct {
		ID    int64 `shardid:"queue:7:Email"`
		Email string
	}
	small struct {
		ID int32 `shardid:"uid"`
	}
	embedded struct {
		gorm.Model `shardid:"uid"`
	}
	nothing struct {
		ID int64 `shardid:"nothing"`
	}
	nameless struct {
		ID int64 `shardid:"segment:"`
	}
	passless struct {
		ID int64 `shardid:"queue:1"`
	}
	highApp struct {
		ID    int64 `shardid:"queue:256:Email"`
		Email string
	}
)

// open is a gorm without a database, whose rows are filled all the same.
func open(t *testing.T) (*gorm.DB, *clienttest.Server) {
	t.Helper()
	ids := clienttest.Start()
	t.Cleanup(ids.Close)
	c, err := client.New(client.Options{Addrs: []string{ids.URL}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	db, err := gorm.Open(tests.DummyDialector{}, &gorm.Config{DryRun: true, SkipDefaultTransaction: true,
		Logger: logger.Discard})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Use(gormid.New(c)); err != nil {
		t.Fatal(err)
	}
	return db, ids
}

func TestWhatIsNotFilled(t *testing.T) {
	db, ids := open(t)
	for what, err := range map[string]error{
		"an int32":           db.Create(&small{}).Error,
		"an embedded struct": db.Create(&embedded{}).Error,
		"no tag":             db.Create(&nothing{}).Error,
		"a map":              db.Model(&signed{}).Create(map[string]any{"other": "x"}).Error,
		"no gatePass":        db.Create(&sharded{}).Error,
		"a nil row":          db.Create([]*sharded{nil}).Error,
		"a nameless tag":     db.Create(&nameless{}).Error,
		"no gatePass field":  db.Create(&passless{}).Error,
		"an app above 255":   db.Create(&highApp{}).Error,
	} {
		if err == nil || !strings.Contains(err.Error(), "gormid: ") {
			t.Errorf("%s: %v", what, err)
		}
	}
	ids.Refuse(client.CodeLimit, "no more today")
	if err := db.Create(&unsigned{}).Error; err == nil || !strings.Contains(err.Error(), "no more today") {
		t.Errorf("a refusal: %v", err)
	}
}
