// Package gormid fills fields with IDs of shardid when gorm creates rows:
//
//	type Order struct {
//		ID    int64 `gorm:"primaryKey" shardid:"segment:orders"`
//		Buyer string
//	}
//
//	err := db.Use(gormid.New(c)) // c is a *client.Client
//
// The tag is segment:<tag>, segment:<tag>:<Key> for a tag with shard bits, snowflake, uid, queue:<appId>:<GatePass>, or
// queue:<appId>:shard:<Key>. Key and GatePass are fields of the row: a shard key, whose remainder by 64 is the shard of
// the queue, and a gatePass. A hook may set them, which then sees no ID yet, and so may a row that this one belongs to;
// one that has none is not inserted. The field of the ID is an int64, a uint64 or a string. A batch takes one call,
// or one for each row where a field is named. Associations are filled as they are created, a value that is there
// already stays, and an error stops the insert, as does a row that is a map.
package gormid

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"shardid/client"
	"shardid/client/idtext"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"
)

// TagName is the name of the struct tag.
const TagName = "shardid"

// Plugin is a gorm.Plugin. Safe for concurrent use.
type Plugin struct {
	client *client.Client
	fields sync.Map // []field by *schema.Schema
}

// field is one that is filled: from source, or by what another field of the row says.
type field struct {
	*schema.Field
	source *client.Source
	other  *schema.Field // nil for source
	next   func(ctx context.Context, other string) (int64, error)
}

// New is a plugin that takes its IDs from c, which the caller closes.
func New(c *client.Client) *Plugin { return &Plugin{client: c} }

// Name implements gorm.Plugin.
func (p *Plugin) Name() string { return "shardid" }

// Initialize implements gorm.Plugin.
func (p *Plugin) Initialize(db *gorm.DB) error {
	// An ID comes before the hooks of the row, which may want to see it. Where the field that makes it is not set yet,
	// it comes after all that may set that: these hooks, and the rows that this one belongs to.
	creates := db.Callback().Create()
	return errors.Join(
		creates.Before("gorm:before_create").Register("shardid:ids", func(db *gorm.DB) { p.fillRows(db, false) }),
		creates.After("gorm:save_before_associations").Before("gorm:create").
			Register("shardid:keyed", func(db *gorm.DB) { p.fillRows(db, true) }),
	)
}

// fillRows gives IDs to the rows that are about to be created; late to those whose other field was not set before.
func (p *Plugin) fillRows(db *gorm.DB, late bool) {
	s := db.Statement
	if db.Error != nil || s.Schema == nil {
		return
	}
	fields, err := p.fieldsOf(s.Schema)
	for i := 0; i < len(fields) && err == nil; i++ {
		if f := fields[i]; f.other != nil || !late {
			err = f.fill(s.Context, s.ReflectValue, late)
		}
	}
	if err != nil {
		_ = db.AddError(fmt.Errorf("gormid: %s: %w", s.Schema.Name, err))
	}
}

// fieldsOf reads the tags of a model, once.
func (p *Plugin) fieldsOf(s *schema.Schema) ([]field, error) {
	if known, ok := p.fields.Load(s); ok {
		fields, _ := known.([]field)
		return fields, nil
	}
	var fields []field
	for _, sf := range s.Fields {
		tag, tagged := sf.Tag.Lookup(TagName)
		if !tagged {
			continue
		}
		f, err := p.parseTag(s, sf, tag)
		if err != nil {
			return nil, fmt.Errorf("the tag %q of %s: %w", tag, sf.Name, err)
		}
		fields = append(fields, f)
	}
	for i := range s.ModelType.NumField() {
		outer := s.ModelType.Field(i)
		column := s.LookUpField(outer.Name)
		if _, tagged := outer.Tag.Lookup(TagName); tagged && (column == nil || column.DBName == "") {
			return nil, fmt.Errorf("the tag of %s, which is no column: tag the field of the key", outer.Name)
		}
	}
	p.fields.Store(s, fields)
	return fields, nil
}

func (p *Plugin) parseTag(s *schema.Schema, sf *schema.Field, tag string) (field, error) {
	f := field{Field: sf}
	switch kind, rest, _ := strings.Cut(tag, ":"); {
	case kind == "segment" && rest != "":
		end := strings.LastIndexByte(rest, ':')
		if f.other = s.FieldsByName[rest[end+1:]]; end < 1 || f.other == nil {
			f.source, f.other = p.client.Segment(rest), nil
			break
		}
		tag := p.client.Segment(rest[:end])
		f.next = func(ctx context.Context, key string) (int64, error) { return tag.ForText(key).Next(ctx) }
	case tag == "snowflake":
		f.source = p.client.Snowflake()
	case tag == "uid":
		f.source = p.client.UID()
	case kind == "queue":
		app, name, _ := strings.Cut(rest, ":")
		id, err := strconv.ParseUint(app, 10, 8)
		name, sharded := strings.CutPrefix(name, "shard:")
		f.other = s.LookUpField(name)
		if err != nil || f.other == nil || !sharded && f.other.IndirectFieldType.Kind() != reflect.String {
			return f, fmt.Errorf("write queue:<appId>:<Field> with an appId of 0…255 and a string field of %s, or "+
				"queue:<appId>:shard:<Field> with a number", s.Name)
		}
		queue := p.client.Queue(uint8(id))
		f.next = queue.Next
		if sharded {
			f.next = func(ctx context.Context, key string) (int64, error) {
				n, err := idtext.ShardKey(key)
				if err != nil {
					return 0, err
				}
				return queue.Shard(n).Next(ctx)
			}
		}
	default:
		return f, fmt.Errorf("write segment:<tag>, segment:<tag>:<Field>, snowflake, uid, queue:<appId>:<Field> or " +
			"queue:<appId>:shard:<Field>")
	}
	switch kind := sf.FieldType.Kind(); kind {
	case reflect.String, reflect.Int64, reflect.Uint64:
		return f, nil
	default:
		return f, fmt.Errorf("the field is of the kind %v: an ID needs an int64, a uint64 or a string", kind)
	}
}

// fill gives an ID to each of the rows that has none, and can have one unless it is late.
func (f *field) fill(ctx context.Context, rows reflect.Value, late bool) error {
	var empty []reflect.Value
	add := func(row reflect.Value) error {
		if row = reflect.Indirect(row); row.Kind() != reflect.Struct {
			return fmt.Errorf("%w: a row is a struct", gorm.ErrInvalidData)
		}
		if _, zero := f.ValueOf(ctx, row); !zero {
			return nil
		}
		if f.other != nil && !late {
			if _, unset := f.other.ValueOf(ctx, row); unset {
				return nil
			}
		}
		empty = append(empty, row)
		return nil
	}
	if kind := rows.Kind(); kind == reflect.Slice || kind == reflect.Array {
		for i := range rows.Len() {
			if err := add(rows.Index(i)); err != nil {
				return err
			}
		}
	} else if err := add(rows); err != nil {
		return err
	}
	ids, err := f.idsFor(ctx, empty)
	for i := 0; i < len(ids) && err == nil; i++ {
		err = f.Set(ctx, empty[i], ids[i]) // which writes a text where the field is one
	}
	return err
}

// idsFor is an ID for each row.
func (f *field) idsFor(ctx context.Context, rows []reflect.Value) ([]int64, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	if f.source != nil {
		return f.source.Take(ctx, len(rows))
	}
	ids := make([]int64, len(rows))
	for i, row := range rows {
		other, err := textOf(ctx, f.other, row)
		if err != nil {
			return nil, err
		}
		if ids[i], err = f.next(ctx, other); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// textOf is the whole number or the text of a field, which may be a pointer to one, or a driver.Valuer such as
// sql.NullInt64.
func textOf(ctx context.Context, f *schema.Field, row reflect.Value) (string, error) {
	given, _ := f.ValueOf(ctx, row)
	value := reflect.Indirect(reflect.ValueOf(given))
	if value.IsValid() {
		if valuer, is := value.Interface().(driver.Valuer); is {
			stored, err := valuer.Value()
			if err != nil {
				return "", fmt.Errorf("%s: %w", f.Name, err)
			}
			value = reflect.ValueOf(stored)
		}
	}
	switch {
	case !value.IsValid():
		return "", fmt.Errorf("set %s before the row is created: its ID is made by it", f.Name)
	case value.CanInt():
		return strconv.FormatInt(value.Int(), 10), nil
	case value.CanUint():
		return strconv.FormatUint(value.Uint(), 10), nil
	case value.Kind() == reflect.String:
		return value.String(), nil
	default:
		return "", fmt.Errorf("name a field with a whole number or a text: %s is of the type %v", f.Name, value.Type())
	}
}
