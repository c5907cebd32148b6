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
// os.Environ gives it) and the flags that were set, each over the one before, checked as
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
	for _, k := range l.Keys {
		if f := flags.Lookup(k.Path); f != nil && f.Changed {
			l.set(k, f.Value.String(), "flag --"+k.Path)
		}
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
		i := slices.IndexFunc(l.Keys, func(k *Key) bool { return strings.HasPrefix(k.Path+".", path+".") })
		switch {
		case seen[name]:
			l.note(yamlfile.Fail(file, pair[0], shown, "is there twice: keep one"))
		case i < 0 || strings.Contains(name, "."):
			known := strings.Join(l.names(prefix), ", ")
			l.note(yamlfile.Fail(file, pair[0], shown, "unknown key: the keys here are "+known))
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

// names are the keys and sections below a prefix.
func (l *Loaded) names(prefix string) (all []string) {
	for _, k := range l.Keys {
		rest, below := strings.CutPrefix(k.Path, prefix)
		name, _, _ := strings.Cut(rest, ".")
		if below && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
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
		switch {
		case i >= 0:
			l.set(l.Keys[i], values[name], "environment "+name)
		case !slices.Contains(ofClients, name) && !fromKubernetes(name, names):
			l.note(fmt.Errorf("environment %s: unknown variable: unset it, or %s", showName(name), seeDocs))
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

// AddFlags registers --config and, hidden, a flag for every key that is no secret: flags
// are visible to every user of the machine.
func AddFlags(fs *pflag.FlagSet) {
	fs.String("config", defaultFile, "configuration `FILE`; the default may be missing")
	for _, k := range Defaults().Keys {
		if k.Secret {
			continue
		}
		f := fs.VarPF(&keyFlag{many: k.many()}, k.Path, "", "overrides "+k.Path+" of the file")
		f.Hidden = true
		if k.value.Kind() == reflect.Bool {
			f.NoOptDefVal = "true"
		}
	}
}

// keyFlag holds a flag's text until it is read; a repeated flag of a list or map adds
// to it.
type keyFlag struct {
	text string
	many bool
}

// String implements pflag.Value.
func (f *keyFlag) String() string { return f.text }

// Type implements pflag.Value.
func (f *keyFlag) Type() string { return "string" }

// Set implements pflag.Value.
func (f *keyFlag) Set(text string) error {
	if f.many && f.text != "" {
		text = f.text + "," + text
	}
	f.text = text
	return nil
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
