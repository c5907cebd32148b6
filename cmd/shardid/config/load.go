package config

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"shardid/service/yamlfile"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

const (
	defaultFile = "config.yaml" // is read when it exists and no other is named
	envPrefix   = "SHARDID_"    // begins every variable
	seeDocs     = "see config.yaml in the sources for every key"
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

// Load is the configuration from the defaults, the file that --config names, environ (as
// os.Environ gives it) and --set, each over the one before, checked as
// a whole. flags are those of AddFlags after parsing. The error has a line for each problem,
// which names the source and the key and says what to do; it never holds the value of a
// secret.
func Load(flags *pflag.FlagSet, environ []string) (*Loaded, error) {
	l := Defaults()
	file := flags.Lookup("config")
	data, err := yamlfile.Read(file.Value.String())
	switch {
	case errors.Is(err, fs.ErrNotExist) && !file.Changed: // the default file may be missing
	case err != nil:
		l.note(fmt.Errorf("%w: name a readable file with --config", err))
	default:
		l.File = file.Value.String()
		l.readFile(l.File, data)
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
	if err := l.wrong(); err != nil {
		return nil, err
	}
	return l, nil
}

// Check says what is wrong with the text of a file, a line for each problem; nil for one that Load
// takes.
func Check(file string, data []byte) error {
	l := Defaults()
	l.readFile(file, data)
	l.check()
	return l.wrong()
}

// mostProblems is how many problems an error names.
const mostProblems = 20

func (l *Loaded) note(problem error) { l.problems = append(l.problems, problem) }

// wrong is all problems, a line each; nil without any.
func (l *Loaded) wrong() error {
	if more := len(l.problems) - mostProblems; more > 0 {
		l.problems = append(l.problems[:mostProblems], fmt.Errorf("%d more problems: correct these first", more))
	}
	return errors.Join(l.problems...)
}

func (l *Loaded) set(k *Key, text, from string) {
	k.From, k.inFile = from, false
	l.noteOf(k, k.set(text))
}

// noteOf notes what is wrong with the value of a key; nil is nothing. Such a value is not
// checked any further.
func (l *Loaded) noteOf(k *Key, err error) {
	if err != nil {
		k.unread = true
		l.note(k.fail(err.Error()))
	}
}

// readFile lays YAML over the configuration. The nodes are walked by hand so that every
// value keeps its line and no text of the file, which may hold a secret, gets into a
// message.
func (l *Loaded) readFile(file string, data []byte) {
	root, err := yamlfile.Parse(file, data)
	switch {
	case err != nil:
		l.note(err)
	case root == nil:
	case root.Kind != yaml.MappingNode:
		l.note(yamlfile.Fail(file, root, "",
			"has no keys at its top: write sections such as server: with keys indented below"))
	default:
		l.readSection(file, "", root)
	}
}

// readSection reads the keys of a mapping; prefix is "" or its path and a dot.
func (l *Loaded) readSection(file, prefix string, mapping *yaml.Node) {
	seen := map[string]bool{}
	for pair := range slices.Chunk(mapping.Content, 2) {
		name, value := yamlfile.Text(pair[0]), pair[1]
		path, shown := prefix+name, prefix+showName(name)
		gone := errRemoved(yamlfile.At(file, pair[0]), path)
		i := slices.IndexFunc(l.Keys, func(k *Key) bool { return strings.HasPrefix(k.Path+".", path+".") })
		switch {
		case seen[name]:
			l.note(yamlfile.Fail(file, pair[0], shown, "is there twice: keep one"))
		case i < 0 && gone != nil:
			l.note(gone)
		case i < 0 && value.Kind == yaml.MappingNode && hadKeys(path):
			l.readSection(file, path+".", value)
		case i < 0 || strings.Contains(name, "."):
			l.note(yamlfile.Fail(file, pair[0], shown, l.unknownKey(prefix)))
		case l.Keys[i].Path == path:
			k := l.Keys[i]
			k.From, k.inFile = yamlfile.At(file, pair[0]), true
			l.noteOf(k, k.setNode(value))
		case value.ShortTag() == "!!null": // a section with all its keys in comments
		case value.Kind != yaml.MappingNode || !yamlfile.Plain(value):
			l.note(yamlfile.Fail(file, pair[0], path, "is a section: write its keys on the lines below it, indented"))
		default:
			l.readSection(file, path+".", value)
		}
		seen[name] = true
	}
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
	return "unknown key: the keys here are " + strings.Join(all, ", ")
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
		i := slices.IndexFunc(l.Keys, func(k *Key) bool { return k.Env() == name })
		gone := removedVariable(name)
		switch {
		case i >= 0:
			l.set(l.Keys[i], values[name], "environment "+name)
		case gone != nil:
			l.note(gone)
		case !slices.Contains(ofClients, name) && !fromKubernetes(name, names):
			l.note(fmt.Errorf("environment %s: unknown variable: unset it, or %s", showName(name), seeDocs))
		}
	}
}

// removedVariable is errRemoved for a variable.
func removedVariable(name string) error {
	for path := range removed {
		if (&Key{Path: path}).Env() == name {
			return errRemoved("environment "+name, path)
		}
	}
	return nil
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

// setFlag is the name of the flag that sets a key.
const setFlag = "set"

// AddFlags registers --config and --set.
func AddFlags(fs *pflag.FlagSet) {
	fs.String("config", defaultFile, "configuration `FILE`; the default may be missing")
	fs.StringArray(setFlag, nil, "`KEY=VALUE` sets a key of config.yaml, over the file and the environment; "+
		"it may be repeated, and the last one of a key counts")
}

// readSetting reads one --set. It takes no secret, because every user of the machine can read the
// command line.
func (l *Loaded) readSetting(setting string) {
	path, text, found := strings.Cut(setting, "=")
	source := "flag --set " + showName(path)
	i := slices.IndexFunc(l.Keys, func(k *Key) bool { return k.Path == path })
	gone := errRemoved("flag --set", path)
	switch {
	case i < 0 && gone != nil:
		l.note(gone)
	case i < 0:
		l.note(fmt.Errorf("%s: %s", source, l.unknownKey(l.sectionOf(path))))
	case !found:
		l.note(fmt.Errorf("%s: has no value: write --set %s=VALUE", source, path))
	case l.Keys[i].Secret:
		l.note(fmt.Errorf("%s: is a secret, which every user of the machine could read here: set %s instead",
			source, l.Keys[i].Env()))
	default:
		l.set(l.Keys[i], text, source)
	}
}

// sectionOf is the longest part of a path, with a dot behind it, that is a section; "" for none.
func (l *Loaded) sectionOf(path string) string {
	for {
		end := strings.LastIndexByte(path, '.')
		if end < 0 {
			return ""
		}
		path = path[:end]
		if slices.ContainsFunc(l.Keys, func(k *Key) bool { return strings.HasPrefix(k.Path, path+".") }) {
			return path + "."
		}
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
