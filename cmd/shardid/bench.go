package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"shardid/cmd/shardid/config"
	"shardid/model"
	"shardid/service/loadgen"

	"github.com/spf13/cobra"
)

func (c *cli) bench() *cobra.Command {
	var ask asking
	var o loadgen.Options
	cmd := &cobra.Command{
		Use:   "bench [--url URL] [--mode queue|segment|snowflake|uid|sequence]",
		Short: "Put a server under load and check that no ID comes twice",
		Example: `  shardid bench --url http://127.0.0.1:8080
  shardid bench --url http://127.0.0.1:8080 --mode segment --tag orders --count 100
  shardid bench --url https://ids.example.com --rate 5000 --duration 1m --json
  shardid bench --url http://127.0.0.1:8080 --mode sequence --space chat --passes 1000`,
		Args: cobra.NoArgs,
	}
	ask.register(cmd, 5*time.Second, ownServer)
	f := cmd.Flags()
	f.StringVar(&o.Mode, "mode", "queue", "queue, segment, snowflake, uid or sequence")
	f.IntVar(&o.App, "app", 1, "app `ID` of the queue mode, 0…255")
	f.IntVar(&o.Passes, "passes", 1024,
		"how many `values` of gatePass take turns in the queue mode, or keys in the sequence mode")
	f.StringVar(&o.Tag, "tag", "leaf-segment-test", "`key` of the segment mode")
	f.StringVar(&o.Space, "space", "", "`space` of the sequence mode, whose numbers are not compared")
	f.IntVar(&o.Count, "count", 0, "ask for batches of so many `IDs`, 1…10000 (default single ones)")
	f.Float64Var(&o.Rate, "rate", 0, "`requests` due a second, over all connections (default a closed loop)")
	f.DurationVar(&o.Duration, "duration", 10*time.Second, "`time` for which requests are sent")
	f.IntVar(&o.Concurrency, "concurrency", 64, "`connections`, each with one request in flight")
	return c.command(cmd, func(cmd *cobra.Command, _ []string, cfg Config) (err error) {
		if o.URL, o.TLS, err = ask.resolve(cfg); err != nil {
			return err
		}
		if o.Token, err = ask.token(); err != nil {
			return err
		}
		o.Timeout = ask.timeout
		return c.runBench(cmd, o)
	})
}

// runBench runs until the time is up or Ctrl-C, reports, and fails when an ID came twice, an answer
// was not what it must be, or nothing was answered.
func (c *cli) runBench(cmd *cobra.Command, o loadgen.Options) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)() // from here on a signal kills
	report, err := loadgen.Run(ctx, o)
	if err != nil {
		return err
	}
	if err := c.print(cmd, report, func(w io.Writer) { printReport(w, report) }); err != nil {
		return err
	}
	switch bad := report.Errors[loadgen.BadAnswer]; {
	case report.Duplicates > 0:
		return fmt.Errorf("%d IDs came that had come before, such as %d: this must never be",
			report.Duplicates, report.FirstDuplicates)
	case bad > 0:
		return fmt.Errorf("the server answered %d times with %s", bad, loadgen.BadAnswer)
	case report.Requests == 0:
		return fmt.Errorf("try a longer --duration: nothing was answered in %.1f s: %s", report.Duration,
			report.FirstError)
	}
	return nil
}

// printReport is the report for people, in columns.
func printReport(w io.Writer, r *loadgen.Report) {
	fmt.Fprintf(w, "%s\t%s, %.1f s%s\n", r.Mode, r.URL, r.Duration,
		map[bool]string{true: ", interrupted"}[r.Interrupted])
	fmt.Fprintf(w, "requests\t%d\t%.0f/s\n", r.Requests, r.RequestsPerSecond)
	fmt.Fprintf(w, "IDs\t%d\t%.0f/s\n", r.IDs, r.IDsPerSecond)
	if r.IntendedRate > 0 {
		fmt.Fprintf(w, "rate\t%g/s, %d requests were due and not sent in time\n", r.IntendedRate, r.Unsent)
	}
	separator := "latency\t"
	for _, name := range []string{"p50", "p90", "p99", "p99.9", "max", "mean"} {
		fmt.Fprintf(w, "%s%s %.4g ms", separator, name, r.Latency[name])
		separator = ", "
	}
	fmt.Fprintf(w, "\nerrors\t%d\n", r.Failed)
	for _, kind := range slices.Sorted(maps.Keys(r.Errors)) {
		fmt.Fprintf(w, "\t%d × %s\n", r.Errors[kind], kind)
	}
	if r.FirstError != "" {
		fmt.Fprintf(w, "first error\t%s\n", r.FirstError)
	}
	fmt.Fprintf(w, "duplicates\t%d among %d IDs\n", r.Duplicates, r.ComparedIDs)
}

// serverURL is where a server of this configuration is reached from its own machine.
func serverURL(s config.Server) (string, error) {
	host, port, err := net.SplitHostPort(s.Addr)
	if err != nil || port == "0" {
		return "", fmt.Errorf("%w: server.addr %q does not tell where the server is: give --url",
			model.ErrInvalidArgument, s.Addr)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return s.Scheme() + "://" + net.JoinHostPort(host, port), nil
}
