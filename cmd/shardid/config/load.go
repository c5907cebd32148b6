package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"shardid/model"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	defaultFile = "config.yaml" // is read when it exists and no other is named
	envPrefix   = "SHARDID_"    // begins every variable
	setFlag     = "set"         // the name of the flag that sets a key
	fromFlag    = "flag --set"
)

// Loaded is a configuration and where each key of it is from.
type Loaded struct {
	Config
	Keys []*Key // in the order of the struct
	File string // that was read; "" for none

	problems []error
}

// Defaults is what holds where no source says otherwise; it is valid.
func Defaults() *Loaded {
	l := &Loaded{}
	l.Keys = appendKeys(nil, "", reflect.ValueOf(&l.Config).Elem())
	return l
}

// AddFlags registers --config and --set.
func AddFlags(fs *pflag.FlagSet) {
	fs.String("config", defaultFile, "configuration `FILE`; the default may be missing")
	fs.StringArray(setFlag, nil, "set a key of config.yaml, as `KEY=VALUE`, over the file and the environment; "+
		"may be repeated, and the last one of a key counts")
}

// Load is the configuration from the defaults, the file that --config names, environ (as
// os.Environ gives it) and --set, each over the one before, checked as
// a whole. flags are those of AddFlags after parsing. The error has a line for each problem,
// which says what to do and names the source and the key; it never holds the value of a
// secret.
func Load(flags *pflag.FlagSet, environ []string) (*Loaded, error) {
	l := Defaults()
	file := flags.Lookup("config")
	data, err := os.ReadFile(file.Value.String())
	var path *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist) && !file.Changed: // the default file may be missing
	case errors.As(err, &path):
		l.note(fmt.Errorf("%w: %s: cannot be read: %w", model.Do("name a file that this user may read"), file.Value,
			path.Err))
	default:
		l.File = file.Value.String()
		l.readFile(data)
	}
	l.readEnv(environ)
	settings, _ := flags.GetStringArray(setFlag) // it is such a flag
	for _, setting := range settings {
		l.readSetting(setting)
	}
	if l.check(); len(l.problems) > 0 {
		return nil, errors.Join(l.problems...)
	}
	return l, nil
}

func (l *Loaded) note(problem error) {
	l.problems = append(l.problems, errors.New(model.Message(problem)))
}

// key is the key of a path; nil for none.
func (l *Loaded) key(path string) *Key {
	i := slices.IndexFunc(l.Keys, func(k *Key) bool { return k.Path == path })
	if i < 0 {
		return nil
	}
	return l.Keys[i]
}

// setKey sets a key, unless reading its text failed already. A value that cannot be read is not
// checked any further.
func (l *Loaded) setKey(k *Key, from, text string, err error) {
	k.From, k.unread = from, false
	if err == nil {
		err = k.set(text)
	}
	if err != nil {
		k.unread = true
		l.note(k.fail(err))
	}
}

// readFile reads the keys of the file. An error of the library shows no text of the file, which may be a secret.
func (l *Loaded) readFile(data []byte) {
	file, err := parser.ParseBytes(bytes.TrimPrefix(data, []byte("\uFEFF")), 0, parser.AllowDuplicateMapKey())
	switch syntax, ok := errors.AsType[yaml.Error](err); {
	case bytes.IndexByte(data, 0) >= 0:
		l.note(fmt.Errorf("%w: %s: is no UTF-8, and perhaps UTF-16, as PowerShell writes it",
			model.Do("save the file as UTF-8"), l.File))
	case ok:
		problem := regexp.MustCompile(`"[^"]*"|'[^']*'`).ReplaceAllString(syntax.GetMessage(), "…")
		l.note(fmt.Errorf("%w: %s: is not YAML: %s", model.Do("check indentation (by spaces, not tabs), colons and "+
			"quotes around this line"), l.at(syntax.GetToken()), problem))
	case err != nil:
		l.note(fmt.Errorf("%w: %s: is not YAML", model.Do("write the keys as config.yaml has them"), l.File))
	case len(file.Docs) > 1:
		begins := file.Docs[1].Start
		if begins == nil { // it follows the end of the first one, ...
			begins = file.Docs[1].GetToken()
		}
		l.note(fmt.Errorf("%w: %s: begins a second document", model.Do("keep one, without ---"), l.at(begins)))
	default:
		l.readSection("", file.Docs[0].Body)
	}
}

// at is file and line for messages.
func (l *Loaded) at(t *token.Token) string { return fmt.Sprintf("%s:%d", l.File, t.Position.Line) }

// readSection reads the keys of a mapping of the file; prefix is "" or its path and a dot.
func (l *Loaded) readSection(prefix string, node ast.Node) {
	mapping, ok := node.(*ast.MappingNode)
	switch {
	case node == nil || node.Type() == ast.NullType: // a section may have all its keys in comments
		return
	case !ok:
		l.note(fmt.Errorf("%w: %s: %s has no keys", model.Do("write the keys on the lines below their section, "+
			"indented"),
			l.at(node.GetToken()), cmp.Or(strings.TrimSuffix(prefix, "."), "the file")))
		return
	}
	isSection := func(path string) bool {
		return slices.ContainsFunc(l.Keys, func(k *Key) bool { return strings.HasPrefix(k.Path, path+".") })
	}
	seen := map[string]bool{}
	for _, pair := range mapping.Values {
		name, _ := textOf(pair.Key, reflect.String)
		path, at := prefix+name, l.at(pair.Key.GetToken())
		switch k := l.key(path); {
		case seen[name]:
			l.note(fmt.Errorf("%w: %s: %s: is there twice", model.Do("keep one"), at, prefix+showName(name)))
		case k != nil && !strings.Contains(name, "."):
			text, ok := textOf(pair.Value, k.value.Kind())
			l.setKey(k, at, text, unless(ok, "write text in quotes, or what config.yaml of the release shows, or "+
				"remove the line for the default", "is no value of this key"))
		case k == nil && isSection(path):
			l.readSection(path+".", pair.Value)
		default:
			l.note(l.unknown(at+": "+prefix+showName(name), path))
		}
		seen[name] = true
	}
}

// textOf is a value of the file as a variable has it, for a key of a kind: a text, a number or a boolean as it was
// written, a list with commas, a map as key=value with commas.
func textOf(node ast.Node, kind reflect.Kind) (text string, ok bool) {
	var items []string
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	case *ast.SequenceNode:
		ok = kind == reflect.Slice
		for _, value := range n.Values {
			item, isText := textOf(value, reflect.String)
			items, ok = append(items, item), ok && isText
		}
	case *ast.MappingNode:
		ok = kind == reflect.Map
		for _, pair := range n.Values {
			key, isKey := textOf(pair.Key, reflect.String)
			value, isValue := textOf(pair.Value, reflect.String)
			items, ok = append(items, key+"="+value), ok && isKey && isValue
		}
	}
	return strings.Join(items, ","), ok
}

// unknown is the error of a name that is no key, which place shows in a form that holds no secret. It tells the keys
// that are like it, or else those of its section.
func (l *Loaded) unknown(place, name string) error {
	section := regexp.MustCompile(`^(` + envPrefix + `)?[A-Za-z]+[._]`).FindString(name)
	if section == envPrefix {
		section = ""
	}
	var all, ofSection, below []string // below is a section that the name left out
	for _, k := range l.Keys {
		known := k.Path
		if strings.HasPrefix(name, envPrefix) {
			known = k.Env()
		}
		if all = append(all, known); section != "" && strings.HasPrefix(known, section) {
			ofSection = append(ofSection, known)
		}
		if strings.HasSuffix(known, "."+name) {
			below = append(below, known)
		}
	}
	do := "see shardid serve --help for all keys, and CHANGELOG.md for those of 0.3"
	if near := append(Nearest(name, all), below...); slices.Contains(near, name) {
		do = "write the key on a line of its own, indented below " + strings.TrimSuffix(section, ".")
	} else if len(near) > 0 {
		do = "did you mean " + strings.Join(near, " or ")
	} else if ofSection != nil {
		do = "use " + strings.Join(ofSection, ", ") + ", or see CHANGELOG.md for the keys of 0.3"
	}
	return fmt.Errorf("%w: %s: unknown key", model.Remedy(do), place)
}

// Nearest are those of some names that a typed one may mean.
func Nearest(typed string, names []string) []string {
	known := cobra.Command{SuggestionsMinimumDistance: max(2, len(typed)/6)} // so many letters are wrong
	if typed == "" {
		return nil
	}
	for _, name := range names {
		known.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	return known.SuggestionsFor(typed)
}

// ofClients are variables of the programs in docs/examples, which may run beside the server, and
// what shardid lease tells its command, which may be a shardid.
var ofClients = []string{
	envPrefix + "URLS", envPrefix + "TOKEN",
	envPrefix + "WORKER_ID", envPrefix + "EPOCH", envPrefix + "WORKER_BITS", envPrefix + "SEQ_BITS",
	envPrefix + "SHARD_BITS",
}

// ofKubernetes are variables that it makes in every pod for each service, shardid itself and those called shardid-….
// See https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables.
var ofKubernetes = regexp.MustCompile(`^SHARDID_(\w+_)?(SERVICE_HOST=|SERVICE_PORT(_\w+)?=|` +
	`PORT_\d+_(TCP|UDP|SCTP)(_\w+)?=|PORT=(tcp|udp|sctp)://)`)

func (l *Loaded) readEnv(environ []string) {
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		from := "environment " + showName(name)
		i := slices.IndexFunc(l.Keys, func(k *Key) bool { return k.Env() == name })
		switch {
		case i >= 0:
			l.setKey(l.Keys[i], from, value, nil)
		case strings.HasPrefix(name, envPrefix) && !slices.Contains(ofClients, name) &&
			!ofKubernetes.MatchString(entry):
			l.note(l.unknown(from, name))
		}
	}
}

// readSetting reads one --set. It takes no secret, because every user of the machine can read the
// command line.
func (l *Loaded) readSetting(setting string) {
	path, text, found := strings.Cut(setting, "=")
	k := l.key(path)
	switch {
	case k == nil:
		l.note(l.unknown(fromFlag+": "+showName(path), path))
	case !found:
		l.note(fmt.Errorf("%w: %s: %s: has no value", model.Do("write --set %s=VALUE", path), fromFlag, path))
	case k.Secret:
		l.note(fmt.Errorf("%w: %s: %s: is a secret, which every user of the machine could read here",
			model.Do("set %s instead", k.Env()), fromFlag, path))
	default:
		l.setKey(k, fromFlag, text, nil)
	}
}

// show quotes a value for a message: short, on one line, and not at all when
// it may carry credentials, as in user:password@host.
func show(text string) string {
	if strings.Contains(text, "@") {
		return "the value"
	}
	return fmt.Sprintf("%.60q", text)
}

// showName is the part of an unknown name that reads like one; what follows,
// as in password:hunter2 without the space, may be a secret.
func showName(name string) string {
	shown := regexp.MustCompile(`^[A-Za-z0-9_.-]{0,60}`).FindString(name)
	if shown != name {
		shown += "…"
	}
	return shown
}
