package gormid_test

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"shardid/client"
	"shardid/client/clienttest"
	"shardid/client/gormid"
	"shardid/client/idtext"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"
	"gorm.io/gorm/utils/tests"
)

type (
	order struct {
		ID      int64 `shardid:"segment:orders"`
		Buyer   string
		Address address
		Items   []item
	}
	item struct {
		ID      uint64 `shardid:"segment:items"`
		OrderID int64
		Name    string
	}
	address struct {
		ID      string `shardid:"uid"`
		OrderID int64
		City    string
	}
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
	byBuyer struct {
		ID      int64 `shardid:"segment:orders:BuyerID"`
		BuyerID int64
	}
	byTenant struct {
		ID     int64 `shardid:"segment:a:b:Tenant"`
		Tenant string
	}
	byShard struct {
		ID      int64 `shardid:"queue:7:shard:BuyerID"`
		BuyerID uint32
	}
	byPointer struct {
		ID      int64 `shardid:"segment:orders:BuyerID"`
		BuyerID *int64
	}
	byValuer struct {
		ID      int64 `shardid:"segment:orders:BuyerID"`
		BuyerID sql.NullInt64
	}
	buyer struct {
		ID   int64 `shardid:"uid"`
		Name string
	}
	ofBuyer struct {
		ID      int64 `shardid:"segment:orders:BuyerID"`
		BuyerID int64
		Buyer   buyer
	}
	ofHook struct {
		ID      int64 `shardid:"segment:orders:BuyerID"`
		BuyerID int64
	}
	byRatio struct {
		ID    int64 `shardid:"segment:orders:Ratio"`
		Ratio float64
	}
	highApp struct {
		ID    int64 `shardid:"queue:256:Email"`
		Email string
	}
)

// BeforeCreate knows the buyer, or sees the ID.
func (o *ofHook) BeforeCreate(*gorm.DB) error {
	if o.BuyerID != 0 && o.ID == 0 {
		return errors.New("the hook sees no ID")
	}
	o.BuyerID = 666
	return nil
}

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

// Each row that a Create inserts gets an ID unless it has one, whatever the row is made of.
func TestWhatIsFilled(t *testing.T) {
	db, ids := open(t)
	items := []item{{Name: "pen"}, {ID: 7, Name: "ink"}, {Name: "paper"}}
	o := order{ID: 42, Address: address{City: "Ulm"}, Items: items}
	const want = "{42  {1 42 Ulm} [{1 42 pen} {7 42 ink} {2 42 paper}]}"
	if err := db.Create(&o).Error; err != nil || fmt.Sprint(o) != want {
		t.Errorf("with associations: %+v, %v", o, err)
	}
	before, seen := ids.Requests(), map[int64]bool{0: true}
	orders := make([]*order, 3000)
	for i := range orders {
		orders[i] = &order{Buyer: "bulk"}
	}
	if err := db.CreateInBatches(orders, 1000).Error; err != nil || ids.Requests() > before+30 {
		t.Errorf("in batches: %v, %d requests", err, ids.Requests()-before)
	}
	for _, o := range orders {
		if seen[o.ID] {
			t.Fatalf("%d came twice, or is none", o.ID)
		}
		seen[o.ID] = true
	}
	accounts := []sharded{{Email: "a@x"}, {Email: "b@x"}, {Email: "a@x"}}
	err := db.Create(&accounts).Error
	for i, a := range accounts {
		if a.ID&255 != 7 || a.ID>>8&63 != int64(idtext.ShardOf(a.Email)) || a.ID>>14 != int64(1+i/2) {
			t.Errorf("by a gatePass: %+v, %v", a, err)
		}
	}
}

// The IDs of rows end in the low bits of another field, a number or a text.
func TestShardKeys(t *testing.T) {
	db, _ := open(t)
	orders := []byBuyer{{BuyerID: 666}, {BuyerID: 1690}, {BuyerID: 0}}
	tenants := []byTenant{{Tenant: "tenant-7"}, {Tenant: "42"}}
	shards := []byShard{{BuyerID: 26}, {BuyerID: 64 + 26}}
	key := int64(666)
	pointer, valuer := byPointer{BuyerID: &key}, byValuer{BuyerID: sql.NullInt64{Int64: key, Valid: true}}
	for _, rows := range []any{&orders, &tenants, &shards, &pointer, &valuer} {
		if err := db.Create(rows).Error; err != nil {
			t.Fatal(err)
		}
	}
	const want = "[{1690 666} {2714 1690} {3072 0}] [{1226 tenant-7} {2090 42}] [{23047 26} {39431 90}]"
	if got := fmt.Sprint(orders, tenants, shards); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if pointer.ID&1023 != key || valuer.ID&1023 != key {
		t.Errorf("behind a pointer %d, of a driver.Valuer %d", pointer.ID, valuer.ID)
	}
	late, hooked := []ofBuyer{{Buyer: buyer{ID: 4711}}, {Buyer: buyer{Name: "new"}}}, ofHook{}
	for _, rows := range []any{&late, &hooked, &ofHook{BuyerID: 666}} {
		if err := db.Create(rows).Error; err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range append(late, ofBuyer{ID: hooked.ID, BuyerID: hooked.BuyerID}) {
		if o.BuyerID == 0 || o.ID == 0 || o.ID&1023 != o.BuyerID&1023 {
			t.Errorf("a key that is set while the row is created: %+v", o)
		}
	}
}

func TestWhatIsNotFilled(t *testing.T) {
	db, ids := open(t)
	for what, err := range map[string]error{
		"an int32":           db.Create(&small{}).Error,
		"an embedded struct": db.Create(&embedded{}).Error,
		"no tag":             db.Create(&nothing{}).Error,
		"a map":              db.Model(&signed{}).Create(map[string]any{"other": "x"}).Error,
		"no gatePass":        db.Create(&sharded{}).Error,
		"no tenant":          db.Create(&byTenant{}).Error,
		"a key below 0":      db.Create(&byBuyer{BuyerID: -1}).Error,
		"a nil key":          db.Create(&byPointer{}).Error,
		"a key that is NULL": db.Create(&byValuer{}).Error,
		"a key of a float":   db.Create(&byRatio{Ratio: 7}).Error,
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
