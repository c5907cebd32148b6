package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"shardid/cmd/shardid/config"
	"shardid/model"
	"shardid/service/loadgen"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// benchFlags are what is not an option of the run itself.
type benchFlags struct {
	tokenFile    string
	caFile       string
	insecure     bool
	noDuplicates bool
}

func (c *cli) bench() *cobra.Command {
	opts, flags := loadgen.Defaults(), benchFlags{}
	cmd := &cobra.Command{
		Use:   "bench [--url URL] [--mode queue|segment|snowflake|uid]",
		Short: "Put a server under load and check that no ID comes twice",
		Example: `  shardid bench --url http://127.0.0.1:8080
  shardid bench --url http://127.0.0.1:8080 --mode segment --tag orders --count 100
  shardid bench --url https://ids.example.com --rate 5000 --duration 1m --json
  shardid bench --url http://127.0.0.1:9090 --raw /ping`,
		Args: cobra.NoArgs,
	}
	addLoadFlags(cmd.Flags(), &opts)
	offer(cmd, "mode", modes()...)
	addBenchFlags(cmd.Flags(), &flags, &opts)
	return c.command(cmd, func(cmd *cobra.Command, _ []string, cfg Config) error {
		if err := flags.apply(&opts, cfg); err != nil {
			return err
		}
		return bench(cmd.Context(), opts, c.json, cmd.OutOrStdout())
	})
}

func addLoadFlags(f *pflag.FlagSet, opts *loadgen.Options) {
	f.StringVar(&opts.URL, "url", "", "`URL` of the server (default http:// and the configured server.addr)")
	f.StringVar(&opts.Mode, "mode", opts.Mode, "queue, segment, snowflake or uid")
	f.IntVar(&opts.App, "app", opts.App, "app `ID` of the queue mode, 0…255")
	f.IntVar(&opts.Apps, "apps", 1, "how many `apps` from --app on take turns in the queue mode")
	f.IntVar(&opts.Passes, "passes", opts.Passes, "how many `values` of gatePass take turns in the queue mode")
	f.StringVar(&opts.Tag, "tag", opts.Tag, "`key` of the segment mode")
	f.IntVar(&opts.Count, "count", 0, "ask for batches of so many `IDs`, 1…10000 (default single ones)")
	f.StringVar(&opts.Raw, "raw", "", "fetch this `path` of any server instead, and read no IDs")
	f.Float64Var(&opts.Rate, "rate", 0, "`requests` due a second, over all connections (default a closed loop)")
	f.DurationVar(&opts.Duration, "duration", opts.Duration, "`time` that is measured")
	f.DurationVar(&opts.Warmup, "warmup", opts.Warmup, "`time` before, in which only duplicates are looked for")
	f.DurationVar(&opts.Timeout, "timeout", opts.Timeout, "`time` an answer may take")
	f.IntVar(&opts.Concurrency, "concurrency", opts.Concurrency, "`connections`, each with one request in flight")
}

func addBenchFlags(f *pflag.FlagSet, flags *benchFlags, opts *loadgen.Options) {
	f.Int64Var(&opts.Compare, "compare", opts.Compare, "look for duplicates among the first so many `IDs`, at 8 bytes each")
	f.BoolVar(&flags.noDuplicates, "no-duplicates", false, "do not look for duplicates, and keep no IDs")
	f.StringVar(&flags.tokenFile, "token-file", "", "`FILE` with a bearer token to send")
	f.StringVar(&flags.caFile, "ca-file", "", "PEM `FILE` of the authorities to trust with https (default the system's)")
	f.BoolVar(&flags.insecure, "insecure", false, "accept any certificate with https")
}

// apply completes the options.
func (b benchFlags) apply(opts *loadgen.Options, cfg Config) error {
	if opts.URL == "" {
		url, err := serverURL(cfg.Server)
		if err != nil {
			return err
		}
		opts.URL = url
	}
	if b.noDuplicates {
		opts.Compare = 0
	}
	if b.tokenFile != "" {
		token, err := os.ReadFile(b.tokenFile)
		if err != nil {
			return fmt.Errorf("read the bearer token: %w", err)
		}
		opts.Token = strings.TrimSpace(string(token))
	}
	secure, err := clientTLS{insecure: b.insecure}.trusting(b.caFile)
	if err != nil {
		return fmt.Errorf("--ca-file: %w", err)
	}
	opts.TLS = secure
	if isTerminal(os.Stderr) {
		opts.Progress = func(p loadgen.Progress) { printProgress(os.Stderr, p) }
	}
	return nil
}

// serverURL is where a server of this configuration is reached from its own machine.
func serverURL(s config.Server) (string, error) {
	host, port, err := net.SplitHostPort(s.Addr)
	if err != nil || port == "0" {
		return "", fmt.Errorf("%w: server.addr %q does not tell where the server is: give --url", model.ErrInvalidArgument, s.Addr)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return s.Scheme() + "://" + net.JoinHostPort(host, port), nil
}

// bench runs until the time is up or Ctrl-C, reports, and fails when an ID came
// twice, an answer was not what it must be, or nothing was answered.
func bench(ctx context.Context, opts loadgen.Options, asJSON bool, w io.Writer) error {
	l, err := loadgen.New(opts)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)() // from here on a signal kills
	report, err := l.Run(ctx)
	if opts.Progress != nil {
		clearProgress(os.Stderr)
	}
	if err != nil {
		return err
	}
	if asJSON {
		err = json.NewEncoder(w).Encode(newBenchObject(report))
	} else {
		err = printReport(w, report)
	}
	return errors.Join(err, verdict(report))
}

// verdict is what is wrong with a run, in one line.
func verdict(r *loadgen.Report) error {
	switch {
	case r.Duplicates.Count > 0:
		return fmt.Errorf("%d IDs came that had come before, such as %s: this must never be", r.Duplicates.Count, listed(r.Duplicates.First))
	case len(r.Breaches) > 0:
		return fmt.Errorf("the server broke its promises, %s", withFirst(r))
	case r.Requests == 0 && len(r.Errors) > 0:
		return fmt.Errorf("no request was answered as it should be, %s", withFirst(r))
	case r.Requests == 0:
		return fmt.Errorf("no request was answered in %v: try a longer --duration", r.Duration.Round(time.Millisecond))
	}
	return nil
}

func withFirst(r *loadgen.Report) string {
	name := slices.Sorted(maps.Keys(r.Breaches))
	if len(name) == 0 {
		return fmt.Sprintf("first error: %v", r.FirstError)
	}
	return fmt.Sprintf("%d times: %s", r.Breaches[name[0]], name[0])
}
