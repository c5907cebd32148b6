// Package javaconf makes a config.yaml of the configuration files of the Java services that
// shardid takes over from: leaf.properties of Leaf and of NotFound9's fork, the Spring XML
// and mysql.properties of UidGenerator, and application.yml of a Redis-queue service.
package javaconf

import (
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"shardid/cmd/shardid/config"
	"shardid/service/access"
	"shardid/service/yamlfile"

	"github.com/magiconair/properties"
	"go.yaml.in/yaml/v3"
)

// ErrUnknown says that a file is none of those that are known.
var ErrUnknown = errors.New("it is no file that is known: those are leaf.properties (Leaf and NotFound9's fork), " +
	"default-uid-spring.xml, cached-uid-spring.xml and mysql.properties (UidGenerator), " +
	"and application.yml with spring.datasource and spring.redis (a Redis-queue service)")

// Options say how a file is read.
type Options struct {
	// Zone is that of the JVM, in which UidGenerator's epochStr is midnight.
	Zone *time.Location
	// Getenv looks up a variable that stands in the place of a value, as ${NAME}.
	Getenv func(name string) (value string, found bool)
}

// Import gives the text of a config.yaml that says what the file of that name does, with a
// comment for each key that has no counterpart. Errors are one line, with the name of the
// file and never the value of a key.
func Import(name string, o Options) (string, error) {
	if err := access.Regular(name); err != nil {
		return "", err
	}
	data, err := yamlfile.Read(name)
	if err != nil {
		return "", err
	}
	text, err := convert(name, data, o)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return text, nil
}

func convert(name string, data []byte, o Options) (string, error) {
	settings, err := read(name, data)
	if err != nil {
		return "", err
	}
	d := &draft{Options: o, settings: settings, values: map[string]string{}}
	d.leaf()
	d.uid()
	d.spring()
	if err := errors.Join(d.problems...); err != nil {
		return "", errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	if !slices.ContainsFunc(d.settings, func(s setting) bool { return s.taken }) {
		return "", ErrUnknown
	}
	text := d.yaml(filepath.Base(name))
	if err := config.Check("config.yaml", []byte(text)); err != nil {
		return "", fmt.Errorf("what it says cannot be taken over as it is: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return text, nil
}

// read gives the keys of a file, by its content.
func read(name string, data []byte) ([]setting, error) {
	switch ext := strings.ToLower(filepath.Ext(name)); {
	case len(data) > yamlfile.MaxBytes:
		return nil, fmt.Errorf("it is larger than 1 MiB: %w", ErrUnknown)
	case !utf8.Valid(data):
		return nil, fmt.Errorf("it is not UTF-8 text: save it as UTF-8, if %w", ErrUnknown)
	case strings.HasPrefix(strings.TrimLeft(string(data), "\uFEFF \t\r\n"), "<"):
		return readXML(data)
	case ext == ".yml" || ext == ".yaml":
		return readYAML(data)
	}
	return readProperties(data)
}

// setting is a key of the file.
type setting struct {
	key, value string
	taken      bool // it has a counterpart
}

// draft is a config.yaml that is being made.
type draft struct {
	Options
	settings []setting
	values   map[string]string // by dotted key, as YAML
	notes    []string          // comments at the top
	problems []error
}

// plain is a key as Spring compares it: max-active is maxActive.
func plain(key string) string { return strings.ToLower(strings.ReplaceAll(key, "-", "")) }

// take gives the value of the first of some keys that has one, "" when none has.
func (d *draft) take(keys ...string) (value string) {
	for _, key := range keys {
		for i, s := range d.settings {
			if plain(s.key) != plain(key) {
				continue
			}
			d.settings[i].taken = true
			if value == "" {
				value = strings.TrimSpace(d.expand(s))
			}
		}
	}
	return value
}

// has says whether there is a key that begins so.
func (d *draft) has(prefixes ...string) bool {
	return slices.ContainsFunc(d.settings, func(s setting) bool {
		return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(plain(s.key), plain(prefix)) })
	})
}

var placeholder = regexp.MustCompile(`\$\{([^}:]*)(:[^}]*)?\}`)

// expand replaces ${NAME} and ${NAME:default} as Spring does.
func (d *draft) expand(s setting) string {
	return placeholder.ReplaceAllStringFunc(s.value, func(text string) string {
		parts := placeholder.FindStringSubmatch(text)
		value, found := d.Getenv(parts[1])
		if !found && parts[2] == "" {
			d.problems = append(d.problems, fmt.Errorf("%s holds %s: set that variable, as for the Java service", shown(s.key), shown(text)))
		}
		if !found {
			value = strings.TrimPrefix(parts[2], ":")
		}
		return value
	})
}

func (d *draft) note(key, text string) { d.notes = append(d.notes, shown(key)+": "+text) }

// text, number and boolean set a key where there is a value. Java takes anything but true for
// false; what is no number, config.Check refuses.
func (d *draft) text(path, value string) {
	if value != "" {
		d.values[path] = strconv.Quote(value)
	}
}

func (d *draft) number(path, value string) {
	if d.text(path, value); regexp.MustCompile(`^-?[0-9]{1,18}$`).MatchString(value) {
		d.values[path] = value
	}
}

func (d *draft) boolean(path, value string) {
	if value != "" {
		d.values[path] = strconv.FormatBool(strings.EqualFold(value, "true"))
	}
}

func (d *draft) list(path string, items []string) {
	quoted := make([]string, len(items))
	for i, item := range items {
		quoted[i] = strconv.Quote(item)
	}
	d.values[path] = "[" + strings.Join(quoted, ", ") + "]"
}

// yaml is the file: the notes, and the keys in the order of config.yaml.
func (d *draft) yaml(name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Made of %s by shardid config import. Check it with shardid config check.\n", shown(name))
	for _, s := range d.settings {
		if !s.taken {
			d.note(s.key, "no counterpart")
		}
	}
	for _, note := range d.notes {
		fmt.Fprintf(&b, "# %s\n", note)
	}
	var section []string // that is open
	for _, k := range config.Defaults().Keys {
		value, found := d.values[k.Path]
		if !found {
			continue
		}
		path := strings.Split(k.Path, ".")
		for i, name := range path[:len(path)-1] {
			if len(section) <= i || section[i] != name {
				fmt.Fprintf(&b, "%s%s:\n", strings.Repeat("  ", i), name)
				section = append(section[:i:i], name)
			}
		}
		section = section[:len(path)-1]
		indent := strings.Repeat("  ", len(section))
		if k.Secret {
			fmt.Fprintf(&b, "%s# A secret: it may be in the variable %s instead.\n", indent, k.Env())
		}
		fmt.Fprintf(&b, "%s%s: %s\n", indent, path[len(path)-1], value)
	}
	return b.String()
}

// shown is a name for a comment or a message: short, and on one line.
func shown(name string) string {
	const most = 80
	if len(name) > most {
		name = strings.ToValidUTF8(name[:most], "") + "…"
	}
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` {
		return quoted
	}
	return cmp.Or(name, `""`)
}

// Environment is Options.Getenv of this process, by the name or as Spring spells a variable:
// DB_HOST for db.host.
func Environment(name string) (string, bool) {
	if value, found := os.LookupEnv(name); found {
		return value, true
	}
	return os.LookupEnv(strings.ToUpper(strings.NewReplacer(".", "_", "-", "").Replace(name)))
}

// readProperties reads a file of Java properties.
func readProperties(data []byte) ([]setting, error) {
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	p, err := loader.LoadBytes(data)
	if err != nil {
		return nil, fmt.Errorf("it cannot be read as properties: %w", ErrUnknown) // the parser's words may quote a value
	}
	var all []setting
	for _, key := range p.Keys() {
		if value, _ := p.Get(key); !strings.HasPrefix(key, "//") { // a comment of the fork's instructions
			all = append(all, setting{key: key, value: value})
		}
	}
	return all, nil
}

// readYAML reads a file of YAML: a.b for b below a, and the items of a list with commas.
func readYAML(data []byte) ([]setting, error) {
	root, err := yamlfile.Parse("line", data)
	if err != nil {
		return nil, err
	}
	var all []setting
	if root != nil {
		flatten(&all, "", root, 0)
	}
	return all, nil
}

// deepest is how deep keys of Spring are nested, with room to spare.
const deepest = 20

func flatten(all *[]setting, path string, node *yaml.Node, depth int) {
	var items []string
	switch {
	case depth > deepest:
	case !yamlfile.Plain(node):
		*all = append(*all, setting{key: path + ", an anchor, alias or tag"})
	case node.Kind == yaml.ScalarNode && node.ShortTag() != "!!null":
		*all = append(*all, setting{key: path, value: node.Value})
	case node.Kind == yaml.MappingNode:
		for pair := range slices.Chunk(node.Content, 2) {
			flatten(all, strings.TrimPrefix(path+"."+pair[0].Value, "."), pair[1], depth+1)
		}
	case node.Kind == yaml.SequenceNode:
		for _, item := range node.Content {
			items = append(items, yamlfile.Text(item))
		}
		*all = append(*all, setting{key: path, value: strings.Join(items, ",")})
	}
}

// bean is one of Spring's XML.
type bean struct {
	ID         string     `xml:"id,attr"`
	Class      string     `xml:"class,attr"`
	Attributes []xml.Attr `xml:",any,attr"`
	Properties []struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
		Ref   string `xml:"ref,attr"`
		Text  string `xml:"value"`
	} `xml:"property"`
}

// The key of the generator's class, and what the class of the bean begins with that another
// one refers to.
const (
	generatorClass = "class"
	beanClass      = "class of the bean "
)

// readXML reads Spring's XML: the properties of the generator, those of other beans by their
// names, and the classes of all.
func readXML(data []byte) ([]setting, error) {
	var file struct {
		Beans []bean `xml:"bean"`
	}
	if err := xml.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("it cannot be read as XML: %w", ErrUnknown)
	}
	var all []setting
	generator := slices.IndexFunc(file.Beans, func(b bean) bool { return strings.HasSuffix(b.Class, "UidGenerator") })
	for i, b := range file.Beans {
		prefix := b.ID + "."
		if i == generator {
			prefix = ""
			all = append(all, setting{key: generatorClass, value: b.Class})
		} else {
			all = append(all, setting{key: beanClass + b.ID, value: b.Class})
		}
		for _, p := range b.Properties {
			value := p.Value + p.Text
			if value == "" {
				value = p.Ref
			}
			all = append(all, setting{key: prefix + p.Name, value: value})
		}
		for _, a := range b.Attributes {
			if strings.HasSuffix(a.Name.Space, "/schema/p") {
				all = append(all, setting{key: prefix + strings.TrimSuffix(a.Name.Local, "-ref"), value: a.Value})
			}
		}
	}
	return all, nil
}
