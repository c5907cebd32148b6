// Package gormid fills primary keys with IDs of shardid when gorm creates rows:
//
//	type Order struct {
//		ID    int64 `gorm:"primaryKey" shardid:"segment:orders"`
//		Buyer string
//	}
//
//	err := db.Use(gormid.New(c)) // c is a *client.Client
//
// The tag is segment:<tag>, snowflake, uid, queue:<appId>:<Field>, where Field is the
// field of the row that holds the gatePass, or number:<tag> for business numbers. The field
// may be a string, or an int, uint, int64 or uint64 of 64 bits, but a business number is a
// string. On an embedded struct, such as gorm.Model, the tag is for the primary key in it;
// Plugin.Register says it for a model without a tag. A batch is filled with one call,
// associations are filled as they are created, a value that is there already stays, and an
// error stops the insert.
package gormid

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"shardid/client"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"
)

// TagName is the name of the struct tag.
const TagName = "shardid"

// Plugin is a gorm.Plugin. Safe for concurrent use.
type Plugin struct {
	client *client.Client
	fields sync.Map // []field by *schema.Schema
	tags   sync.Map // of Register: string by reflect.Type
}

// field is one that is filled.
type field struct {
	*schema.Field
	source   *client.Source // nil for one of the queue mode
	queue    *client.Queue
	number   *client.Number
	gatePass *schema.Field
}

// New is a plugin that takes its IDs from c, which the caller closes.
func New(c *client.Client) *Plugin { return &Plugin{client: c} }

// Register has the primary key of a model filled as if it had the tag: Register(&Order{},
// "segment:orders"), before the model's first row is created. What is wrong with the tag is
// the error of the first Create.
func (p *Plugin) Register(model any, tag string) *Plugin {
	t := reflect.TypeOf(model)
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	p.tags.Store(t, tag)
	return p
}

// Name implements gorm.Plugin.
func (p *Plugin) Name() string { return "shardid" }

// Initialize implements gorm.Plugin.
func (p *Plugin) Initialize(db *gorm.DB) error {
	// Before the hooks of the row, which may want to see its key.
	return db.Callback().Create().Before("gorm:before_create").Register("shardid:ids", p.fill)
}

// fill gives IDs to the rows that are about to be created.
func (p *Plugin) fill(db *gorm.DB) {
	if db.Error != nil || db.Statement.Schema == nil {
		return
	}
	fields, err := p.fieldsOf(db.Statement.Schema)
	if err == nil {
		for _, f := range fields {
			if err = f.fill(db); err != nil {
				break
			}
		}
	}
	if err != nil {
		_ = db.AddError(fmt.Errorf("gormid: %s: %w", db.Statement.Schema.Name, err))
	}
}

// fieldsOf reads the tags of a model, once.
func (p *Plugin) fieldsOf(s *schema.Schema) ([]field, error) {
	if known, ok := p.fields.Load(s); ok {
		fields, _ := known.([]field)
		return fields, nil
	}
	var fields []field
	add := func(name string, sf *schema.Field, tag string) (err error) {
		f := field{}
		if sf == nil {
			err = errors.New("there is no single primary key that it could be for")
		} else {
			f, err = p.parse(s, sf, tag)
		}
		if err != nil {
			return fmt.Errorf("the tag %q of %s: %w", tag, name, err)
		}
		fields = append(fields, f)
		return nil
	}
	for _, sf := range s.Fields {
		if tag, tagged := sf.Tag.Lookup(TagName); tagged {
			if err := add(sf.Name, sf, tag); err != nil {
				return nil, err
			}
		}
	}
	for i := range s.ModelType.NumField() {
		outer := s.ModelType.Field(i)
		tag, tagged := outer.Tag.Lookup(TagName)
		if !tagged || s.FieldsByName[outer.Name] != nil && s.FieldsByName[outer.Name].DBName != "" {
			continue // it has none, or was a field above
		}
		var key *schema.Field
		if k := s.PrioritizedPrimaryField; k != nil && k.BindNames[0] == outer.Name {
			key = k
		}
		if err := add(outer.Name, key, tag); err != nil {
			return nil, err
		}
	}
	if tag, registered := p.tags.Load(s.ModelType); registered {
		text, _ := tag.(string)
		if err := add(s.Name, s.PrioritizedPrimaryField, text); err != nil {
			return nil, err
		}
	}
	p.fields.Store(s, fields)
	return fields, nil
}

func (p *Plugin) parse(s *schema.Schema, sf *schema.Field, tag string) (field, error) {
	f := field{Field: sf}
	switch kind, rest, _ := strings.Cut(tag, ":"); {
	case kind == "segment" && rest != "":
		f.source = p.client.Segment(rest)
	case kind == "number" && rest != "":
		f.number = p.client.Number(rest)
		if sf.IndirectFieldType.Kind() != reflect.String {
			return f, fmt.Errorf("the field is %v: a business number needs a string", sf.IndirectFieldType)
		}
	case tag == "snowflake":
		f.source = p.client.Snowflake()
	case tag == "uid":
		f.source = p.client.UID()
	case kind == "queue":
		app, name, _ := strings.Cut(rest, ":")
		id, err := strconv.ParseUint(app, 10, 8)
		f.gatePass = s.LookUpField(name)
		if err != nil || f.gatePass == nil || f.gatePass.FieldType.Kind() != reflect.String {
			return f, fmt.Errorf("write queue:<appId>:<Field> with an appId of 0…255 and a string field of %s", s.Name)
		}
		f.queue = p.client.Queue(uint8(id))
	default:
		return f, fmt.Errorf("write segment:<tag>, snowflake, uid, queue:<appId>:<Field> or number:<tag>")
	}
	switch t := sf.IndirectFieldType; t.Kind() {
	case reflect.String:
		return f, nil
	case reflect.Int, reflect.Uint, reflect.Int64, reflect.Uint64:
		if t.Bits() == 64 {
			return f, nil
		}
	}
	return f, fmt.Errorf("the field is %v: an ID needs a string, or an int, uint, int64 or uint64 of 64 bits", sf.IndirectFieldType)
}

// row is what is created: a struct, or a map by the names of columns or fields.
type row struct {
	value  reflect.Value
	values map[string]any // nil for a struct
}

// rowsOf are the rows of a statement.
func rowsOf(v reflect.Value) (rows []row, err error) {
	v = reflect.Indirect(v)
	if v.Kind() == reflect.Slice || v.Kind() == reflect.Array {
		for i := range v.Len() {
			one, err := rowsOf(v.Index(i))
			if err != nil {
				return nil, err
			}
			rows = append(rows, one...)
		}
		return rows, nil
	}
	if v.IsValid() {
		if values, ok := v.Interface().(map[string]any); ok && values != nil {
			return []row{{values: values}}, nil
		}
	}
	if v.Kind() != reflect.Struct {
		return nil, gorm.ErrInvalidData
	}
	return []row{{value: v}}, nil
}

// get is the value of a field; false for none.
func (r row) get(ctx context.Context, f *schema.Field) (any, bool) {
	if r.values == nil {
		value, zero := f.ValueOf(ctx, r.value)
		return value, !zero
	}
	for _, name := range []string{f.DBName, f.Name} {
		if value, ok := r.values[name]; ok {
			return value, true
		}
	}
	return nil, false
}

// set sets a field to an ID, an int64, or a business number, a string.
func (r row) set(ctx context.Context, f *schema.Field, value any) error {
	if id, ok := value.(int64); ok && f.IndirectFieldType.Kind() == reflect.String {
		value = strconv.FormatInt(id, 10)
	}
	if r.values != nil {
		r.values[f.DBName] = value
		return nil
	}
	return f.Set(ctx, r.value, value)
}

// fill gives an ID to each row that has none.
func (f *field) fill(db *gorm.DB) error {
	ctx := db.Statement.Context
	rows, err := rowsOf(reflect.ValueOf(db.Statement.Dest))
	if err != nil {
		return err
	}
	rows = slices.DeleteFunc(rows, func(r row) bool { _, given := r.get(ctx, f.Field); return given })
	if len(rows) == 0 {
		return nil
	}
	if f.number != nil {
		for some := range slices.Chunk(rows, client.MaxNumbers) {
			texts, err := f.number.Take(ctx, len(some))
			for i := range texts {
				err = errors.Join(err, some[i].set(ctx, f.Field, texts[i]))
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	if f.source != nil {
		ids, err := f.source.Take(ctx, len(rows))
		for i := range ids {
			err = errors.Join(err, rows[i].set(ctx, f.Field, ids[i]))
		}
		return err
	}
	for _, r := range rows {
		gatePass, _ := r.get(ctx, f.gatePass)
		id, err := f.queue.Next(ctx, fmt.Sprint(gatePass))
		if err != nil {
			return err
		}
		if err := r.set(ctx, f.Field, id); err != nil {
			return err
		}
	}
	return nil
}
