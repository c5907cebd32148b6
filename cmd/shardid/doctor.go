package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"shardid/model"
	"shardid/repository/redisstore"
	"shardid/repository/sqlstore"
	"shardid/service/background"

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
	ask, others := asking{timeout: 10 * time.Second}, []string{}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check whether the stores are set up so that no ID can repeat",
		Example: `  shardid doctor
  shardid doctor --config /etc/shardid/config.yaml --json
  shardid doctor --region https://ids.eu.example.com --region https://ids.us.example.com`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringArrayVar(&others, "region", nil, "`URL` of a deployment in another region, which must not issue the same IDs; may be repeated")
	f.StringVar(&ask.tokenFile, "token-file", "", "`FILE` with a bearer token for these")
	f.StringVar(&ask.caFile, "ca-file", "", "PEM `FILE` of the authorities to trust with https (default the system's)")
	return c.command(cmd, func(cmd *cobra.Command, _ []string, cfg Config) error {
		redis.SetLogger(redisLog{slog.New(slog.DiscardHandler)}) // its failures come back as errors
		found, err := examine(cmd.Context(), []inspection{
			{"database", func(ctx context.Context) ([]model.Finding, error) { return askDatabase(ctx, cfg) }},
			{"redis", func(ctx context.Context) ([]model.Finding, error) { return askRedis(ctx, cfg) }},
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
	path := cfg.DatabaseDSN()
	if errors.Is(needData(ctx, cfg), errNoData) && checkEmbedded(ctx, cfg) == nil {
		return []model.Finding{{Store: "database", Node: path, Setting: "file", Want: "made by the first start",
			Level: model.LevelUnknown, Why: "it does not exist yet, so there is nothing to check: ask again after `shardid serve`"}}, nil
	}
	db, err := openDatabase(ctx, cfg, nil, nil, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if found, err = db.Settings(ctx); err != nil {
		return found, err
	}
	limits, err := askLimits(ctx, db)
	if err != nil {
		limits = []model.Finding{model.Unread(model.Finding{Store: "database", Setting: "limits of the apps", Want: "any"}, oneLine(err))}
	}
	return append(found, limits...), nil
}

// askLimits tells which apps have a limit and refuse the IDs above it: a table of the
// original article may have limits, past which its service repeated IDs.
func askLimits(ctx context.Context, db *sqlstore.Store) (found []model.Finding, err error) {
	apps, err := db.Apps(ctx)
	for _, a := range apps {
		if a.Limit.MaxID > 0 && a.Limit.Policy == model.LimitReject {
			found = append(found, model.Finding{
				Store: "database", Setting: fmt.Sprintf("limit of app %d (%s)", a.ID, a.Name),
				Value: fmt.Sprintf("max_limit_id %d, policy reject", a.Limit.MaxID), Want: "any", Level: model.LevelOK,
				Why: "an ID above the limit is refused with code -5; " + model.WrapAdvice(a.ID, a.Name),
			})
		}
	}
	return found, err
}

func askRedis(ctx context.Context, cfg Config) (found []model.Finding, err error) {
	if cfg.Redis.URL == "" {
		return embeddedLists(ctx)
	}
	store, err := openRedis(cfg, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	found, err = store.Settings(ctx)
	if err != nil {
		return found, err
	}
	return append(found, askDeployment(ctx, cfg, store)), nil
}

// askDeployment says whether the lists at Redis are those of the database.
func askDeployment(ctx context.Context, cfg Config, store *redisstore.Store) model.Finding {
	f := model.Finding{Store: "redis", Setting: "deployment of the lists", Want: "that of the database"}
	db, err := openDatabase(ctx, cfg, nil, nil, nil)
	if err != nil {
		return model.Unread(f, oneLine(err))
	}
	defer func() { _ = db.Close() }() // it was only read
	own, err := db.Deployment(ctx)
	var owners map[string]int
	if err == nil {
		owners, err = store.Owners(ctx, own, cfg.Snowflake.Name)
	}
	if err != nil {
		return model.Unread(f, oneLine(err))
	}
	delete(owners, own)
	others := slices.Sorted(maps.Keys(owners))
	if f.Value = "that of the database"; len(others) == 0 {
		return model.Judged(f, true, model.LevelOK, "")
	}
	f.Value = fmt.Sprintf("%d keys of %s", owners[others[0]], others[0])
	return model.Judged(f, false, model.LevelUnsafe,
		"these lists are refused: give each deployment a Redis database of its own, or, if this database takes the "+
			"place of that one, run `shardid confirm --deployment "+others[0]+" --confirm "+own+"`")
}

// embeddedLists: they cannot be set up wrongly.
func embeddedLists(context.Context) ([]model.Finding, error) {
	return []model.Finding{{Store: "redis", Setting: "redis.url", Value: "embedded", Want: "any", Level: model.LevelOK,
		Why: "the lists end with the process, and each start begins a new segment"}}, nil
}

// examine asks all stores at once and gives the findings in the order of the
// stores. A store that does not answer has a finding that says so. The error is
// one line about everything that is unsafe or away.
func examine(ctx context.Context, stores []inspection) ([]model.Finding, error) {
	found := make([][]model.Finding, len(stores))
	errs := make([]error, len(stores))
	var wg sync.WaitGroup
	for i, s := range stores {
		wg.Go(func() {
			bounded, cancel := context.WithTimeout(ctx, inspectTimeout)
			defer cancel()
			found[i], errs[i] = s.ask(bounded)
		})
	}
	wg.Wait()
	all := []model.Finding{}
	var problems []string
	for i, s := range stores {
		all = append(all, found[i]...)
		for _, f := range found[i] {
			if f.Level == model.LevelUnsafe {
				problems = append(problems, fmt.Sprintf("%s: unsafe: %s is %s, it should be %s",
					strings.TrimSpace(f.Store+" "+f.Node), f.Setting, f.Value, f.Want))
			}
		}
		if errs[i] != nil {
			problems = append(problems, oneLine(errs[i]))
			all = append(all, model.Finding{Store: s.store, Setting: "reachable", Value: "no", Want: "yes",
				Level: model.LevelUnknown, Why: oneLine(errs[i])})
		}
	}
	if len(problems) > 0 {
		return all, errors.New(strings.Join(problems, "; ")) // no invalid argument of ours, whatever it wraps
	}
	return all, nil
}

// askAgain is the pause before a store that was away is asked again, and lookAgain that
// before one that has answered is: a setting may have been mended, or another server have
// taken over.
const (
	askAgain  = 2 * time.Second
	lookAgain = time.Minute
)

// settingsWatch asks each store for its settings again and again, and logs every finding
// that endangers IDs once. It keeps quiet about stores that are away: the health monitor
// tells of them.
type settingsWatch struct {
	*background.Group
	log    *slog.Logger
	stores []inspection

	mu    sync.Mutex
	found map[string][]model.Finding // by store, as it last answered
}

func newSettingsWatch(log *slog.Logger, stores ...inspection) *settingsWatch {
	return &settingsWatch{Group: background.NewGroup("settings"), log: log, stores: stores, found: map[string][]model.Finding{}}
}

// Start returns at once. Call it at most once. Stop ends the questions and waits.
func (w *settingsWatch) Start() {
	for _, s := range w.stores {
		w.Go(func() { w.run(s) })
	}
}

func (w *settingsWatch) run(s inspection) {
	said := map[string]bool{}
	for pause := time.Duration(0); w.Sleep(pause); {
		ctx, cancel := context.WithTimeout(w.Context(), inspectTimeout)
		found, err := s.ask(ctx)
		cancel()
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
			if key := f.Node + " " + f.Setting; line != "" && !said[key] {
				said[key] = true
				w.log.Warn(line, "store", f.Store, "node", f.Node, "setting", f.Setting,
					"value", f.Value, "want", f.Want, "why", f.Why)
			}
		}
		if pause = lookAgain; err != nil {
			pause = askAgain
			w.log.Debug("the settings of a store cannot be read yet", "store", s.store, "error", err)
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
