package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"shardid/model"
	"shardid/service/admin"
	"shardid/service/yamlfile"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
)

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
}

// fileFlag registers --file, beside which no other flag of the command says what to provision.
func (c *cli) fileFlag(cmd *cobra.Command) *appsFile {
	a := &appsFile{c: c, cmd: cmd}
	f := cmd.Flags()
	f.StringVar(&a.name, "file", "", "YAML `FILE` with a list of apps, in place of the other flags: those that are there under their names stay as they are")
	for _, other := range []string{"app", "name", "description", "step", "max-limit-id", "limit-policy", "scramble"} {
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
		results[i] = provisioned{app.ID, app.Name, "not tried"}
		if down := new(model.StoreError); errors.As(errors.Join(failed...), &down) {
			continue
		}
		_, made, err := o.provision(ctx, app, true)
		if err != nil {
			results[i].Action, failed = "failed", append(failed, err)
			continue
		}
		results[i].Action = map[bool]string{true: "made", false: "there already"}[made]
		lacking--
	}
	if lacking > 0 {
		failed[0] = fmt.Errorf("%d of %d apps are not provisioned: correct what follows and run this again, "+
			"which leaves the others as they are", lacking, len(a.apps))
	}
	err := a.c.print(a.cmd, results, table(results, "", "APP\tNAME\tACTION", func(p provisioned) []any {
		return []any{p.AppID, p.Name, p.Action}
	}))
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
