package config

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"shardid/service/yamlfile"

	"go.yaml.in/yaml/v3"
)

// Key is one key of a Config: what a line of the file, a variable or --set sets.
type Key struct {
	Path    string // dotted: server.addr
	Default string
	Secret  bool
	From    string // "default", "config.yaml:12", "environment SHARDID_LOG_LEVEL" or "flag --set log.level"

	value  reflect.Value // in the Config
	must   string        // the tag validate
	inFile bool          // From does not name the key
	unread bool          // what From says could not be read
}

// appendKeys lists the leaves of a section in the order of the struct, with their
// defaults in place. It is the only walk over Config; the keys write through to it.
func appendKeys(keys []*Key, prefix string, section reflect.Value) []*Key {
	for i := range section.NumField() {
		field, value := section.Type().Field(i), section.Field(i)
		name := field.Tag.Get("yaml")
		_, leaf := value.Addr().Interface().(encoding.TextUnmarshaler)
		switch {
		case name == ",inline":
			keys = appendKeys(keys, prefix, value)
		case value.Kind() == reflect.Struct && !leaf:
			keys = appendKeys(keys, prefix+name+".", value)
		default:
			k := &Key{Path: prefix + name, From: "default", Secret: field.Tag.Get("secret") == "true",
				value: value, must: field.Tag.Get("validate")}
			if std, ok := field.Tag.Lookup("default"); ok {
				if err := k.set(std); err != nil {
					panic(fmt.Sprintf("the default of %s: %v", k.Path, err)) // tests load the defaults
				}
			}
			k.Default = fmt.Sprint(value)
			keys = append(keys, k)
		}
	}
	return keys
}

// Env is the environment variable of the key.
func (k *Key) Env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(k.Path, ".", "_"))
}

// Value is the value for people; a secret is not shown.
func (k *Key) Value() string {
	if k.Secret && !k.value.IsZero() {
		return "(secret)"
	}
	return fmt.Sprint(k.value)
}

// many says whether the key holds a list or a map.
func (k *Key) many() bool { return k.value.Kind() == reflect.Slice || k.value.Kind() == reflect.Map }

// fail is an error about the key in one line: where its value is from, the key, what is
// wrong and what to do.
func (k *Key) fail(problem string) error {
	if k.inFile {
		return fmt.Errorf("%s: %s: %s", k.From, k.Path, problem)
	}
	return fmt.Errorf("%s: %s", k.From, problem)
}

// set reads the text of a variable or of --set, or a scalar of the file.
func (k *Key) set(text string) (err error) {
	want := ""
	switch p := k.value.Addr().Interface().(type) {
	case encoding.TextUnmarshaler:
		return p.UnmarshalText([]byte(text))
	case *[]string, *map[string]int:
		var items []string
		if strings.HasPrefix(strings.TrimSpace(text), "{") && k.value.Kind() == reflect.Map {
			return k.setMap(text)
		}
		if strings.TrimSpace(text) != "" {
			items = regexp.MustCompile(`\s*,\s*`).Split(strings.TrimSpace(text), -1)
		}
		return k.setItems(items)
	case *string:
		*p = text
	case *bool:
		want = "a boolean: write true or false"
		*p, err = strconv.ParseBool(text)
	case *float64:
		want = "a number: write it like 0.2"
		*p, err = strconv.ParseFloat(text, 64)
	case *time.Duration:
		want = "a duration: write a number with its unit, such as 500ms, 2s or 5m"
		*p, err = time.ParseDuration(text)
	default: // int or int64
		var n int64
		n, err = parseInt(text, k.value.Type().Bits())
		k.value.SetInt(n)
		return err
	}
	if err != nil {
		return fmt.Errorf("%s is not %s", show(text), want)
	}
	return nil
}

// setMap reads a map as it is in the file, {"ip:port": number}, which JSON is too.
func (k *Key) setMap(text string) error {
	node, err := yamlfile.Parse(k.Path, []byte(text))
	if err != nil || node == nil {
		return errors.New(`is no map: write {"ip:port": number}`)
	}
	return k.setNode(node)
}

// parseInt reads decimal digits; 010, which YAML takes for octal, is refused.
func parseInt(text string, bits int) (int64, error) {
	n, err := strconv.ParseInt(text, 10, bits)
	digits := strings.TrimLeft(text, "+-")
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("%s is not small enough: write a number of fewer digits", show(text))
	case err != nil || len(digits) > 1 && digits[0] == '0':
		return 0, fmt.Errorf("%s is not a whole number: write decimal digits without a leading 0", show(text))
	}
	return n, nil
}

// setItems sets a list, or a map from key=value texts, of which the last '=' splits and
// a key comes once.
func (k *Key) setItems(items []string) error {
	if list, ok := k.value.Addr().Interface().(*[]string); ok {
		*list = items
		return nil
	}
	pairs := map[string]int{}
	for _, item := range items {
		at := strings.LastIndexByte(item, '=')
		if at < 0 {
			return fmt.Errorf("%s is not a pair: write key=value, several separated by commas", show(item))
		}
		name := strings.TrimSpace(item[:at])
		if _, twice := pairs[name]; twice {
			return fmt.Errorf("%s is there twice: keep one", show(name))
		}
		number, err := parseInt(strings.TrimSpace(item[at+1:]), strconv.IntSize)
		if err != nil {
			return err
		}
		pairs[name] = int(number)
	}
	k.value.SetZero()
	if len(pairs) > 0 {
		k.value.Set(reflect.ValueOf(pairs))
	}
	return nil
}

// What a value of the file can be.
const (
	isText    = "text"
	isNumber  = "a number"
	isBoolean = "a boolean"
	isMap     = "a map"
	isList    = "a list"
	isEmpty   = "empty"
	isOther   = "an anchor, alias or tag"
)

func kindOf(node *yaml.Node) string {
	if !yamlfile.Plain(node) {
		return isOther
	}
	return cmp.Or(map[string]string{
		"!!str": isText, "!!timestamp": isText, "!!int": isNumber, "!!float": isNumber,
		"!!bool": isBoolean, "!!map": isMap, "!!seq": isList, "!!null": isEmpty,
	}[node.ShortTag()], isOther)
}

// setNode reads the value of a key from the file. Unlike a variable, it has a type of its
// own, which must be the key's.
func (k *Key) setNode(node *yaml.Node) error {
	want, name, advice := isText, "", "write it like "+k.Default
	switch k.value.Interface().(type) {
	case string:
		advice = "write one text, in quotes"
	case bool:
		want, advice = isBoolean, "write true or false"
	case int, int64, float64:
		want = isNumber
	case time.Duration:
		name = "a duration"
	case Interval:
		name, advice = "an interval", "write off or a number with its unit such as 5m"
	case Date:
		name = "a date"
	case []string:
		want, advice = isList, `write ["host:port", "host:port"]`
	case map[string]int:
		want, advice = isMap, `write {"ip:port": number}`
	}
	var items []string
	switch found := kindOf(node); {
	case found == isEmpty:
		return errors.New("is empty: write a value, or remove the line for the default")
	case found == isOther:
		return errors.New("is " + isOther + ": write the value itself")
	case want == isNumber && found == isText && node.Style == 0: // without quotes: set refuses it
		return k.set(node.Value)
	case found != want:
		return fmt.Errorf("is %s, not %s: %s", found, cmp.Or(name, want), advice)
	case want == isList:
		for _, item := range node.Content {
			if kind := kindOf(item); kind != isText {
				return fmt.Errorf("holds %s where text belongs: %s", kind, advice)
			}
			items = append(items, item.Value)
		}
		return k.setItems(items)
	case want == isMap:
		for pair := range slices.Chunk(node.Content, 2) {
			if kindOf(pair[0]) != isText || kindOf(pair[1]) != isNumber {
				return errors.New("holds something else than text with a whole number: " + advice)
			}
			items = append(items, pair[0].Value+"="+pair[1].Value)
		}
		return k.setItems(items)
	}
	return k.set(node.Value)
}

// Date is a day, written 2026-01-01, whose time is midnight UTC, or an instant,
// written 2016-05-20T00:00:00+08:00.
type Date struct{ time.Time }

// UnmarshalText reads YYYY-MM-DD or an RFC 3339 instant of whole seconds.
func (d *Date) UnmarshalText(text []byte) error {
	t, err := time.Parse(time.DateOnly, string(text))
	if err != nil {
		t, err = time.Parse(time.RFC3339, string(text))
	}
	if err != nil || t.Nanosecond() != 0 {
		return fmt.Errorf("%s is not a date: write it as YYYY-MM-DD, or with time and zone as 2016-05-20T00:00:00+08:00",
			show(string(text)))
	}
	d.Time = t.UTC()
	return nil
}

// String is the day, or the instant when it is not midnight UTC.
func (d Date) String() string {
	if d.Equal(d.Truncate(24 * time.Hour)) {
		return d.Format(time.DateOnly)
	}
	return d.Format(time.RFC3339)
}

// Interval is a duration that may be off, which is 0.
type Interval time.Duration

// UnmarshalText reads off or a duration; 0s is refused in favour of off.
func (i *Interval) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if off := string(text) == "off"; !off && (err != nil || d == 0) {
		return fmt.Errorf("%s is not an interval: write off, or a number with its unit such as 5m",
			show(string(text)))
	}
	*i = Interval(d)
	return nil
}

// String is off or the duration.
func (i Interval) String() string {
	if i == 0 {
		return "off"
	}
	return time.Duration(i).String()
}
