package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"time"

	"shardid/cmd/shardid/config"
	"shardid/model"
	"shardid/repository/redisstore"
	"shardid/repository/sqlstore"
	"shardid/service/access"
	"shardid/service/admin"
)

// opened is the database for one command.
type opened struct {
	db    *sqlstore.Store
	admin *admin.Service // audit lines go to log
	log   *slog.Logger   // that of the cli
}

// onStores gives run the database, which must be there, with the schema in place on SQLite.
// Redis vouches for it as it does for replicas.
func (c *cli) onStores(ctx context.Context, cfg Config, run func(context.Context, opened) error) (err error) {
	client, err := openRedis(cfg, nil)
	if err != nil {
		return err
	}
	if client != nil {
		defer func() { err = cmp.Or(err, client.Close()) }()
	}
	db, err := openDatabase(ctx, cfg, false, nil, client, nil)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, db.Close()) }()
	if err := ownSchema(ctx, cfg, db); err != nil {
		return err
	}
	_ = tellDeployment(ctx, db, client) // run says what is wrong with the database
	log := slog.New(newLogHandler(&c.log, cfg.Log.Format == "text", slog.LevelInfo))
	opts := adminOptions(cfg, db, log)
	if client != nil {
		opts.Forget = client.Sequences().Forget
	}
	return run(ctx, opened{db, admin.New(opts), log})
}

// onDatabase runs what asks the process that serves with the embedded database, or, where none does, what works on the
// stores.
func (c *cli) onDatabase(ctx context.Context, cfg Config, through func(socket http.RoundTripper) error,
	on func(context.Context, opened) error) (err error) {
	for range 3 { // who has an embedded database may be about to listen, or a command that ends
		if socket := throughSocket(ctx, cfg); socket != nil {
			return through(socket)
		}
		if err = c.onStores(ctx, cfg, on); !errors.Is(err, sqlstore.ErrHeld) {
			break
		}
	}
	return err
}

// openDatabase opens the configured database, for which client vouches; it may be nil. mayMake is for an embedded one
// that is not there. But where an earlier one was, no new one is begun, as its IDs would begin at 1 again: the worker
// file of an instance, which is written only after the database was there, tells of one that was lost. log is told of
// rows that cannot be used; it and observe may be nil. Errors: also sqlstore.ErrHeld and ErrNoDatabase.
func openDatabase(ctx context.Context, cfg Config, mayMake bool, log *slog.Logger, client *redisstore.Store,
	observe model.Observe) (*sqlstore.Store, error) {
	var secure *tls.Config
	if cfg.Database.TLS {
		secure = &tls.Config{MinVersion: tls.VersionTLS12}
		if err := addTLSFiles(secure, "database", cfg.Database.TLSFiles); err != nil {
			return nil, err
		}
	}
	// Before the database: what another process makes in between is no trace.
	traces, err := filepath.Glob(filepath.Join(cfg.DataDir, "*", "*", "worker.json"))
	if err != nil {
		return nil, err
	}
	opts := sqlstore.Options{
		Existing: !mayMake || len(traces) > 0,
		Driver:   cfg.Database.Driver, DSN: cfg.DatabaseDSN(), Hosts: cfg.Database.Hosts, Region: region(cfg),
		TLS: secure, ListRate: int64(cfg.Queue.MaxListRate), TagRate: int64(cfg.Segment.MaxRate), Observe: observe,
	}
	if client != nil {
		opts.Witness = client.Marks()
	}
	if log != nil {
		opts.OnBadRow = tellBadRows(log)
		opts.OnServerChange = func(gap time.Duration, vouched bool) {
			log.Warn("find out whether the database was restarted, failed over or restored: what it may lack is "+
				"skipped, unless Redis vouches for it",
				"may_lack", gap.Round(time.Second).String(), "redis_vouches", vouched)
		}
	}
	db, err := (*sqlstore.Store)(nil), sqlstore.ErrHeld
	if throughSocket(ctx, cfg) == nil { // else its process lives, even if the file was removed
		db, err = sqlstore.Open(ctx, opts)
	}
	switch file := opts.DSN; {
	case errors.Is(err, sqlstore.ErrHeld) && mayMake:
		err = fmt.Errorf("%w: %w", model.Do("stop the shardid that serves with %s, or set another data_dir or "+
			"database.dsn", file), err)
	case errors.Is(err, sqlstore.ErrHeld):
		err = fmt.Errorf("%w: %w", model.Do("stop the shardid that serves with %s, or ask it, as with `shardid status`",
			file), err)
	case errors.Is(err, sqlstore.ErrNoDatabase) && len(traces) > 0:
		err = fmt.Errorf("restore %s from a backup, or correct data_dir and database.dsn; if all of its IDs may be "+
			"forgotten, remove %s, which tells of an earlier start: the file has no tables of shardid, and a new "+
			"database would issue its IDs again", file, traces[0])
	case errors.Is(err, sqlstore.ErrNoDatabase):
		err = fmt.Errorf("set database.driver and database.dsn to those of the service, or begin an embedded database "+
			"with `shardid serve` or `shardid migrate`: %w at %s", err, file)
	}
	return db, err
}

// ownSchema brings the schema of an embedded database up to date. That of a server is
// the operator's, by shardid migrate.
func ownSchema(ctx context.Context, cfg Config, db *sqlstore.Store) error {
	if cfg.Database.Driver != sqlstore.SQLite {
		return nil
	}
	return db.Migrate(ctx, func(string) {})
}

// tellDeployment tells Redis whose keys to use, as only the database knows it.
func tellDeployment(ctx context.Context, db *sqlstore.Store, client *redisstore.Store) error {
	if client == nil {
		return nil
	}
	id, err := db.Deployment(ctx)
	if err == nil {
		client.SetDeployment(id)
	}
	return err
}

// openRedis gives nil for lists in the process.
func openRedis(cfg Config, observe model.Observe) (*redisstore.Store, error) {
	if cfg.Redis.URL == "" {
		return nil, nil
	}
	opts, err := redisstore.ParseURL(cfg.Redis.URL)
	if err == nil && opts.TLS != nil {
		err = addTLSFiles(opts.TLS, "redis", cfg.Redis.TLSFiles)
	}
	if err != nil {
		return nil, err
	}
	opts.Observe = observe
	return redisstore.New(opts), nil
}

// redisLog takes what go-redis writes by itself; the failures it tells of come
// back as errors too.
type redisLog struct{ log *slog.Logger }

// Printf implements go-redis' logger.
func (l redisLog) Printf(ctx context.Context, format string, v ...any) {
	l.log.DebugContext(ctx, "go-redis: "+fmt.Sprintf(format, v...))
}

// addTLSFiles reads the files of a section. The certificate is read again for each connection, so that one
// that is renewed needs no restart.
func addTLSFiles(cfg *tls.Config, section string, files config.TLSFiles) (err error) {
	if files.TLSCAFile != "" {
		if cfg.RootCAs, err = access.ReadPool(files.TLSCAFile); err != nil {
			return fmt.Errorf("%s.tls_ca_file: %w", section, err)
		}
	}
	if files.TLSCertFile == "" {
		return nil
	}
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		cert, err := tls.LoadX509KeyPair(files.TLSCertFile, files.TLSKeyFile)
		return &cert, err
	}
	if _, err := cfg.GetClientCertificate(nil); err != nil {
		return fmt.Errorf("%[1]w: %[2]s.tls_cert_file and %[2]s.tls_key_file: %[3]w",
			model.Do("name the PEM files of a certificate and its key that this user may read"), section, err)
	}
	return nil
}
