package main

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"regexp"
	"strconv"
	"time"

	"shardid/cmd/shardid/config"
	"shardid/repository/sqlstore"
	"shardid/service/httpapi"

	"github.com/spf13/cobra"
)

// answer is what a flag may be, with a description.
type answer struct{ value, description string }

// answers asks a store or a server.
type answers func(context.Context, Config) ([]answer, error)

// completeTimeout bounds what a completion asks a store or a server: somebody waits for it.
const completeTimeout = 2 * time.Second

// complete has shells complete the values of a flag with what ask gives.
func complete(cmd *cobra.Command, flag string, ask answers) {
	given := func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
		defer cancel()
		l, err := config.Load(cmd.Flags(), os.Environ())
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found, err := ask(ctx, l.Config)
		if err != nil {
			cobra.CompDebugln(err.Error(), false)
		}
		var all []cobra.Completion
		for _, a := range found {
			switch {
			case !completable.MatchString(a.value):
			case completable.MatchString(a.description):
				all = append(all, cobra.CompletionWithDesc(a.value, a.description))
			default:
				all = append(all, a.value)
			}
		}
		return all, cobra.ShellCompDirectiveNoFileComp
	}
	if err := cmd.RegisterFlagCompletionFunc(flag, given); err != nil {
		panic(err) // the flag is registered before
	}
}

// completable is what shells may be given. Those of cobra's scripts expand what they get, so
// that $(…) in a name would be run.
var completable = regexp.MustCompile(`^[\pL\pN][\pL\pN ._:/@+,-]*$`)

// appsOfDatabase are the apps that are provisioned.
func appsOfDatabase(ctx context.Context, cfg Config) (all []answer, err error) {
	err = reading(ctx, cfg, func(db *sqlstore.Store) error {
		apps, err := db.Apps(ctx)
		for _, a := range apps {
			all = append(all, answer{strconv.Itoa(int(a.ID)), a.Name})
		}
		return err
	})
	return all, err
}

// tagsOfDatabase are the tags of leaf_alloc.
func tagsOfDatabase(ctx context.Context, cfg Config) (all []answer, err error) {
	err = reading(ctx, cfg, func(db *sqlstore.Store) error {
		tags, err := db.Tags(ctx)
		for _, t := range tags {
			all = append(all, answer{t.Name, t.Description})
		}
		return err
	})
	return all, err
}

// reading opens the database, if there is one, for a question.
func reading(ctx context.Context, cfg Config, ask func(*sqlstore.Store) error) (err error) {
	if err := needData(ctx, cfg); err != nil {
		return err
	}
	db, err := openDatabase(ctx, cfg, nil, nil)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, db.Close()) }()
	return ask(db)
}

// apps are those that the server has.
func (a *asking) apps(ctx context.Context, cfg Config) (all []answer, err error) {
	status, err := a.status(ctx, cfg)
	if status.Queue != nil {
		for _, app := range status.Queue.Apps {
			all = append(all, answer{strconv.Itoa(int(app.App)), app.Name})
		}
	}
	return all, err
}

// tags are those that the server has served.
func (a *asking) tags(ctx context.Context, cfg Config) (all []answer, err error) {
	status, err := a.status(ctx, cfg)
	if status.Segment != nil {
		for _, tag := range status.Segment.Tags {
			all = append(all, answer{value: tag.Name})
		}
	}
	return all, err
}

func (a *asking) status(ctx context.Context, cfg Config) (status httpapi.Status, err error) {
	body, err := a.fetch(ctx, cfg, "/api/status")
	if err == nil {
		err = json.Unmarshal(body, &status)
	}
	return status, err
}
