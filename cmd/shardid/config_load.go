package main

import "github.com/spf13/pflag"

const (
	// defaultConfigFile is used when it exists and no other is named.
	defaultConfigFile = "config.yaml"
	// envPrefix begins every variable, followed by '_'.
	envPrefix = "SHARDID"
	// docHint is the advice where no nearer one is known.
	docHint = "see config.yaml in the sources for every key"
)

// loader puts the sources on top of each other and remembers for each key
// which one set it last.
type loader struct {
	config  *Config
	keys    []configKey
	origins map[string]origin // by path; absent: default
}

func newLoader() *loader {
	c := defaultConfig()
	return &loader{config: &c, keys: configKeys(&c), origins: map[string]origin{}}
}

// loadConfig is the configuration from the defaults, file, environ (as
// os.Environ gives it) and the flags that were set (flags may be nil), each
// over the one before, checked as a whole. A file that is not there is an error
// only when explicit. The error is one line that names the source and the key
// and says what to do; it never holds the value of a secret.
func loadConfig(file string, explicit bool, environ []string, flags *pflag.FlagSet) (*loader, error) {
	l := newLoader()
	if err := l.readFile(file, explicit); err != nil {
		return nil, err
	}
	if err := l.readEnv(environ); err != nil {
		return nil, err
	}
	if err := l.readFlags(flags); err != nil {
		return nil, err
	}
	if err := l.validate(); err != nil {
		return nil, err
	}
	return l, nil
}

// loaderFromFlags is loadConfig with the file that --config names; flags are
// those of addConfigFlags after parsing.
func loaderFromFlags(flags *pflag.FlagSet, environ []string) (*loader, error) {
	file, err := flags.GetString("config")
	if err != nil {
		return nil, err
	}
	return loadConfig(file, flags.Changed("config"), environ, flags)
}

// addConfigFlags registers --config and, hidden, a flag for every key that is
// no secret: flags are visible to every user of the machine.
func addConfigFlags(fs *pflag.FlagSet) {
	fs.String("config", defaultConfigFile, "configuration `FILE`; the default may be missing")
	for _, k := range newLoader().keys {
		if k.secret() {
			continue
		}
		f := fs.VarPF(&keyFlag{many: k.many()}, k.path, "", "overrides "+k.path+" of the file")
		f.Hidden = true
		if _, ok := k.value.Interface().(bool); ok {
			f.NoOptDefVal = "true"
		}
	}
}

// keyFlag holds a flag's text until the loader reads it; a repeated flag of a
// list or map adds to it.
type keyFlag struct {
	text string
	many bool
}

func (f *keyFlag) String() string { return f.text }
func (f *keyFlag) Type() string   { return "string" }
func (f *keyFlag) Set(text string) error {
	if f.many && f.text != "" {
		text = f.text + "," + text
	}
	f.text = text
	return nil
}

func (l *loader) readFlags(flags *pflag.FlagSet) error {
	if flags == nil {
		return nil
	}
	for _, k := range l.keys {
		f := flags.Lookup(k.path)
		if f == nil || !f.Changed {
			continue
		}
		if err := l.set(k, f.Value.String(), origin{where: "flag --" + k.path}); err != nil {
			return err
		}
	}
	return nil
}

func (l *loader) set(k configKey, text string, from origin) error {
	if err := k.set(text); err != nil {
		return from.fail(k.path, err)
	}
	l.origins[k.path] = from
	return nil
}
