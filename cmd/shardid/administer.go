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
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"shardid/model"
	"shardid/service/admin"
	"shardid/service/httpapi"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Administration from the command line: a command for each kind of things, apps, tags, names and spaces, whose
// argument says what to do with them. Its flags are the fields of the kind, which HTTP takes too (admin.Kind). It
// sends a request to the handlers below /admin: with --url to those of a server, and else to handlers of this
// process, on the database itself. So the answers, the refusals and the audit lines are those of HTTP.

// The arguments.
const (
	verbList   = "list" // also without an argument
	verbAdd    = "add"  // for apps also provision, without an argument
	verbSet    = "set"
	verbDelete = "delete"
)

// provision is apps add, as the article calls it.
const provision = "provision"

// noun is a command on the things of one kind, as T has them in JSON, and how it tells of them.
type noun[T any] struct {
	admin.Kind
	short, long, example string
	none                 string // in place of a table without lines
	header               string // of the table
	cells                func(T) []any
	title                func(T) string                // "app 7 (orders)"
	added                func(t T, base string) string // what follows that of a new one; base is the URL of a server
	deleted              func(T) string                // what follows "app 7 (orders) is deleted"
	isWhole              func(T) bool                  // what is there counts as there; nil: it always does
}

// order is what one run of a noun was told.
type order[T any] struct {
	noun[T]
	cli                  *cli
	cmd                  *cobra.Command
	ask                  asking
	verb                 string
	confirm, after, file string // flags of those names
	ifMissing            bool
	verbs                map[string][]string // by flag: what it is for
}

// administer makes the command of a noun.
func administer[T any](c *cli, n noun[T]) *cobra.Command {
	verbs := []string{verbList, verbAdd, verbSet, verbDelete}
	cmd := &cobra.Command{
		Use: n.Many + " [list | add | set | delete]", Short: n.short, Long: n.long, Example: n.example,
		ValidArgs: verbs, Args: cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
	}
	o := &order[T]{noun: n, cli: c, cmd: cmd, verbs: map[string][]string{}}
	for _, field := range n.Fields {
		o.addField(field)
	}
	f := cmd.Flags()
	f.StringVar(&o.confirm, "confirm", "", "its `name`, for what cannot be taken back")
	o.isFor("confirm", verbSet, verbDelete)
	f.BoolVar(&o.ifMissing, "if-missing", false,
		"change nothing when it is there with what cannot be changed, for scripts that run again")
	o.isFor("if-missing", verbAdd)
	switch n.One {
	case "app":
		cmd.Aliases = []string{provision}
		f.StringVar(&o.file, "file", "",
			"YAML `FILE` with a list of new apps, by the names of HTTP: those that are there stay as they are")
		o.isFor("file", verbAdd)
	case "tag":
		f.StringVar(&o.after, "after", "", "business `number` after which to continue, in place of --max-id")
		o.isFor("after", verbSet)
	}
	o.ask.asClient(cmd, time.Minute, "`URL` of a server to ask, in place of the database")
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
		if o.ask.url != "" {
			return o.run(cmd.Context(), cfg, o.ask.url)
		}
		check := needData
		if o.verb == verbAdd {
			check = nil
		}
		return onStores(cmd.Context(), cfg, check, func(ctx context.Context, s opened) error {
			o.ask.handler = httpapi.NewAdministration(s.admin.Resources(), operator().Name, s.log)
			if o.after != "" {
				if err := o.goAfter(ctx, s); err != nil {
					return err
				}
			}
			own, _ := serverURL(cfg.Server) // only to name it
			return o.run(ctx, cfg, own)
		})
	})
}

// flag is the flag of a field: max-limit-id for maxLimitId, and what a thing is called for the field that names it.
func (n noun[T]) flag(field admin.Field) string {
	if field.Name == n.Fields[0].Name {
		return n.One
	}
	var name strings.Builder
	for _, r := range field.Name {
		if unicode.IsUpper(r) {
			name.WriteByte('-')
		}
		name.WriteRune(unicode.ToLower(r))
	}
	return name.String()
}

// addField makes a field a flag, if one of the verbs takes it.
func (o *order[T]) addField(field admin.Field) {
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
	if len(takes) == 0 {
		return
	}
	if zero := field.Value.Zero; field.Default != nil && field.Default != zero {
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
func (o *order[T]) isFor(flag string, takes ...string) {
	o.verbs[flag] = takes
	o.cmd.Flags().Lookup(flag).Usage += " (" + strings.Join(takes, ", ") + ")"
}

// check refuses flags that are missing, or of another verb.
func (o *order[T]) check() (err error) {
	f := o.cmd.Flags()
	f.Visit(func(flag *pflag.Flag) {
		if takes := o.verbs[flag.Name]; takes != nil && !slices.Contains(takes, o.verb) {
			err = fmt.Errorf("%w: --%s is for %s, and not for %s",
				model.ErrInvalidArgument, flag.Name, strings.Join(takes, " and "), o.verb)
		}
	})
	needs := map[string][]string{verbSet: {o.One}, verbDelete: {o.One, "confirm"}, verbAdd: {o.One}}[o.verb]
	if o.file != "" {
		needs = nil
	}
	for _, name := range needs {
		if !f.Changed(name) {
			err = cmp.Or(err, fmt.Errorf("%w: --%s is missing: see %s --help",
				model.ErrInvalidArgument, name, o.cmd.CommandPath()))
		}
	}
	switch {
	case o.file != "" && f.Changed(o.One):
		err = cmp.Or(err, fmt.Errorf("%w: --file is given in place of --%s", model.ErrInvalidArgument, o.One))
	case o.after != "" && (f.Changed("max-id") || o.ask.url != ""):
		err = cmp.Or(err, fmt.Errorf("%w: --after is given in place of --max-id, and needs the database: "+
			"leave out --max-id and --url", model.ErrInvalidArgument))
	}
	return err
}

// value is what the flag of a field says.
func (o *order[T]) value(field admin.Field) (value any) {
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

// body is what the flags say, but for the field that names a thing.
func (o *order[T]) body() map[string]any {
	body := map[string]any{}
	for _, field := range o.Fields[1:] {
		if o.cmd.Flags().Changed(o.flag(field)) {
			body[field.Name] = o.value(field)
		}
	}
	return body
}

// run does what the verb says. base is the URL of a server, to name it.
func (o *order[T]) run(ctx context.Context, cfg Config, base string) error {
	body := o.body()
	switch o.verb {
	case verbAdd:
		if o.file != "" {
			return o.addFile(ctx, cfg)
		}
		body[o.Fields[0].Name] = o.value(o.Fields[0])
		thing, made, err := o.add(ctx, cfg, body, o.ifMissing)
		if err != nil {
			return err
		}
		return o.cli.print(o.cmd, thing.T, func(w io.Writer) {
			if !made {
				fmt.Fprintf(w, "%s is there, nothing was changed\n", o.title(thing.T))
				return
			}
			fmt.Fprintf(w, "%s%s\n", o.title(thing.T), o.added(thing.T, strings.TrimRight(base, "/")))
		})
	case verbSet:
		thing, err := o.send(ctx, cfg, http.MethodPatch, o.value(o.Fields[0]), body)
		if err != nil {
			return err
		}
		return o.cli.print(o.cmd, thing.T, func(w io.Writer) {
			table([]T{thing.T}, "", o.header, o.cells)(w)
			fmt.Fprintf(w, "%s is changed, %s\n", o.title(thing.T), thing.Effective)
		})
	case verbDelete:
		thing, err := o.send(ctx, cfg, http.MethodDelete, o.value(o.Fields[0]), nil)
		if err != nil {
			return err
		}
		return o.cli.print(o.cmd, thing.T, func(w io.Writer) {
			fmt.Fprintf(w, "%s is deleted, %s; should it come back, %s\n",
				o.title(thing.T), thing.Effective, o.deleted(thing.T))
		})
	}
	answer, err := o.ask.send(ctx, cfg, http.MethodGet, "/admin/"+o.Path, nil)
	if err != nil {
		return err
	}
	var all map[string]json.RawMessage
	var things []T
	if err = json.Unmarshal(answer, &all); err == nil {
		err = json.Unmarshal(all[o.Many], &things)
	}
	if err != nil {
		return fmt.Errorf("the list cannot be read: %w", err)
	}
	return o.cli.print(o.cmd, things, table(things, o.none, o.header, o.cells))
}

// answered is a thing with what HTTP says beside it.
type answered[T any] struct {
	T         T              `json:"-"`
	Effective string         // from when on a change counts
	fields    map[string]any // all of them
}

// send sends a request about a thing, for a new one without a key.
func (o *order[T]) send(
	ctx context.Context, cfg Config, method string, key any, body map[string]any,
) (a answered[T], err error) {
	path := "/admin/" + o.Path
	if key != nil {
		path += "/" + url.PathEscape(fmt.Sprint(key))
	}
	if o.confirm != "" {
		path += "?confirm=" + url.QueryEscape(o.confirm)
	}
	answer, err := o.ask.send(ctx, cfg, method, path, body)
	if err != nil {
		return a, err
	}
	in := json.NewDecoder(bytes.NewReader(answer))
	in.UseNumber()
	return a, cmp.Or(json.Unmarshal(answer, &a), json.Unmarshal(answer, &a.T), in.Decode(&a.fields))
}

// add adds a thing. With ifMissing it gives what is there instead, if that has what cannot be changed, also when
// another process has added it meanwhile.
func (o *order[T]) add(
	ctx context.Context, cfg Config, body map[string]any, ifMissing bool,
) (a answered[T], made bool, err error) {
	find := func() bool {
		there, err := o.send(ctx, cfg, http.MethodGet, body[o.Fields[0].Name], nil)
		if err == nil && o.isSame(there, body) {
			a = there
			return true
		}
		return false
	}
	if ifMissing && find() {
		return a, false, nil
	}
	added, err := o.send(ctx, cfg, http.MethodPost, nil, body)
	if err != nil && ifMissing && find() {
		return a, false, nil
	}
	return added, true, err
}

// isSame says whether a thing that is there is one that was to be added: in what a new one must say, and in
// what cannot be changed.
func (o *order[T]) isSame(there answered[T], body map[string]any) bool {
	for _, field := range o.Fields {
		if field.Add == admin.Never || field.Add == admin.May && field.Set != admin.Never {
			continue
		}
		want, has := body[field.Name], there.fields[field.Name]
		if want == nil {
			want = field.Default
		}
		if want != nil && fmt.Sprint(want) != fmt.Sprint(cmp.Or(has, field.Value.Zero)) {
			return false
		}
	}
	return o.isWhole == nil || o.isWhole(there.T)
}

// goAfter has a tag continue after a business number.
func (o *order[T]) goAfter(ctx context.Context, s opened) error {
	tag, err := s.db.Tag(ctx, fmt.Sprint(o.value(o.Fields[0])))
	if err != nil {
		return err
	}
	id, err := tag.ID(o.after)
	if err != nil {
		return err
	}
	return o.cmd.Flags().Set("max-id", strconv.FormatInt(id+1, 10))
}

// listed says in JSON and in a table what became of an app of a file.
type listed struct {
	AppID  any    `json:"appId"`
	Name   any    `json:"name"`
	Action string `json:"action"` // made, there already or failed
}

// addFile adds each thing of a file that is not there. It continues after one that is refused.
func (o *order[T]) addFile(ctx context.Context, cfg Config) error {
	text, err := os.ReadFile(o.file)
	if err != nil {
		return fmt.Errorf("%w: --file: %w", model.ErrInvalidArgument, err)
	}
	var bodies []map[string]any
	if err := yaml.Unmarshal(text, &bodies); err != nil {
		return fmt.Errorf("%w: %s: %s", model.ErrInvalidArgument, o.file, yaml.FormatError(err, false, false))
	}
	if len(bodies) == 0 {
		return fmt.Errorf("%w: %s is no list of %s: write each as - {id: 1, name: orders}",
			model.ErrInvalidArgument, o.file, o.Many)
	}
	results, failed := make([]listed, len(bodies)), []error{nil}
	for i, body := range bodies {
		_, made, err := o.add(ctx, cfg, body, true)
		results[i] = listed{body[o.Fields[0].Name], body["name"], "made"}
		switch {
		case err != nil:
			results[i].Action, failed = "failed", append(failed, fmt.Errorf("%s: number %d: %w", o.file, i+1, err))
		case !made:
			results[i].Action = "there already"
		}
	}
	if len(failed) > 1 {
		failed[0] = fmt.Errorf("%d of %d %s are not there: correct what follows and run this again, "+
			"which leaves the others as they are", len(failed)-1, len(bodies), o.Many)
	}
	cells := func(r listed) []any { return []any{r.AppID, r.Name, r.Action} }
	err = o.cli.print(o.cmd, results, table(results, "", "APP\tNAME\tACTION", cells))
	return errors.Join(append(failed, err)...)
}

// operator is who runs the command, by the name that the system has.
func operator() admin.Actor {
	name := ""
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return admin.Actor{Name: "cli:" + cmp.Or(name, os.Getenv("USER"), strconv.Itoa(os.Getuid()))}
}
