package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"shardid/model"
	"shardid/repository/sqlstore"
	"shardid/service/background"
	"shardid/service/monitor"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
)

// inspectTimeout bounds the questions to one store.
const inspectTimeout = 10 * time.Second

// inspection reads the settings of one store. Its error comes with what could be
// read nevertheless.
type inspection struct {
	store string // "database" or "redis"
	ask   func(context.Context) ([]model.Finding, error)
}

func (c *cli) doctor() *cobra.Command {
	var ask asking
	var others []string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check whether stores, clocks and replicas let IDs be issued, and never twice",
		Example: `  shardid doctor
  shardid doctor --config /etc/shardid/config.yaml --json
  shardid doctor --region https://ids.eu.example.com --region https://ids.us.example.com`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringArrayVar(&others, "region", nil, "`URL` of a deployment in another region, which must not issue the same "+
		"IDs; may be repeated")
	f.DurationVar(&ask.timeout, "timeout", 2*time.Second, "`time` that the answer of a replica or URL may take")
	f.StringVar(&ask.tokenFile, "token-file", "", "`FILE` with a bearer token for these URLs and for the replicas")
	f.StringVar(&ask.caFile, "ca-file", "", "PEM `FILE` of the authorities to trust with https (default the system's)")
	return c.command(cmd, func(cmd *cobra.Command, _ []string, cfg Config) error {
		redis.SetLogger(redisLog{slog.New(slog.DiscardHandler)}) // its failures come back as errors
		if _, err := ask.token(); err != nil {
			return err
		}
		found, err := examine(cmd.Context(), []inspection{
			{"database", func(ctx context.Context) ([]model.Finding, error) { return askDatabase(ctx, cfg) }},
			{"redis", func(ctx context.Context) ([]model.Finding, error) { return askRedis(ctx, cfg) }},
			{"replica", func(ctx context.Context) ([]model.Finding, error) { return askReplicas(ctx, cfg, ask), nil }},
			{"region", func(ctx context.Context) ([]model.Finding, error) { return askRegions(ctx, cfg, ask, others) }},
		})
		return errors.Join(c.print(cmd, found, table(found, "",
			"STORE\tNODE\tSETTING\tVALUE\tWANTED\tVERDICT\tWHY", func(f model.Finding) []any {
				return []any{f.Store, cmp.Or(f.Node, "-"), f.Setting, cmp.Or(f.Value, "-"), f.Want, f.Level,
					cmp.Or(f.Why, "-")}
			})), err)
	})
}

// askDatabase creates no file: the user who examines may be another than the one who
// serves.
func askDatabase(ctx context.Context, cfg Config) (found []model.Finding, err error) {
	file := model.Finding{Store: "database", Node: cfg.DatabaseDSN(), Setting: "file", Level: model.LevelUnknown}
	db, err := openDatabase(ctx, cfg, false, nil, nil, nil)
	switch {
	case errors.Is(err, sqlstore.ErrNoDatabase):
		file.Want, file.Why = "made by the first start", "ask again after `shardid serve`: it does not exist yet, so "+
			"there is nothing to check"
		return []model.Finding{file}, nil
	case errors.Is(err, sqlstore.ErrHeld):
		file.Value, file.Want, file.Why = "in use", "checked by the process that serves with it", model.Message(err)
		return []model.Finding{file}, nil
	case err != nil:
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return db.Settings(ctx)
}

func askRedis(ctx context.Context, cfg Config) (found []model.Finding, err error) {
	store, err := openRedis(cfg, nil)
	if err != nil || store == nil { // lists in the process cannot be set up wrongly
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return store.Settings(ctx)
}

// askReplicas asks the replicas that share the stores for their alarms, without Redis or with an embedded database
// that of this configuration.
func askReplicas(ctx context.Context, cfg Config, ask asking) (found []model.Finding) {
	urls := []string{""}
	if cfg.Redis.URL != "" && cfg.Database.Driver != sqlstore.SQLite {
		urls = consoles(ctx, cfg)
	}
	for _, ask.url = range urls {
		status, _, err := ask.status(context.WithoutCancel(ctx), cfg) // one that hangs takes no time of others
		f := model.Finding{Store: "replica", Node: cmp.Or(ask.url, cfg.Server.Addr), Setting: "alarms", Value: "none",
			Want: "none", Level: model.LevelOK}
		if err != nil {
			f.Value, f.Level, f.Why = "", model.LevelUnknown, model.Message(err)
		}
		if len(status.Alarms) == 0 {
			found = append(found, f)
		}
		for _, alarm := range status.Alarms {
			f.Value, f.Why = alarm.Name, alarm.Message
			f.Level = map[monitor.Severity]model.Level{
				monitor.Critical: model.LevelUnsafe, monitor.Warning: model.LevelWarn, monitor.Info: model.LevelOK,
			}[alarm.Severity]
			found = append(found, f)
		}
	}
	return found
}

// consoles are the URLs of the replicas, as Redis has them; none while a store is away, which is a finding of its own.
func consoles(ctx context.Context, cfg Config) (urls []string) {
	client, err := openRedis(cfg, nil)
	if err != nil {
		return nil
	}
	defer client.Close()
	db, err := openDatabase(ctx, cfg, false, nil, nil, nil)
	if err != nil {
		return nil
	}
	defer db.Close()
	_ = tellDeployment(ctx, db, client)
	own := func() (none monitor.Record) { return none }
	for _, r := range monitor.NewReplicas(client.Replicas(), own).View(ctx).Replicas {
		if r.URL != "" { // else it is this process
			urls = append(urls, r.URL)
		}
	}
	return urls
}

// examine asks one store after the other. A store that does not answer has a finding that says so. The error is
// one line about everything that is unsafe or unreachable.
func examine(ctx context.Context, stores []inspection) ([]model.Finding, error) {
	all := []model.Finding{}
	var problems []string
	for _, s := range stores {
		bounded, cancel := context.WithTimeout(ctx, inspectTimeout)
		found, err := s.ask(bounded)
		cancel()
		for _, f := range found {
			if f.Level == model.LevelUnsafe {
				problems = append(problems, fmt.Sprintf(
					"do what WHY says of %s: %s is unsafe: it is %s, and should be %s",
					f.Setting, strings.TrimSpace(f.Store+" "+f.Node), f.Value, f.Want))
			}
		}
		all = append(all, found...)
		if err != nil {
			problems = append(problems, model.Message(err))
			all = append(all, model.Finding{Store: s.store, Setting: "reachable", Value: "no", Want: "yes",
				Level: model.LevelUnknown, Why: model.Message(err)})
		}
	}
	if len(problems) > 0 {
		return all, errors.New(strings.Join(problems, "; ")) // no invalid argument of ours, whatever it wraps
	}
	return all, nil
}

// lookAgain is the pause between two looks at the settings of all stores: one may have been mended, or another server
// have taken over.
const lookAgain = 30 * time.Second

// settingsWatch asks the stores for their settings again and again, and logs every finding
// that endangers IDs once. It keeps quiet about stores that are unreachable: the health monitor
// tells of them.
type settingsWatch struct {
	*background.Group
	log    *slog.Logger
	stores []inspection
	said   map[string]bool // the findings that are logged; of the goroutine that looks

	mu    sync.Mutex
	found map[string][]model.Finding // by store, as it last answered
}

func newSettingsWatch(log *slog.Logger, stores ...inspection) *settingsWatch {
	return &settingsWatch{Group: background.NewGroup("settings"), log: log, stores: stores, said: map[string]bool{},
		found: map[string][]model.Finding{}}
}

// Start returns at once. Call it at most once. Stop ends the questions and waits.
func (w *settingsWatch) Start() { w.Go(func() { w.Every(lookAgain, w.lookAtSettings) }) }

func (w *settingsWatch) lookAtSettings() {
	for _, s := range w.stores {
		ctx, cancel := context.WithTimeout(w.Context(), inspectTimeout)
		found, err := s.ask(ctx)
		cancel()
		if err != nil {
			w.log.Debug("the settings of a store cannot be read yet", "store", s.store, "error", err)
		}
		if len(found) > 0 { // else what it said before holds
			w.mu.Lock()
			w.found[s.store] = found
			w.mu.Unlock()
		}
		for _, f := range found {
			line := map[model.Level]string{
				model.LevelUnsafe: "setting of a store is unsafe",
				model.LevelWarn:   "setting of a store could be better",
			}[f.Level]
			if key := s.store + " " + f.Node + " " + f.Setting; line != "" && !w.said[key] {
				w.said[key] = true
				w.log.Warn(f.Why+": "+line, "store", f.Store, "node", f.Node, "setting", f.Setting,
					"value", f.Value, "want", f.Want)
			}
		}
	}
}

// Findings are what the stores said of their settings, when last asked, in the order
// of the stores. Safe for concurrent use.
func (w *settingsWatch) Findings() (all []model.Finding) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.stores {
		all = append(all, w.found[s.store]...)
	}
	return all
}
