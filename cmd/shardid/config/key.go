package config

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"shardid/model"
)

// Key is one key of a Config: what a line of the file, a variable or --set sets.
type Key struct {
	Path    string // dotted: server.addr
	Default string // as a person writes it
	Secret  bool   // the value appears in no message, and --set does not take it
	From    string // "default", "config.yaml:12", "environment SHARDID_LOG_LEVEL" or "flag --set"

	value  reflect.Value // in the Config
	rule   string        // what the value is, see Config
	unread bool          // what From says could not be read
}

// appendKeys lists the leaves of a section in the order of the struct, with their
// defaults in place. It is the only walk over Config; the keys write through to it.
func appendKeys(keys []*Key, prefix string, section reflect.Value) []*Key {
	for i := range section.NumField() {
		field, value := section.Type().Field(i), section.Field(i)
		name := field.Tag.Get("yaml")
		switch {
		case name == ",inline":
			keys = appendKeys(keys, prefix, value)
		case value.Kind() == reflect.Struct && value.Type() != reflect.TypeFor[time.Time]():
			keys = appendKeys(keys, prefix+name+".", value)
		default:
			k := &Key{Path: prefix + name, From: "default", Secret: field.Tag.Get("secret") == "true",
				value: value, rule: field.Tag.Get("is")}
			if std, ok := field.Tag.Lookup("default"); ok {
				if err := k.set(std); err != nil {
					panic(fmt.Sprintf("the default of %s: %v", k.Path, err)) // tests load the defaults
				}
			}
			k.Default = cmp.Or(field.Tag.Get("default"), fmt.Sprint(value))
			keys = append(keys, k)
		}
	}
	return keys
}

// Env is the environment variable of the key.
func (k *Key) Env() string { return envPrefix + strings.ToUpper(strings.ReplaceAll(k.Path, ".", "_")) }

// fail is an error about the key: where its value is from, the key, and what is wrong.
func (k *Key) fail(err error) error { return fmt.Errorf("%s: %s: %w", k.From, k.Path, err) }

// set reads a text, which is written alike in the file, in a variable and behind --set: lists with
// commas, maps as key=value with commas, or as JSON like Leaf's workIdMap.
func (k *Key) set(text string) (err error) {
	kind, do := "", model.Remedy("")
	switch p := k.value.Addr().Interface().(type) {
	case *string:
		*p = text
	case *[]string:
		*p = splitItems(text)
	case *map[string]int:
		*p, err = readPairs(splitItems(strings.Trim(text, "{} \t\r\n")))
		return err
	case *bool:
		kind, do = "a boolean", "write true or false"
		*p, err = strconv.ParseBool(text)
	case *time.Duration:
		kind, do = "a duration", "write a number with its unit, such as 500ms, 2s or 5m"
		if *p = 0; text != "off" {
			*p, err = time.ParseDuration(text)
		}
	case *time.Time: // a day, at midnight UTC, or an instant of whole seconds
		kind, do = "a date", "write YYYY-MM-DD, or with time and zone 2016-05-20T00:00:00+08:00"
		at, failed := time.Parse(time.DateOnly, text)
		if failed != nil {
			at, err = time.Parse(time.RFC3339, text)
		}
		if *p = at.UTC(); at.Nanosecond() != 0 {
			err = errors.New("a fraction of a second")
		}
	default: // int or int64
		kind, do = "a whole number", "write decimal digits"
		var n int64
		n, err = strconv.ParseInt(text, 10, k.value.Type().Bits())
		k.value.SetInt(n)
	}
	if err != nil {
		return fmt.Errorf("%w: %s is not %s", do, show(text), kind)
	}
	return nil
}

func splitItems(text string) []string {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	return regexp.MustCompile(`\s*,\s*`).Split(strings.TrimSpace(text), -1)
}

// pair is a key with a number, in a variable or in JSON.
var pair = regexp.MustCompile(`^\s*(?:"(.*)"\s*:|"?(.*?)"?\s*=)\s*(-?\d+)\s*$`)

// readPairs reads key=value or "key":value texts, of which a key comes once.
func readPairs(items []string) (pairs map[string]int, err error) {
	for _, item := range items {
		parts := pair.FindStringSubmatch(item)
		if parts == nil {
			return nil, fmt.Errorf("%w: %s is not a key with a whole number",
				model.Do(`write ip:port=1 in a variable and {"ip:port": 1} in the file`), show(item))
		}
		key := parts[1] + parts[2]
		if _, twice := pairs[key]; twice {
			return nil, fmt.Errorf("%w: %s is there twice", model.Do("keep one"), show(key))
		}
		if pairs == nil {
			pairs = map[string]int{}
		}
		if pairs[key], err = strconv.Atoi(parts[3]); err != nil {
			return nil, fmt.Errorf("%w: %s", model.Do("write a number in range"), show(item))
		}
	}
	return pairs, nil
}
