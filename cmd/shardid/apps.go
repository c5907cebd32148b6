package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"shardid/model"
	"shardid/service/admin"
	"shardid/service/httpapi"
	"shardid/service/yamlfile"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// operator is who runs the command, by the name that the system has.
func operator() admin.Actor {
	name := ""
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return admin.Actor{Name: "cli:" + cmp.Or(name, os.Getenv("USER"), strconv.Itoa(os.Getuid()))}
}

// appFlag registers --app.
func appFlag(cmd *cobra.Command, app *uint8) {
	cmd.Flags().Func("app", "app `ID`, 0…255", func(text string) error {
		id, err := strconv.ParseUint(text, 10, 8)
		if *app = uint8(id); err != nil {
			return errors.New("the ID of an app is 0…255")
		}
		return nil
	})
	complete(cmd, "app", appsOfDatabase)
}

// given is the flag's value, nil when it was not given.
func given[T any](f *pflag.FlagSet, name string, value *T) *T {
	if !f.Changed(name) {
		return nil
	}
	return value
}

// tell prints what was done and from when on it counts.
func tell(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, format+"\nrunning replicas follow with their next reload: within queue.reload_cron "+
		"(2 minutes by default) for an app, within a minute for a tag\n", args...)
}

// freshFlag registers --fresh of something new, which begins there unless it was used.
func freshFlag(cmd *cobra.Command, fresh *string, what, begins string) {
	cmd.Flags().StringVar(fresh, "fresh", "", "the `name` again, to say that no "+what+" was ever used: it begins at "+
		begins+", though the database may have gone back in time")
}

// printNotice says what else there is to know about something new.
func printNotice(w io.Writer, notice string) {
	if notice != "" {
		fmt.Fprintln(w, "note:", notice)
	}
}

// ensure makes something. With ifMissing it gives what there says is in place instead, also
// when another process has made it meanwhile.
func ensure[T any](ifMissing bool, there func() (found T, ok bool), add func() (T, error)) (thing T, made bool, err error) {
	if ifMissing {
		if found, ok := there(); ok {
			return found, false, nil
		}
	}
	thing, err = add()
	if ifMissing && err != nil {
		if found, ok := there(); ok {
			return found, false, nil
		}
	}
	return thing, true, err
}

// provision makes an app, with ifMissing unless it is there whole under its name.
func (o opened) provision(ctx context.Context, app model.App, ifMissing bool) (found model.AppSummary, made bool, err error) {
	return ensure(ifMissing, func() (model.AppSummary, bool) {
		there, err := o.db.App(ctx, app.ID)
		return there, err == nil && there.Name == app.Name && there.Shards == model.Shards
	}, func() (model.AppSummary, error) {
		found, _, err := o.admin.CreateApp(ctx, operator(), app)
		return found, err
	})
}

// provision is the command shardid provision, and shardid apps add.
func (c *cli) provision(name string) *cobra.Command {
	var policy string
	var ifMissing bool
	var app model.App
	cmd := &cobra.Command{
		Use:   name + " (--app ID --name NAME | --file FILE)",
		Short: "Provision the 64 shards of an app, all or none",
		Example: strings.ReplaceAll(`  shardid provision --app 1 --name test
  shardid provision --app 7 --name orders --step 5000 --max-limit-id 4294967295
  shardid provision --app 8 --name invoices --scramble
  shardid provision --app 9 --name carts --fresh carts    # app ID 9 was never used
  shardid provision --file apps.yaml              # such as - {id: 1, name: orders, step: 5000}
  shardid provision --if-missing --app 1 --name test    # in a script that runs again`,
			"provision", map[string]string{"provision": "provision", "add": "apps add"}[name]),
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	appFlag(cmd, &app.ID)
	f.StringVar(&app.Name, "name", "", "app `name`")
	f.StringVar(&app.Description, "description", "", "`text` for people")
	f.Int64Var(&app.Step, "step", admin.DefaultStep, "smallest segment, in `indices`")
	f.Int64Var(&app.Limit.MaxID, "max-limit-id", 0, "highest `ID` that may be issued, 0 for none")
	choose(cmd, &policy, "limit-policy", string(model.LimitReject), "above the limit: reject, or wrap, which repeats IDs", "reject", "wrap")
	f.BoolVar(&app.Scramble, "scramble", false, "IDs show neither their order nor how many there are; cannot be changed later")
	freshFlag(cmd, &app.Fresh, "app of this ID", "index 1")
	f.BoolVar(&ifMissing, "if-missing", false, "change nothing when the app is there under that name, for scripts that run again")
	file := c.fileFlag(cmd)
	return c.withStores(cmd, file.read, func(ctx context.Context, o opened) error {
		if file.name != "" {
			return file.run(ctx, o)
		}
		app.Limit.Policy = model.LimitPolicy(policy)
		found, made, err := o.provision(ctx, app, ifMissing)
		if err != nil {
			return err
		}
		return c.print(cmd, httpapi.NewAppItem(found), func(w io.Writer) {
			if !made {
				fmt.Fprintf(w, "app %d (%s) is there, nothing was changed\n", found.ID, found.Name)
				return
			}
			fmt.Fprintf(w, "app %d (%s) has its %d shards", found.ID, found.Name, found.Shards)
			if found.HighestIndex > 0 && found.Skipped == 0 { // it was deleted before
				fmt.Fprintf(w, "; it goes on above what it had handed out before it was deleted, up to index %d", found.HighestIndex)
			}
			fmt.Fprintln(w)
			printNotice(w, found.Notice())
		})
	})
}

func (c *cli) apps() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "apps",
		Short: "List the provisioned apps, as apps list does, or administrate them",
		Example: `  shardid apps
  shardid apps list --json
  shardid apps add --app 7 --name orders
  shardid apps set --app 7 --step 5000
  shardid apps delete --app 7 --confirm orders`,
		Args: cobra.NoArgs,
	}
	list := &cobra.Command{Use: "list", Short: "List the provisioned apps", Example: "  shardid apps list\n  shardid apps list --json", Args: cobra.NoArgs}
	cmd.AddCommand(c.listApps(list), c.provision("add"), c.appsSet(), c.appsDelete())
	return c.listApps(cmd)
}

func (c *cli) listApps(cmd *cobra.Command) *cobra.Command {
	return c.withStores(cmd, needData, func(ctx context.Context, o opened) error {
		apps, err := o.db.Apps(ctx)
		if err != nil {
			return err
		}
		return c.print(cmd, httpapi.Items(apps, httpapi.NewAppItem), appsTable(apps...))
	})
}

func appsTable(apps ...model.AppSummary) func(io.Writer) {
	return table(apps, "no app is provisioned: shardid provision --app 1 --name test",
		"APP\tNAME\tSHARDS\tSTEP\tHIGHEST INDEX\tMAX LIMIT ID\tPOLICY\tDESCRIPTION", func(a model.AppSummary) []any {
			limit := strconv.FormatInt(a.Limit.MaxID, 10)
			if a.MixedLimits { // by another program, or in SQL
				limit += " (not all shards)"
			}
			return []any{a.ID, a.Name, a.Shards, a.Step, a.HighestIndex, limit, a.Limit.Policy, a.Description}
		})
}

func (c *cli) appsSet() *cobra.Command {
	var app uint8
	var name, description, policy, confirm string
	var step, maxLimitID, minIndex, maxRate int64
	cmd := &cobra.Command{
		Use:   "set --app ID",
		Short: "Change an app: only what is given, and nothing that would let an ID repeat",
		Example: `  shardid apps set --app 7 --step 5000
  shardid apps set --app 7 --max-limit-id 0 --name "orders, all of them"
  shardid apps set --app 7 --min-index 1000000                         # every shard goes on above it
  shardid apps set --app 7 --max-limit-id 4294967295 --limit-policy wrap --confirm orders`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	appFlag(cmd, &app)
	f.StringVar(&name, "name", "", "app `name`")
	f.StringVar(&description, "description", "", "`text` for people")
	f.Int64Var(&step, "step", 0, "smallest segment, in `indices`")
	f.Int64Var(&maxLimitID, "max-limit-id", 0, "highest `ID` that may be issued, 0 for none; not below one that may have been")
	choose(cmd, &policy, "limit-policy", "", "above the limit: reject, or wrap, which repeats IDs and needs --confirm", "reject", "wrap")
	f.Int64Var(&minIndex, "min-index", 0, "raise max_id of every shard to this `index`")
	f.Int64Var(&maxRate, "max-rate", 0, "most `indices` a second of each shard, at most queue.max_list_rate, 0 for that one")
	f.StringVar(&confirm, "confirm", "", "`name` of the app")
	required(cmd, "app")
	return c.withStores(cmd, needData, func(ctx context.Context, o opened) error {
		limit := model.LimitPolicy(policy)
		after, _, err := o.admin.ChangeApp(ctx, operator(), app, model.AppChange{
			Name: given(f, "name", &name), Description: given(f, "description", &description),
			Step: given(f, "step", &step), MaxLimitID: given(f, "max-limit-id", &maxLimitID),
			LimitPolicy: given(f, "limit-policy", &limit), MinIndex: given(f, "min-index", &minIndex),
			MaxRate: given(f, "max-rate", &maxRate), Confirm: confirm,
		})
		if err != nil {
			return err
		}
		return c.print(cmd, httpapi.NewAppItem(after), func(w io.Writer) {
			appsTable(after)(w)
			tell(w, "app %d is changed", after.ID)
		})
	})
}

func (c *cli) appsDelete() *cobra.Command {
	var app uint8
	var confirm string
	cmd := &cobra.Command{
		Use:     "delete --app ID --confirm NAME",
		Short:   "Delete an app; what it handed out is remembered, should it come back",
		Example: "  shardid apps delete --app 7 --confirm orders",
		Args:    cobra.NoArgs,
	}
	appFlag(cmd, &app)
	cmd.Flags().StringVar(&confirm, "confirm", "", "`name` of the app")
	required(cmd, "app", "confirm")
	return c.withStores(cmd, needData, func(ctx context.Context, o opened) error {
		was, _, err := o.admin.DeleteApp(ctx, operator(), app, confirm)
		if err != nil {
			return err
		}
		return c.print(cmd, httpapi.NewAppItem(was), func(w io.Writer) {
			tell(w, "app %d (%s) is deleted; should it come back, it goes on above index %d", was.ID, was.Name, was.HighestIndex)
		})
	})
}

// appsFile is the list of apps of provision --file.
type appsFile struct {
	c    *cli
	cmd  *cobra.Command
	name string // "" without --file
	apps []model.App
}

// provisioned says in JSON and in a table what became of an app of the file.
type provisioned struct {
	AppID  uint8  `json:"appId"`
	Name   string `json:"name"`
	Action string `json:"action"` // made, there already, failed or not tried
	Notice string `json:"notice,omitempty"`
}

// fileFlag registers --file, beside which no other flag of the command says what to provision.
func (c *cli) fileFlag(cmd *cobra.Command) *appsFile {
	a := &appsFile{c: c, cmd: cmd}
	f := cmd.Flags()
	f.StringVar(&a.name, "file", "", "YAML `FILE` with a list of apps, in place of the other flags: those that are there under their names stay as they are")
	flags := []string{"app", "name", "description", "step", "max-limit-id", "limit-policy", "scramble", "fresh"}
	for _, other := range flags {
		cmd.MarkFlagsMutuallyExclusive("file", other)
	}
	cmd.MarkFlagsOneRequired("file", "app")
	cmd.MarkFlagsRequiredTogether("app", "name")
	return a
}

// read reads the file before any store is asked.
func (a *appsFile) read(context.Context, Config) error {
	if a.name == "" {
		return nil
	}
	data, err := yamlfile.Read(a.name)
	if err == nil {
		a.apps, err = parseApps(a.name, data)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", model.ErrInvalidArgument, err)
	}
	return nil
}

// run provisions each app that is not there. It goes on after one that is refused, and ends when the
// database fails.
func (a *appsFile) run(ctx context.Context, o opened) error {
	results, failed, lacking := make([]provisioned, len(a.apps)), []error{nil}, len(a.apps)
	for i, app := range a.apps {
		results[i] = provisioned{AppID: app.ID, Name: app.Name, Action: "not tried"}
		if down := new(model.StoreError); errors.As(errors.Join(failed...), &down) {
			continue
		}
		found, made, err := o.provision(ctx, app, true)
		if err != nil {
			results[i].Action, failed = "failed", append(failed, err)
			continue
		}
		results[i].Action = map[bool]string{true: "made", false: "there already"}[made]
		results[i].Notice = found.Notice()
		lacking--
	}
	if lacking > 0 {
		failed[0] = fmt.Errorf("%d of %d apps are not provisioned: correct what follows and run this again, "+
			"which leaves the others as they are", lacking, len(a.apps))
	}
	err := a.c.print(a.cmd, results, func(w io.Writer) {
		table(results, "", "APP\tNAME\tACTION", func(p provisioned) []any { return []any{p.AppID, p.Name, p.Action} })(w)
		for _, p := range results {
			if p.Notice != "" {
				printNotice(w, fmt.Sprintf("app %d (%s): %s", p.AppID, p.Name, p.Notice))
			}
		}
	})
	return errors.Join(append(failed, err)...)
}

// parseApps reads a list of apps, whose keys are the fields that HTTP takes for a new app. The error
// is one line with file and line.
func parseApps(file string, data []byte) ([]model.App, error) {
	root, err := yamlfile.Parse(file, data)
	if err != nil {
		return nil, err
	}
	if root == nil || root.Kind != yaml.SequenceNode || len(root.Content) == 0 {
		return nil, yamlfile.Fail(file, root, "", "is no list of apps: write each as - {id: 1, name: orders}")
	}
	apps := make([]model.App, 0, len(root.Content))
	for _, node := range root.Content {
		app, err := parseApp(file, node)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(apps, func(other model.App) bool { return other.ID == app.ID }) {
			return nil, yamlfile.Fail(file, node, "id", fmt.Sprintf("app %d is there twice: keep one", app.ID))
		}
		apps = append(apps, app)
	}
	return apps, nil
}

func parseApp(file string, node *yaml.Node) (model.App, error) {
	app := model.App{Step: admin.DefaultStep, Limit: model.Limit{Policy: model.LimitReject}}
	missing := map[string]any{
		"id": &app.ID, "name": &app.Name, "description": &app.Description, "step": &app.Step,
		"maxLimitId": &app.Limit.MaxID, "limitPolicy": &app.Limit.Policy, "scramble": &app.Scramble,
	}
	if node.Kind != yaml.MappingNode {
		return app, yamlfile.Fail(file, node, "", "is no app: write it as - {id: 1, name: orders}")
	}
	for pair := range slices.Chunk(node.Content, 2) {
		key, tag := yamlfile.Text(pair[0]), pair[1].ShortTag()
		field := missing[key]
		if delete(missing, key); field == nil {
			return app, yamlfile.Fail(file, pair[0], "", fmt.Sprintf("%.32q is no key of an app, or is there twice: "+
				"the keys are id, name, description, step, maxLimitId, limitPolicy and scramble", key))
		}
		// The library takes 1.5 for the number 1, and nothing for 0.
		if tag == "!!float" || tag == "!!null" || pair[1].Decode(field) != nil {
			return app, yamlfile.Fail(file, pair[0], key, "has a value of another kind: id is 0…255, step and maxLimitId are whole numbers, "+
				"scramble is true or false, and the others are texts, which quotes make of anything")
		}
	}
	for _, key := range []string{"id", "name"} {
		if missing[key] != nil {
			return app, yamlfile.Fail(file, node, key, "is missing: every app has an id and a name")
		}
	}
	if err := cmp.Or(app.Validate(), model.CheckText(app.Name, app.Description)); err != nil {
		return app, fmt.Errorf("%s: app %d: %w", yamlfile.At(file, node), app.ID, err)
	}
	return app, nil
}
