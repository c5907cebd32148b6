package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/user"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"shardid/model"
	"shardid/repository/sqlstore"
	"shardid/service/admin"
	"shardid/service/httpapi"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Administration from the command line: a command for each kind of things, apps, tags, names and spaces, whose
// argument says what to do with them. Its flags are the fields of the kind, which HTTP takes too (admin.Kind). It
// sends a request to the handlers below /admin: with --url to those of a server, and else to handlers on the database
// itself, which are those of this process, or of the one that serves with the embedded database. So the answers, the
// refusals and the audit lines are those of HTTP.

// The arguments.
const (
	verbList   = "list" // also without an argument
	verbAdd    = "add"  // for apps also provision, without an argument
	verbSet    = "set"
	verbDelete = "delete"
)

// provision is apps add, as the article calls it.
const provision = "provision"

// noun is a command on the things of one kind, and how it tells of them.
type noun struct {
	admin.Kind
	short, long, example string
	none                 string   // in place of a table without lines
	columns              []column // of the table
}

// column shows a field of things, as JSON has it, below a head.
type column struct{ head, field string }

// order is what one run of a noun was told.
type order struct {
	noun
	cli           *cli
	cmd           *cobra.Command
	ask           asking
	verb          string
	confirm, file string // flags of those names
	ifMissing     bool
	verbs         map[string][]string // by flag: what it is for
	place         string              // of what is changed, for people
}

// administer makes the command of a noun.
func administer(c *cli, n noun) *cobra.Command {
	verbs := []string{verbList, verbAdd, verbSet, verbDelete}
	cmd := &cobra.Command{
		Use: n.Many + " [list | add | set | delete]", Short: n.short, Long: n.long, Example: n.example,
		ValidArgs: verbs, Args: cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
	}
	o := &order{noun: n, cli: c, cmd: cmd, verbs: map[string][]string{}}
	for _, field := range n.Fields {
		o.addField(field)
	}
	f := cmd.Flags()
	f.StringVar(&o.confirm, "confirm", "", "repeat the `name` to confirm what cannot be undone")
	o.isFor("confirm", verbSet, verbDelete)
	f.String("search", "", "only those whose name contains this `text`")
	o.isFor("search", verbList)
	f.Int("limit", 1000, "how `many` to list at most, up to 5000")
	o.isFor("limit", verbList)
	f.BoolVar(&o.ifMissing, "if-missing", false,
		"do nothing if it already exists with the same fixed settings, for scripts that run again")
	o.isFor("if-missing", verbAdd)
	if n.One == "app" {
		cmd.Aliases = []string{provision}
	}
	f.StringVar(&o.file, "file", "", "YAML `FILE` with a list of new "+n.Many+
		", with the field names of the HTTP API; existing ones stay as they are")
	o.isFor("file", verbAdd)
	o.ask.register(cmd, time.Minute, "`URL` of a server to ask instead of the database")
	return c.command(cmd, func(cmd *cobra.Command, args []string, cfg Config) error {
		switch {
		case len(args) > 0:
			o.verb = args[0]
		case cmd.CalledAs() == provision:
			o.verb = verbAdd
		default:
			o.verb = verbList
		}
		if err := o.check(); err != nil {
			return err
		}
		if o.place = o.ask.url; o.place != "" {
			return o.run(cmd.Context(), cfg)
		}
		return o.cli.onDatabase(cmd.Context(), cfg, func(socket http.RoundTripper) error {
			o.ask.beside, o.place = socket, sqlstore.EmbeddedPlace(cfg.DatabaseDSN())
			return o.run(cmd.Context(), cfg)
		}, func(ctx context.Context, s opened) error {
			o.ask.beside, o.place = inProcess{httpapi.NewAdministration(s.admin.Resources(), s.log)}, s.db.Place()
			return o.run(ctx, cfg)
		})
	})
}

// flag is the flag of a field: max-limit-id for maxLimitId, and what a thing is called for the field that names it.
func (n noun) flag(field admin.Field) string {
	if field.Name == n.Fields[0].Name {
		return n.One
	}
	return strings.ToLower(regexp.MustCompile("[A-Z]").ReplaceAllString(field.Name, "-$0"))
}

// addField makes a field a flag, if one of the verbs takes it.
func (o *order) addField(field admin.Field) {
	f, name, usage := o.cmd.Flags(), o.flag(field), field.Usage
	takes := []string{}
	if field.Add != admin.Never {
		takes = append(takes, verbAdd)
	}
	if field.Set != admin.Never {
		takes = append(takes, verbSet)
	}
	if name == o.One {
		takes = []string{verbAdd, verbSet, verbDelete}
	}
	if field.Default != nil && field.Default != field.Value.Zero {
		usage = fmt.Sprintf("%s; %v by default", usage, field.Default)
	}
	switch zero := field.Value.Zero.(type) {
	case int64:
		f.Int64(name, zero, usage)
	case bool:
		f.Bool(name, zero, usage)
	default:
		f.String(name, "", usage)
	}
	o.isFor(name, takes...)
}

// isFor says in the help which verbs take a flag, and has it refused with others.
func (o *order) isFor(flag string, takes ...string) {
	o.verbs[flag] = takes
	o.cmd.Flags().Lookup(flag).Usage += " (" + strings.Join(takes, ", ") + ")"
}

// check refuses flags that are missing, or of another verb.
func (o *order) check() (err error) {
	f := o.cmd.Flags()
	f.Visit(func(flag *pflag.Flag) {
		if takes := o.verbs[flag.Name]; takes != nil && !slices.Contains(takes, o.verb) {
			err = fmt.Errorf("%w: leave --%s out of %s: it is for %s", model.ErrInvalidArgument, flag.Name, o.verb,
				strings.Join(takes, " and "))
		}
	})
	needs := map[string][]string{verbSet: {o.One}, verbDelete: {o.One, "confirm"}, verbAdd: {o.One}}[o.verb]
	if o.file != "" {
		needs = nil
	}
	for _, name := range needs {
		if !f.Changed(name) {
			err = cmp.Or(err, fmt.Errorf("%w: give --%s, see %s --help: it is missing",
				model.ErrInvalidArgument, name, o.cmd.CommandPath()))
		}
	}
	for _, field := range o.Fields {
		if name := o.flag(field); o.file != "" && f.Changed(name) {
			err = cmp.Or(err, fmt.Errorf("%w: give --%s or --file, not both", model.ErrInvalidArgument, name))
		}
	}
	return err
}

// value is what the flag of a field says.
func (o *order) value(field admin.Field) (value any) {
	f, name := o.cmd.Flags(), o.flag(field)
	switch field.Value.Zero.(type) {
	case int64:
		value, _ = f.GetInt64(name)
	case bool:
		value, _ = f.GetBool(name)
	default:
		value, _ = f.GetString(name)
	}
	return value
}

// run does what the verb says.
func (o *order) run(ctx context.Context, cfg Config) error {
	if o.file != "" {
		return o.addFile(ctx, cfg)
	}
	key, body := o.value(o.Fields[0]), map[string]any{}
	for _, field := range o.Fields[1:] { // the first is the key
		if o.cmd.Flags().Changed(o.flag(field)) {
			body[field.Name] = o.value(field)
		}
	}
	var thing shownThing
	var what string
	var err error
	switch o.verb {
	case verbList:
		return o.list(ctx, cfg)
	case verbAdd:
		body[o.Fields[0].Name] = key
		thing, what, err = o.add(ctx, cfg, body, o.ifMissing)
	case verbSet:
		what = "is changed"
		thing, err = o.send(ctx, cfg, http.MethodPatch, key, body)
	case verbDelete:
		what = "is deleted"
		thing, err = o.send(ctx, cfg, http.MethodDelete, key, nil)
	}
	if refused, is := errors.AsType[*refusedError](err); is {
		for _, field := range o.Fields { // HTTP says them in backquotes
			refused.message = strings.ReplaceAll(refused.message, "`"+field.Name+"`", "--"+o.flag(field))
		}
	}
	if err != nil {
		return err
	}
	return o.tell(thing, what)
}

// list shows things, and says on standard error if there are more.
func (o *order) list(ctx context.Context, cfg Config) error {
	window := url.Values{}
	for _, name := range []string{"search", "limit"} {
		if flag := o.cmd.Flags().Lookup(name); flag.Changed {
			window.Set(name, flag.Value.String())
		}
	}
	path := strings.TrimSuffix("/admin/"+o.Path+"?"+window.Encode(), "?")
	answer, err := o.ask.send(ctx, cfg, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	var all map[string]json.RawMessage
	var things []map[string]any
	if err = json.Unmarshal(answer, &all); err == nil {
		err = readNumbers(all[o.Many], &things)
	}
	if err != nil {
		return fmt.Errorf("the list cannot be read: %w", err)
	}
	if window.Has("search") {
		o.none = "no " + o.One + " is found"
	}
	err = o.cli.print(o.cmd, all[o.Many], o.table(things))
	if total := all["total"]; err == nil && total != nil {
		_, err = fmt.Fprintf(o.cmd.ErrOrStderr(), "use --search or --limit to see others: these are %d of %s %s\n",
			len(things), total, o.Many)
	}
	return err
}

// table shows things in columns.
func (n noun) table(things []map[string]any) func(io.Writer) {
	heads := make([]string, len(n.columns))
	for i, c := range n.columns {
		heads[i] = c.head
	}
	return table(things, n.none, strings.Join(heads, "\t"), func(thing map[string]any) []any {
		cells := make([]any, len(n.columns))
		for i, c := range n.columns {
			cells[i] = cmp.Or[any](thing[c.field], "-")
		}
		return cells
	})
}

// shownThing is a thing as HTTP answers it.
type shownThing struct {
	json   json.RawMessage
	fields map[string]any
}

// tell shows a thing, and says what became of it and from when on that counts.
func (o *order) tell(a shownThing, what string) error {
	return o.cli.print(o.cmd, a.json, func(w io.Writer) {
		o.table([]map[string]any{a.fields})(w)
		fmt.Fprintf(w, "%s %v %s", o.One, a.fields[o.Fields[0].Name], what)
		if effective := a.fields["effective"]; effective != nil {
			fmt.Fprintf(w, ", %v", effective)
		}
		fmt.Fprintf(w, " (%s)\n", o.place)
	})
}

// send sends a request about a thing, for a new one without a key.
func (o *order) send(
	ctx context.Context, cfg Config, method string, key any, body map[string]any,
) (a shownThing, err error) {
	path := "/admin/" + o.Path
	if key != nil {
		path += "/" + url.PathEscape(fmt.Sprint(key))
	}
	if o.confirm != "" {
		path += "?confirm=" + url.QueryEscape(o.confirm)
	}
	if a.json, err = o.ask.send(ctx, cfg, method, path, body); err != nil {
		return a, err
	}
	return a, readNumbers(a.json, &a.fields)
}

// readNumbers reads JSON, whose numbers keep all of their digits.
func readNumbers(text []byte, into any) error {
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber()
	return in.Decode(into)
}

// add adds a thing, and says so. With ifMissing it gives what is there instead, if that has what cannot be changed,
// also when another process has added it meanwhile.
func (o *order) add(
	ctx context.Context, cfg Config, body map[string]any, ifMissing bool,
) (a shownThing, what string, err error) {
	differs := "" // in which flag what is there is another one
	isThere := func() bool {
		if body[o.Fields[0].Name] == nil {
			return false // the answer to the request says that it is missing
		}
		there, err := o.send(ctx, cfg, http.MethodGet, body[o.Fields[0].Name], nil)
		if a = there; err == nil {
			differs = o.difference(there.fields, body)
		}
		return err == nil && differs == ""
	}
	const same = "is there, nothing was changed"
	if ifMissing && isThere() {
		return a, same, nil
	}
	added, err := o.send(ctx, cfg, http.MethodPost, nil, body)
	if err != nil && ifMissing && isThere() {
		return a, same, nil
	}
	if err != nil && differs != "" {
		err = fmt.Errorf("%w; what differs is %s", err, differs)
	}
	return added, "is added", err
}

// difference is the flag in which a thing that is there is not one that was to be added, if any: of what a new one must
// say, and of what cannot be changed. An app that lacks shards differs in them.
func (o *order) difference(there, body map[string]any) string {
	for _, field := range o.Fields {
		if field.Add == admin.Never || field.Add == admin.May && field.Set != admin.Never {
			continue
		}
		want, has := body[field.Name], there[field.Name]
		if want == nil {
			want = field.Default
		}
		if body["pattern"] != nil { // which gives others a default
			standard := map[string]any{"zone": "UTC", "overflow": string(model.OverflowWiden)}[field.Name]
			want, has = cmp.Or(want, standard), cmp.Or(has, standard)
		}
		if want != nil && fmt.Sprint(want) != fmt.Sprint(cmp.Or(has, field.Value.Zero)) {
			return o.flag(field)
		}
	}
	if shards := there["shards"]; shards != nil && fmt.Sprint(shards) != fmt.Sprint(model.Shards) { // of an app
		return "shards"
	}
	return ""
}

// addFile adds each thing of a file that is not there. It continues after one that is refused.
func (o *order) addFile(ctx context.Context, cfg Config) error {
	text, err := os.ReadFile(o.file)
	if err != nil {
		return fmt.Errorf("%w: name a file for --file that this user may read: %w", model.ErrInvalidArgument, err)
	}
	var bodies []map[string]any
	documents := yaml.NewDecoder(bytes.NewReader(text))
	if err := documents.Decode(&bodies); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %s: %s: %s", model.ErrInvalidArgument, o.form(), o.file,
			yaml.FormatError(err, false, false))
	}
	if !errors.Is(documents.Decode(new(any)), io.EOF) {
		return fmt.Errorf("%w: keep one document, without ---: %s has several", model.ErrInvalidArgument, o.file)
	}
	if len(bodies) == 0 {
		return fmt.Errorf("%w: %s: %s is no list of %s", model.ErrInvalidArgument, o.form(), o.file, o.Many)
	}
	var failed []error
	for i, body := range bodies {
		a, what, err := o.add(ctx, cfg, body, true)
		if err != nil {
			failed = append(failed, fmt.Errorf("%w: number %d of %s", err, i+1, o.file))
		} else if err := o.tell(a, what); err != nil {
			return err
		}
	}
	if failed == nil {
		return nil
	}
	return errors.Join(append([]error{fmt.Errorf("correct what follows and run this again, which leaves the others as "+
		"they are: %d of %d %s are not there", len(failed), len(bodies), o.Many)}, failed...)...)
}

// form says how to write a file of things: with the fields that each must have.
func (o *order) form() string {
	var fields []string
	for _, field := range o.Fields {
		if field.Add == admin.Must {
			fields = append(fields, field.Name+": "+strings.ToUpper(field.Name))
		}
	}
	return "write each as - {" + strings.Join(fields, ", ") + "}"
}

// operator is who runs the command, by the name that the system has.
func operator() admin.Actor {
	name := ""
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return admin.Actor{Name: "cli:" + cmp.Or(name, os.Getenv("USER"), strconv.Itoa(os.Getuid()))}
}
