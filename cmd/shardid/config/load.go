package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"shardid/service/yamlfile"

	"github.com/goccy/go-yaml/ast"
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
	fs.StringArray(setFlag, nil, "`KEY=VALUE` sets a key of config.yaml, over the file and the environment; "+
		"it may be repeated, and the last one of a key counts")
}

// Load is the configuration from the defaults, the file that --config names, environ (as
// os.Environ gives it) and --set, each over the one before, checked as
// a whole. flags are those of AddFlags after parsing. The error has a line for each problem,
// which names the source and the key and says what to do; it never holds the value of a
// secret.
func Load(flags *pflag.FlagSet, environ []string) (*Loaded, error) {
	l := Defaults()
	file := flags.Lookup("config")
	root, err := yamlfile.Read(file.Value.String())
	switch {
	case errors.Is(err, fs.ErrNotExist) && !file.Changed: // the default file may be missing
	case err != nil:
		l.note(err)
	default:
		l.File = file.Value.String()
		l.readSection("", root)
	}
	l.readEnv(environ)
	settings, err := flags.GetStringArray(setFlag)
	if err != nil {
		return nil, err
	}
	for _, setting := range settings {
		l.readSetting(setting)
	}
	l.check()
	if len(l.problems) > 0 {
		return nil, l.wrong()
	}
	return l, nil
}

func (l *Loaded) note(problem error) { l.problems = append(l.problems, problem) }

// wrong is all problems, a line each, up to a screenful.
func (l *Loaded) wrong() error {
	const most = 20
	if more := len(l.problems) - most; more > 0 {
		l.problems = append(l.problems[:most], fmt.Errorf("%d more problems: correct these first", more))
	}
	return errors.Join(l.problems...)
}

// key is the key of a path; nil for none.
func (l *Loaded) key(path string) *Key {
	i := slices.IndexFunc(l.Keys, func(k *Key) bool { return k.Path == path })
	if i < 0 {
		return nil
	}
	return l.Keys[i]
}

// isSection says whether there are keys below a path.
func (l *Loaded) isSection(path string) bool {
	return slices.ContainsFunc(l.Keys, func(k *Key) bool { return strings.HasPrefix(k.Path, path+".") })
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
		l.note(k.fail(err.Error()))
	}
}

// readSection reads the keys of a mapping of the file; prefix is "" or its path and a dot.
func (l *Loaded) readSection(prefix string, node ast.Node) {
	mapping, ok := node.(*ast.MappingNode)
	switch {
	case node == nil || node.Type() == ast.NullType: // a section may have all its keys in comments
		return
	case !ok:
		section := cmp.Or(strings.TrimSuffix(prefix, "."), "the file")
		l.note(yamlfile.Fail(l.File, node,
			section+" has no keys: write them on the lines below their section, indented"))
		return
	}
	seen := map[string]bool{}
	for _, pair := range mapping.Values {
		name, _ := yamlfile.Text(pair.Key)
		path, at := prefix+name, yamlfile.At(l.File, pair.Key)
		switch k := l.key(path); {
		case seen[name]:
			l.note(fmt.Errorf("%s: %s: is there twice: keep one", at, prefix+showName(name)))
		case k != nil && !strings.Contains(name, "."):
			text, err := textOf(pair.Value, k.value.Kind())
			l.setKey(k, at, text, err)
		case k == nil && name != "" && l.isSection(path):
			l.readSection(path+".", pair.Value)
		default:
			l.note(fmt.Errorf("%s: %s: %s", at, prefix+showName(name), l.unknownKey(prefix)))
		}
		seen[name] = true
	}
}

// textOf is a value of the file as a variable has it, for a key of a kind.
func textOf(node ast.Node, kind reflect.Kind) (string, error) {
	if text, ok := yamlfile.Text(node); ok {
		return text, nil
	}
	var items []string
	switch n := node.(type) {
	case *ast.NullNode:
		return "", errors.New("is empty: write a value, or remove the line for the default")
	case *ast.SequenceNode:
		if kind != reflect.Slice {
			return "", errors.New("is a list: write one value")
		}
		for _, value := range n.Values {
			text, ok := yamlfile.Text(value)
			if !ok {
				return "", errors.New("holds something else than text: write [one, two]")
			}
			items = append(items, text)
		}
	case *ast.MappingNode:
		if kind != reflect.Map {
			return "", errors.New("is a map: write one value, in quotes if it has a colon")
		}
		for _, pair := range n.Values {
			key, isKey := yamlfile.Text(pair.Key)
			value, isValue := yamlfile.Text(pair.Value)
			if !isKey || !isValue {
				return "", errors.New(`holds something else than numbers: write {"ip:port": 1}`)
			}
			items = append(items, key+"="+value)
		}
	default:
		return "", errors.New("is an anchor, alias or tag: write the value itself, in quotes")
	}
	return strings.Join(items, ","), nil
}

// unknownKey says that there is no such key, and names the keys and sections below a prefix.
func (l *Loaded) unknownKey(prefix string) string {
	var all []string
	for _, k := range l.Keys {
		rest, below := strings.CutPrefix(k.Path, prefix)
		name, _, _ := strings.Cut(rest, ".")
		if below && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return "unknown key: the keys here are " + strings.Join(all, ", ") +
		"; CHANGELOG.md says what is in place of those of 0.3"
}

// ofClients are variables of the programs in docs/examples, which may run beside the server, and
// what shardid lease tells its command, which may be a shardid.
var ofClients = []string{
	envPrefix + "URLS", envPrefix + "TOKEN",
	envPrefix + "WORKER_ID", envPrefix + "EPOCH", envPrefix + "WORKER_BITS", envPrefix + "SEQ_BITS",
}

func (l *Loaded) readEnv(environ []string) {
	names, values := []string{}, map[string]string{}
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok && strings.HasPrefix(name, envPrefix) {
			names = append(names, name)
			values[name] = value
		}
	}
	slices.Sort(names)
	for _, name := range names {
		from := "environment " + name
		i := slices.IndexFunc(l.Keys, func(k *Key) bool { return k.Env() == name })
		switch {
		case i >= 0:
			l.setKey(l.Keys[i], from, values[name], nil)
		case !slices.Contains(ofClients, name) && !fromKubernetes(name, names):
			l.note(fmt.Errorf("environment %s: unknown variable: unset it, or see shardid serve --help for every key, "+
				"and CHANGELOG.md for what is in place of those of 0.3", showName(name)))
		}
	}
}

// fromKubernetes says whether Kubernetes made the variable, as it does in every
// pod for each service: for the service shardid itself, and for those called
// shardid-…, which it announces by …_SERVICE_HOST.
// See https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables.
func fromKubernetes(name string, all []string) bool {
	made := regexp.MustCompile(`^_(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_\d{1,5}(_.*)?)?)$`)
	return slices.ContainsFunc(append(all, envPrefix+"SERVICE_HOST"), func(other string) bool {
		service, announced := strings.CutSuffix(other, "_SERVICE_HOST")
		rest, ofService := strings.CutPrefix(name, service)
		return announced && ofService && made.MatchString(rest)
	})
}

// readSetting reads one --set. It takes no secret, because every user of the machine can read the
// command line.
func (l *Loaded) readSetting(setting string) {
	path, text, found := strings.Cut(setting, "=")
	k := l.key(path)
	switch {
	case k == nil:
		prefix := path[:strings.LastIndexByte(path, '.')+1]
		if !l.isSection(strings.TrimSuffix(prefix, ".")) {
			prefix = ""
		}
		l.note(fmt.Errorf("%s: %s: %s", fromFlag, showName(path), l.unknownKey(prefix)))
	case !found:
		l.note(fmt.Errorf("%s: %s: has no value: write --set %[2]s=VALUE", fromFlag, path))
	case k.Secret:
		l.note(fmt.Errorf("%s: %s: is a secret, which every user of the machine could read here: set %s instead",
			fromFlag, path, k.Env()))
	default:
		l.setKey(k, fromFlag, text, nil)
	}
}

// show quotes a value for a message: short, on one line, and not at all when
// it may carry credentials, as in user:password@host.
func show(text string) string {
	const most = 60
	if strings.Contains(text, "@") {
		return "the value"
	}
	if len(text) > most {
		text = text[:most] + "…"
	}
	return strconv.Quote(text)
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
