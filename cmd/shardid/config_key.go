package main

import (
	"encoding"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// configKey is one leaf of a Config: what a line of the file, a variable or a
// flag sets.
type configKey struct {
	path  string // dotted, as in the contract: server.addr
	value reflect.Value
	tag   reflect.StructTag
	std   string // the default, for messages
}

// configKeys lists the leaves of c in the order of the struct. It is the only
// walk over Config; the keys write through to c.
func configKeys(c *Config) []configKey {
	return appendKeys(nil, "", reflect.ValueOf(c).Elem())
}

func appendKeys(keys []configKey, prefix string, section reflect.Value) []configKey {
	for i := range section.NumField() {
		field, value := section.Type().Field(i), section.Field(i)
		path := prefix + field.Tag.Get("yaml")
		_, leaf := value.Addr().Interface().(encoding.TextUnmarshaler)
		if value.Kind() == reflect.Struct && !leaf {
			keys = appendKeys(keys, path+".", value)
			continue
		}
		keys = append(keys, configKey{path: path, value: value, tag: field.Tag, std: fmt.Sprint(value)})
	}
	return keys
}

// env is the environment variable of the key.
func (k configKey) env() string {
	return envPrefix + "_" + strings.ToUpper(strings.ReplaceAll(k.path, ".", "_"))
}

func (k configKey) secret() bool { return k.tag.Get("secret") == "true" }

// many says whether the key holds a list or a map.
func (k configKey) many() bool {
	return k.value.Kind() == reflect.Slice || k.value.Kind() == reflect.Map
}

// set reads the text of a variable or flag, or a scalar of the file.
func (k configKey) set(text string) error {
	switch p := k.value.Addr().Interface().(type) {
	case encoding.TextUnmarshaler:
		return p.UnmarshalText([]byte(text))
	case *[]string:
		*p = splitList(text)
		return nil
	case *map[string]int:
		return setPairs(p, splitList(text))
	default:
		return setScalar(p, text)
	}
}

func setScalar(target any, text string) (err error) {
	want := "a whole number: write decimal digits without a leading 0"
	switch p := target.(type) {
	case *string:
		*p = text
	case *bool:
		*p, err = strconv.ParseBool(text)
		want = "a boolean: write true or false"
	case *int:
		var n int64
		n, err = parseInt(text, strconv.IntSize)
		*p = int(n)
	case *int64:
		*p, err = parseInt(text, 64)
	case *float64:
		*p, err = strconv.ParseFloat(text, 64)
		want = "a number: write it like 0.2"
	case *time.Duration:
		*p, err = time.ParseDuration(text)
		want = "a duration: write a number with its unit, such as 500ms, 2s or 5m"
	default:
		return fmt.Errorf("has the type %T, which the loader does not know: report this", target)
	}
	if errors.Is(err, strconv.ErrRange) {
		want = "small enough: write a number of fewer digits"
	}
	if err != nil {
		return fmt.Errorf("%s is not %s", show(text), want)
	}
	return nil
}

// parseInt reads decimal digits; 010, which YAML takes for octal, is refused.
func parseInt(text string, bits int) (int64, error) {
	if digits := strings.TrimLeft(text, "+-"); len(digits) > 1 && digits[0] == '0' {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseInt(text, 10, bits)
}

// setPairs reads key=value texts; the last '=' splits, a key comes once.
func setPairs(target *map[string]int, pairs []string) error {
	m := make(map[string]int, len(pairs))
	for _, pair := range pairs {
		at := strings.LastIndexByte(pair, '=')
		if at < 0 {
			return fmt.Errorf("%s is not a pair: write key=value, several separated by commas", show(pair))
		}
		name := strings.TrimSpace(pair[:at])
		if _, twice := m[name]; twice {
			return fmt.Errorf("%s is there twice: keep one", show(name))
		}
		var number int
		if err := setScalar(&number, strings.TrimSpace(pair[at+1:])); err != nil {
			return err
		}
		m[name] = number
	}
	*target = nil
	if len(m) > 0 {
		*target = m
	}
	return nil
}

// splitList cuts a variable or flag at its commas; an empty one is no list.
func splitList(text string) []string {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	items := strings.Split(text, ",")
	for i := range items {
		items[i] = strings.TrimSpace(items[i])
	}
	return items
}

// texts are the texts of a key that its format is about: itself, the items of
// a list, the sorted keys of a map.
func (k configKey) texts() []string {
	switch v := k.value.Interface().(type) {
	case string:
		return []string{v}
	case []string:
		return v
	case map[string]int:
		return slices.Sorted(maps.Keys(v))
	default:
		return nil
	}
}

// numbers are the values of a key that its range is about, as text in the
// key's own unit: itself, or the values of a map. A switched off interval has
// none.
func (k configKey) numbers() []string {
	switch v := k.value.Interface().(type) {
	case map[string]int:
		var all []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			all = append(all, strconv.Itoa(v[name]))
		}
		return all
	case Interval:
		if v == 0 {
			return nil
		}
	}
	return []string{fmt.Sprint(k.value)}
}
