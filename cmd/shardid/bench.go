package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"shardid/cmd/shardid/config"
	"shardid/model"
	"shardid/service/loadgen"

	"github.com/spf13/cobra"
)

func (c *cli) bench() *cobra.Command {
	var ask asking
	var noDuplicates bool
	var proto string
	opts := loadgen.Defaults()
	cmd := &cobra.Command{
		Use:   "bench [--url URL] [--proto http|resp] [--mode queue|segment|snowflake|uid|sequence]",
		Short: "Put a server under load and check that no ID comes twice",
		Example: `  shardid bench --url http://127.0.0.1:8080
  shardid bench --url http://127.0.0.1:8080 --mode segment --tag orders --count 100
  shardid bench --url https://ids.example.com --rate 5000 --duration 1m --json
  shardid bench --proto resp --url redis://127.0.0.1:6380 --pipeline 16
  shardid bench --proto resp --url redis://127.0.0.1:6380 --mode segment --tag orders --count 100
  shardid bench --url http://127.0.0.1:8080 --mode sequence --space chat --passes 1000
  shardid bench --url http://127.0.0.1:9090 --raw /ping`,
		Args: cobra.NoArgs,
	}
	ask.asClient(cmd, opts.Timeout)
	choose(cmd, &proto, "proto", "", "http, or resp for INCR, and LPOP with --count (default that of --url, else http)", "http", "resp")
	choose(cmd, &opts.Mode, "mode", opts.Mode, "queue, segment, snowflake, uid or sequence", modes()...)
	f := cmd.Flags()
	f.IntVar(&opts.App, "app", opts.App, "app `ID` of the queue mode, 0…255")
	f.IntVar(&opts.Apps, "apps", 1, "how many `apps` from --app on take turns in the queue mode")
	f.IntVar(&opts.Passes, "passes", opts.Passes, "how many `values` of gatePass take turns in the queue mode, or keys in the sequence mode")
	f.StringVar(&opts.Tag, "tag", opts.Tag, "`key` of the segment mode")
	f.StringVar(&opts.Space, "space", "", "`space` of the sequence mode, whose numbers are not compared")
	complete(cmd, "app", ask.apps)
	complete(cmd, "tag", ask.tags)
	f.IntVar(&opts.Count, "count", 0, "ask for batches of so many `IDs`, 1…10000 (default single ones)")
	f.IntVar(&opts.Pipeline, "pipeline", 1, "how many `commands` are sent together over RESP, 1…1000")
	f.StringVar(&opts.Raw, "raw", "", "fetch this `path` of any server instead, and read no IDs")
	f.Float64Var(&opts.Rate, "rate", 0, "`requests` due a second, over all connections (default a closed loop)")
	f.DurationVar(&opts.Duration, "duration", opts.Duration, "`time` that is measured")
	f.DurationVar(&opts.Warmup, "warmup", opts.Warmup, "`time` before, in which only duplicates are looked for")
	f.IntVar(&opts.Concurrency, "concurrency", opts.Concurrency, "`connections`, each with one request in flight")
	f.Int64Var(&opts.Compare, "compare", opts.Compare, "look for duplicates among the first so many `IDs`, at 8 bytes each")
	f.BoolVar(&noDuplicates, "no-duplicates", false, "do not look for duplicates, and keep no IDs")
	return c.command(cmd, func(cmd *cobra.Command, _ []string, cfg Config) (err error) {
		opts.Timeout = ask.timeout
		if opts.URL, err = benchURL(ask.url, proto, cfg); err != nil {
			return err
		}
		if noDuplicates {
			opts.Compare = 0
		}
		if opts.Token, err = ask.token(); err != nil {
			return err
		}
		if opts.TLS, err = tlsTo("", ask.caFile, ask.insecure); err != nil {
			return fmt.Errorf("--ca-file: %w", err)
		}
		if isTerminal(os.Stderr) {
			opts.Progress = func(p loadgen.Progress) { printProgress(os.Stderr, p) }
		}
		return c.runBench(cmd, opts)
	})
}

// benchURL is the server to measure: the one that was asked for, else that of this
// configuration. proto is "" where the URL decides.
func benchURL(asked, proto string, cfg Config) (string, error) {
	scheme, _, _ := strings.Cut(asked, "://")
	isRESP := scheme == "redis" || scheme == "rediss"
	switch {
	case asked == "" && proto != "resp":
		return serverURL(cfg.Server)
	case asked == "" && cfg.RESP.Addr == "":
		return "", fmt.Errorf("%w: resp.addr is not set: set it and restart the server, or give --url, "+
			"redis://127.0.0.1:6380 for example", model.ErrInvalidArgument)
	case asked == "":
		url, err := serverURL(config.Server{Addr: cfg.RESP.Addr, TLSCertFile: cfg.Server.TLSCertFile})
		if err != nil {
			return "", fmt.Errorf("%w: resp.addr %q does not tell where the server is: give --url",
				model.ErrInvalidArgument, cfg.RESP.Addr)
		}
		return strings.Replace(url, "http", "redis", 1), nil
	case proto == "resp" && !isRESP:
		return "", fmt.Errorf("%w: --proto resp needs a --url like redis://127.0.0.1:6380, or rediss:// with TLS, not %q",
			model.ErrInvalidArgument, asked)
	case proto == "http" && isRESP:
		return "", fmt.Errorf("%w: --proto http needs a --url like http://127.0.0.1:8080, not %q",
			model.ErrInvalidArgument, asked)
	}
	return asked, nil
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

// runBench runs until the time is up or Ctrl-C, reports, and fails when an ID came
// twice, an answer was not what it must be, or nothing was answered.
func (c *cli) runBench(cmd *cobra.Command, opts loadgen.Options) error {
	l, err := loadgen.New(opts)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)() // from here on a signal kills
	report, err := l.Run(ctx)
	if opts.Progress != nil {
		fmt.Fprint(os.Stderr, clearLine)
	}
	if err != nil {
		return err
	}
	err = c.print(cmd, report, func(w io.Writer) { printReport(w, report) })
	return errors.Join(err, verdict(report))
}

// verdict is what is wrong with a run, in one line, the most serious first.
func verdict(r *loadgen.Report) error {
	switch breaches := slices.Sorted(maps.Keys(r.Breaches)); {
	case r.Duplicates > 0:
		return fmt.Errorf("%d IDs came that had come before, such as %s: this must never be",
			r.Duplicates, listed(r.FirstDuplicates))
	case len(breaches) > 0:
		return fmt.Errorf("the server broke its promises, %d times: %s", r.Breaches[breaches[0]], breaches[0])
	case r.Requests == 0 && len(r.Errors) > 0:
		return errors.New("no request was answered as it should be, first error: " + r.FirstError)
	case r.Requests == 0:
		return fmt.Errorf("no request was answered in %v: try a longer --duration", measured(r))
	}
	return nil
}

// rawMode is the mode of a report without IDs.
const rawMode = "raw"

// printReport is the report for people, in columns.
func printReport(w io.Writer, r *loadgen.Report) {
	interrupted := map[bool]string{true: ", interrupted"}[r.Interrupted]
	fmt.Fprintf(w, "%s\t%s, %s measured%s\n", r.Mode, r.URL, measured(r), interrupted)
	fmt.Fprintf(w, "requests\t%s\t%s/s\n", grouped(r.Requests), grouped(int64(r.RequestsPerSecond)))
	if r.Mode != rawMode {
		fmt.Fprintf(w, "IDs\t%s\t%s/s\n", grouped(r.IDs), grouped(int64(r.IDsPerSecond)))
	}
	if r.IntendedRate > 0 {
		fmt.Fprintf(w, "rate\t%.6g/s intended, %.6g/s achieved", r.IntendedRate, r.AchievedRate)
		if r.Unsent > 0 {
			fmt.Fprintf(w, ", %s due and not sent in time: the latencies count how long they had waited", grouped(r.Unsent))
		}
		fmt.Fprintln(w)
	}
	l := r.Latency
	fmt.Fprintf(w, "latency\tp50 %s  p90 %s  p99 %s  p99.9 %s  max %s  mean %s\n",
		short(l.P50), short(l.P90), short(l.P99), short(l.P999), short(l.Max), short(l.Mean))
	fmt.Fprintf(w, "errors\t%s\n", failures(r.Errors))
	if r.FirstError != "" {
		fmt.Fprintf(w, "first error\t%s\n", r.FirstError)
	}
	if r.Mode != rawMode {
		fmt.Fprintf(w, "bad answers\t%s\n", failures(r.Breaches))
		fmt.Fprintf(w, "duplicates\t%s\n", duplicates(r))
	}
}

// failures lists kinds, the most frequent first.
func failures(counts map[string]int64) string {
	if len(counts) == 0 {
		return "none"
	}
	kinds := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
	for i, k := range kinds {
		kinds[i] = fmt.Sprintf("%s × %s", grouped(counts[k]), k)
	}
	return strings.Join(kinds, ", ")
}

// duplicates says how many there are, and among how many IDs: none among few would
// say little.
func duplicates(r *loadgen.Report) string {
	if r.Compared == 0 {
		return "not looked for"
	}
	s := fmt.Sprintf("%s among %s IDs", grouped(r.Duplicates), grouped(r.Compared))
	if r.Duplicates == 0 {
		s = fmt.Sprintf("none among %s IDs, warm-up included", grouped(r.Compared))
	}
	if len(r.FirstDuplicates) > 0 {
		s += ", such as " + listed(r.FirstDuplicates)
	}
	if r.NotCompared > 0 {
		s += fmt.Sprintf("; %s more were not compared: --compare sets how many are", grouped(r.NotCompared))
	}
	return s
}

func listed(ids []int64) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(ids), " ", ", "), "[]")
}

// grouped writes 1234567 as 1,234,567.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// measured is for how long a run was measured.
func measured(r *loadgen.Report) time.Duration {
	return time.Duration(r.Duration * float64(time.Second)).Round(time.Millisecond)
}

// short writes a latency in milliseconds, with three digits at least.
func short(ms float64) string {
	digits := 0
	for bound := 100.0; ms < bound && digits < 3; bound /= 10 {
		digits++
	}
	return strconv.FormatFloat(ms, 'f', digits, 64) + "ms"
}

// clearLine goes to the start of a terminal's line and empties it.
const clearLine = "\r\x1b[K"

// printProgress replaces the line of a terminal.
func printProgress(w io.Writer, p loadgen.Progress) {
	warm := map[bool]string{true: ", warming up"}[p.WarmingUp]
	fmt.Fprintf(w, clearLine+"%s: %s requests, %s IDs, %s failed%s", p.Elapsed.Round(time.Second),
		grouped(p.Requests), grouped(p.IDs), grouped(p.Failed), warm)
}
