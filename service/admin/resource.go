package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"shardid/model"
)

// Kind describes the things of a resource, for HTTP and for the command line.
type Kind struct {
	One    string  // what one is called: app
	Many   string  // what all are called, the field of JSON that has them: apps
	Path   string  // where they are below /admin
	Fields []Field // what can be said of one; the first names it
}

// Field is something that can be said of a thing: a field of a body in JSON, and a flag of the command line.
type Field struct {
	Name     string // in JSON
	Usage    string // for people, with what stands for the value in backquotes
	Value    Value
	Default  any // what a new thing has that does not say it, a string, int64 or bool; nil: the store knows
	Add, Set Need
}

// Need says whether a field is given to a call.
type Need int

// What a call needs of a field.
const (
	Never Need = iota // it is unknown there
	May
	Must
)

// Value is how a field is written in JSON.
type Value struct {
	Want string // such as "a whole number in 0…255"
	Zero any    // "", int64(0) or false: its type on the command line
	// Read takes a string, json.Number, bool or nil, and gives a string, int64 or bool; false for
	// what is not wanted.
	Read func(value any) (any, bool)
}

var (
	text  = Value{"a string", "", func(v any) (any, bool) { s, ok := v.(string); return s, ok }}
	yesNo = Value{"true or false", false, func(v any) (any, bool) { b, ok := v.(bool); return b, ok }}
	// instant is a time in Unix ms, a whole number or its digits in a string, as answers have it.
	instant = Value{"a time in Unix milliseconds, such as 1288834974657", int64(0), func(v any) (any, bool) {
		if number, ok := v.(json.Number); ok {
			v = number.String()
		}
		digits, _ := v.(string)
		n, err := strconv.ParseUint(digits, 10, 63)
		return int64(n), err == nil
	}}
	// hold is a duration that a lease of a name may have.
	hold = Value{"a duration in 5s…1h such as 60s", "", func(v any) (any, bool) {
		s, _ := v.(string)
		d, err := time.ParseDuration(s)
		return s, err == nil && model.CheckHold(d) == nil
	}}
)

// number is a whole number in low…high.
func number(low, high int64) Value {
	return Value{fmt.Sprintf("a whole number in %d…%d", low, high), int64(0), func(v any) (any, bool) {
		digits, _ := v.(json.Number)
		n, err := strconv.ParseInt(digits.String(), 10, 64)
		return n, err == nil && low <= n && n <= high
	}}
}

// oneOf is one of a few texts.
func oneOf(texts ...string) Value {
	return Value{strings.Join(texts, " or "), "", func(v any) (any, bool) {
		s, _ := v.(string)
		return s, slices.Contains(texts, s)
	}}
}

// Given is what was said of a thing: by the names of fields a string, an int64 or a bool each.
type Given map[string]any

// get is what was said of a field, or the zero value.
func get[T any](g Given, field string) (v T) {
	v, _ = g[field].(T)
	return v
}

// pointer is what was said of a field, nil if nothing was.
func pointer[T any](g Given, field string) *T {
	v, said := g[field].(T)
	if !said {
		return nil
	}
	return &v
}

// Resource administrates the things of one kind. A key is the text of the field that names a thing. Safe
// for concurrent use.
type Resource struct {
	Kind
	service *Service
	// check refuses, with model.ErrInvalidArgument, what cannot be a key. The functions below get keys
	// that passed.
	check   func(key string) error
	list    Lister
	show    func(ctx context.Context, key string) (any, error)
	create  func(ctx context.Context, given Given) (Done, error)
	change  func(ctx context.Context, key string, given Given, confirm string) (Done, error)
	remove  func(ctx context.Context, key, confirm string) (Done, error)
	replica *Replica // what takes a change over; nil for a kind that no replica has to take over
	counts  string   // from when on a change of such a kind counts
}

// List gives things whose name, of an app also whose ID, contains a text, as a slice: the first ones, limit at most.
// total is how many there are. Errors: *model.StoreError.
func (r Resource) List(ctx context.Context, search string, limit int) (things any, total int, err error) {
	return r.list(ctx, search, limit)
}

// Show gives a thing. Errors: model.ErrInvalidArgument, ErrUnknownApp and its like, *model.StoreError.
func (r Resource) Show(ctx context.Context, key string) (any, error) {
	if err := r.check(key); err != nil {
		return nil, err
	}
	return r.show(ctx, key)
}

// Add adds a thing, and says from when on it counts. One that was deleted before continues above what it had
// issued. given has the fields that Kind says. Errors: model.ErrInvalidArgument, ErrExists,
// ErrRefused, *model.StoreError.
func (r Resource) Add(ctx context.Context, by Actor, given Given) (thing any, effective string, err error) {
	whole := Given{}
	for _, f := range r.Fields {
		if v, said := given[f.Name]; said {
			whole[f.Name] = v
		} else if f.Default != nil {
			whole[f.Name] = f.Default
		}
	}
	key := fmt.Sprint(given[r.Fields[0].Name])
	return r.run(ctx, by, "create", key, given, func(ctx context.Context) (Done, error) { return r.create(ctx, whole) })
}

// Change changes a thing: only what is given. Errors: those of Show, model.ErrRefused for what would let an ID
// repeat.
func (r Resource) Change(
	ctx context.Context, by Actor, key string, given Given, confirm string,
) (thing any, effective string, err error) {
	if err := r.check(key); err != nil {
		return nil, "", err
	}
	if len(given) == 0 {
		var names []string
		for _, f := range r.Fields {
			if f.Set != Never {
				names = append(names, "`"+f.Name+"`")
			}
		}
		return nil, "", fmt.Errorf("%w: give some of %s: nothing is to be changed",
			model.ErrInvalidArgument, strings.Join(names, ", "))
	}
	return r.run(ctx, by, "change", key, given, func(ctx context.Context) (Done, error) {
		return r.change(ctx, key, given, confirm)
	})
}

// Delete deletes a thing whose name is given again, and gives what it was. What it issued is remembered: should
// it come back, it continues above that. Errors: those of Show, model.ErrRefused while it may be in use,
// model.ErrInvalidArgument without a name.
func (r Resource) Delete(ctx context.Context, by Actor, key, confirm string) (thing any, effective string, err error) {
	if err := r.check(key); err != nil {
		return nil, "", err
	}
	if confirm == "" { // an app that another program made may have no name, either
		return nil, "", fmt.Errorf("%w: confirm the deletion with the name of the %s, ?confirm=NAME: it is missing",
			model.ErrInvalidArgument, r.One)
	}
	return r.run(ctx, by, "delete", key, nil, func(ctx context.Context) (Done, error) {
		return r.remove(ctx, key, confirm)
	})
}

func (r Resource) run(ctx context.Context, by Actor, action, key string, asked Given,
	change func(context.Context) (Done, error)) (thing any, effective string, err error) {
	d, err := r.service.Do(ctx, by, r.One+"."+action, r.One+" "+key, asked, change)
	if err != nil {
		return nil, "", err
	}
	thing, effective = d.After, cmp.Or(d.counts, r.counts)
	if thing == nil {
		thing = d.Before
	}
	if r.replica != nil {
		effective = r.service.takeOver(ctx, *r.replica, key, d.Before == nil)
	}
	return thing, effective, nil
}

// Items shows things.
func Items[T, Item any](things []T, item func(T) Item) []Item {
	all := make([]Item, len(things)) // none is [], not null
	for i, thing := range things {
		all[i] = item(thing)
	}
	return all
}

// Lister is List of a Resource.
type Lister func(ctx context.Context, search string, limit int) (things any, total int, err error)

// listAll is list for a function of the store that reads all things, which have a name.
func listAll[T, Item any](all func(context.Context) ([]T, error), name func(T) string, item func(T) Item) Lister {
	return func(ctx context.Context, search string, limit int) (any, int, error) {
		things, err := all(ctx)
		if err != nil {
			return nil, 0, err
		}
		some, total := Among(things, name, search, limit)
		return Items(some, item), total, nil
	}
}

// Among gives those things whose name contains a text, in any case: the first ones by name, limit at most, and how many
// there are. It changes all.
func Among[T any](all []T, name func(T) string, search string, limit int) (some []T, total int) {
	search = strings.ToLower(search)
	all = slices.DeleteFunc(all, func(thing T) bool { return !strings.Contains(strings.ToLower(name(thing)), search) })
	slices.SortFunc(all, func(x, y T) int { return cmp.Compare(name(x), name(y)) }) // databases have other orders
	return all[:min(len(all), limit)], len(all)
}

// shower is show for a function of the store.
func shower[T, Item any](
	one func(context.Context, string) (T, error), item func(T) Item,
) func(context.Context, string) (any, error) {
	return func(ctx context.Context, key string) (any, error) {
		thing, err := one(ctx, key)
		return item(thing), err
	}
}

// remover is remove for a function of the store. It refuses, with model.ErrInvalidArgument, what is confirmed with
// another name.
func remover[T, Item any](
	kind Kind, remove func(context.Context, string) (T, error), item func(T) Item,
) func(context.Context, string, string) (Done, error) {
	return func(ctx context.Context, key, confirm string) (Done, error) {
		if key != confirm {
			return Done{}, fmt.Errorf("%w: confirm the deletion with the name of the %s, which is %q",
				model.ErrInvalidArgument, kind.One, key)
		}
		was, err := remove(ctx, key)
		return Done{Before: item(was)}, err
	}
}
