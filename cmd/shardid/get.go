package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"shardid/model"
	"shardid/service/httpapi"
	"shardid/service/monitor"
	"shardid/service/segment"

	"github.com/spf13/cobra"
)

// maxAnswer is more than any answer of a server, in bytes.
const maxAnswer = 16 << 20

// asClient registers what commands need that ask as a client does.
func (a *asking) asClient(cmd *cobra.Command, timeout time.Duration) {
	a.register(cmd, timeout, "`URL` of the server (default that of the configured server.addr)")
	cmd.Flags().StringVar(&a.tokenFile, "token-file", "", "`FILE` with a bearer token to send")
}

// token reads the token file; "" without one.
func (a asking) token() (string, error) {
	if a.tokenFile == "" {
		return "", nil
	}
	token, err := os.ReadFile(a.tokenFile)
	if err != nil {
		return "", fmt.Errorf("read the bearer token: %w", err)
	}
	return strings.TrimSpace(string(token)), nil
}

// fetch gives the answer to a GET of path. An answer that is an error is one, in the
// server's own words.
func (a asking) fetch(ctx context.Context, cfg Config, path string) ([]byte, error) {
	a.url = strings.TrimRight(a.url, "/") + path
	token, err := a.token()
	if err != nil {
		return nil, err
	}
	target, status, body, err := a.get(ctx, cfg, token, "ask the server: %w: start it, or correct --url or server.addr")
	if err != nil || status == http.StatusOK {
		return body, err
	}
	var said struct{ Message string }
	if json.Unmarshal(body, &said) != nil || said.Message == "" {
		said.Message = "not as shardid does: check the URL"
	}
	switch {
	case status == http.StatusUnauthorized && token == "":
		said.Message = "it asks for a token: name a file that holds one with --token-file"
	case status == http.StatusUnauthorized:
		said.Message = "it does not know the token of --token-file " + a.tokenFile + ", or that has expired"
	}
	return nil, fmt.Errorf("%s answers %d: %s", target, status, said.Message)
}

func (c *cli) get() *cobra.Command {
	var ask asking
	var mode, gatePass, tag string
	var app, count int
	cmd := &cobra.Command{
		Use:   "get [--mode queue|segment|snowflake|uid]",
		Short: "Get IDs from a running server",
		Example: `  shardid get --app 1 --gate-pass alice
  shardid get --mode segment --tag orders --count 100
  shardid get --mode uid --count 10 --json       # "idsStr" has the IDs as strings, for JavaScript
  shardid get --mode snowflake --url https://ids.example.com --token-file token --json`,
		Args: cobra.NoArgs,
	}
	ask.asClient(cmd, 10*time.Second)
	choose(cmd, &mode, "mode", "queue", "queue, segment, snowflake or uid", modes()...)
	cmd.Flags().IntVar(&app, "app", 1, "app `ID` of the queue mode, 0…255")
	cmd.Flags().StringVar(&gatePass, "gate-pass", "shardid", "gatePass of the queue mode: its `text` chooses the shard")
	cmd.Flags().StringVar(&tag, "tag", "", "`tag` of the segment mode")
	complete(cmd, "app", ask.apps)
	complete(cmd, "tag", ask.tags)
	cmd.Flags().IntVar(&count, "count", 0, "a batch of so many `IDs`, 1…10000 (default a single one)")
	return c.command(cmd, func(cmd *cobra.Command, _ []string, cfg Config) error {
		query := url.Values{}
		if cmd.Flags().Changed("count") {
			query.Set("count", strconv.Itoa(count))
		}
		path := map[string]string{"queue": "/get", "segment": "/api/segment/get/" + url.PathEscape(tag),
			"snowflake": "/api/snowflake/get/shardid", "uid": "/api/uid/get"}[mode]
		switch {
		case path == "":
			return fmt.Errorf("%w: --mode %q is none of queue, segment, snowflake, uid", model.ErrInvalidArgument, mode)
		case mode == "queue":
			query.Set("appId", strconv.Itoa(app))
			query.Set("gatePass", gatePass)
		case mode == "segment" && tag == "":
			return fmt.Errorf("%w: the segment mode needs --tag", model.ErrInvalidArgument)
		}
		body, err := ask.fetch(cmd.Context(), cfg, path+"?"+query.Encode())
		if err != nil {
			return err
		}
		ids := readAnswer(body)
		if len(ids) != max(1, count) {
			return fmt.Errorf("the server answers with something else than %d IDs: check the URL", max(1, count))
		}
		texts := make([]string, len(ids))
		for i, id := range ids {
			texts[i] = strconv.FormatInt(id, 10)
		}
		object := map[string]any{"code": 0, "ids": ids, "idsStr": texts}
		if count == 0 {
			object = map[string]any{"code": 0, "id": ids[0], "idStr": texts[0]}
		}
		return c.print(cmd, object, func(w io.Writer) {
			for _, id := range ids {
				fmt.Fprintln(w, id)
			}
		})
	})
}

// readAnswer gives the IDs of an answer: one number, a list, or an object. Another text
// has none.
func readAnswer(body []byte) []int64 {
	var one int64
	if json.Unmarshal(body, &one) == nil {
		return []int64{one}
	}
	var list []int64
	if json.Unmarshal(body, &list) == nil {
		return list
	}
	var object struct{ ID, IDs json.RawMessage }
	if json.Unmarshal(body, &object) != nil || object.ID == nil && object.IDs == nil {
		return nil
	}
	return readAnswer([]byte(cmp.Or(string(object.ID), string(object.IDs))))
}

func (c *cli) status() *cobra.Command {
	var ask asking
	cmd := &cobra.Command{
		Use:   "status [--url URL]",
		Short: "Show how a running server is doing, as its console does",
		Long: `Show how a running server is doing, as its console does. Times are in UTC.

Exits with 1 while the server is not ready or a critical alarm is on, which its last
line on standard error names, and with 0 otherwise: an alarm that is over counts no more.`,
		Example: `  shardid status
  shardid status --url https://ids.example.com --token-file token --json`,
		Args: cobra.NoArgs,
	}
	ask.asClient(cmd, 10*time.Second)
	return c.command(cmd, func(cmd *cobra.Command, _ []string, cfg Config) error {
		body, err := ask.fetch(cmd.Context(), cfg, "/api/status")
		if err != nil {
			return err
		}
		var status httpapi.Status
		if err := json.Unmarshal(body, &status); err != nil || status.Version == "" {
			return fmt.Errorf("the server does not answer as shardid does: check the URL")
		}
		return cmp.Or(c.print(cmd, json.RawMessage(body), func(w io.Writer) { statusTable(w, status) }), trouble(status))
	})
}

// trouble is an error for a server that is not ready, or has a critical alarm.
func trouble(s httpapi.Status) error {
	var critical []string
	for _, a := range s.Alarms {
		if a.Severity == monitor.Critical {
			critical = append(critical, a.Name)
		}
	}
	switch {
	case len(critical) > 0:
		return fmt.Errorf("critical: %s: what each means is above, what to do is in docs/operations.md", strings.Join(critical, ", "))
	case !s.Ready:
		return fmt.Errorf("the server is not ready: %s", s.Message)
	}
	return nil
}

func statusTable(w io.Writer, s httpapi.Status) {
	ready := map[bool]string{true: "ready", false: "not ready"}
	fmt.Fprintf(w, "shardid %s is %s, started at %s\t%s\n", s.Version, ready[s.Ready], instant(s.StartedAt), s.Message)
	fmt.Fprintln(w, "\nWHAT\tSTATE\tSINCE\tWHY")
	for _, name := range modes() {
		m := s.Modes[name]
		state := ready[m.Ready]
		if !m.Enabled {
			state = "disabled"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", name, state, instant(m.Since), cmp.Or(m.Error, "-"))
	}
	for _, store := range s.Stores {
		state := map[bool]string{true: "ok", false: "fails"}[store.OK]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", store.Name, state, instant(store.Since), cmp.Or(store.Error, "-"))
	}
	if s.Witness != nil {
		fmt.Fprintf(w, "witness\t%s\t%s\t%s\n", s.Witness.State, instant(s.Witness.HeldSince), s.Witness.Meaning())
	}
	if len(s.Alarms) > 0 {
		fmt.Fprintln(w, "\nALARM\tSEVERITY\tSINCE\tMESSAGE")
	}
	for _, a := range s.Alarms {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", a.Name, a.Severity, instant(a.Since), a.Message)
	}
	if s.Queue != nil && len(s.Queue.Apps) > 0 {
		fmt.Fprintln(w, "\nAPP\tNAME\tISSUED\tA SECOND\tHIGHEST INDEX\tLEFT")
		for _, a := range s.Queue.Apps {
			fmt.Fprintf(w, "%d\t%s\t%d\t%.0f\t%d\t%.4g %%\n", a.App, a.Name, a.Issued, a.PerSecond, a.Highest, 100*a.Left)
		}
	}
	if s.Segment != nil && len(s.Segment.Tags) > 0 {
		fmt.Fprintln(w, "\nTAG\tHELD\tA SECOND\tLASTS")
		for _, t := range s.Segment.Tags {
			fmt.Fprintf(w, "%s\t%d\t%.0f\t%s\n", t.Name, t.Held, t.Rate, lasts(t))
		}
		if all := s.Segment.Total; all > 0 {
			fmt.Fprintf(w, "%d of %d tags: /api/status?search=TEXT finds others\n", len(s.Segment.Tags), all)
		}
	}
}

// lasts is how long what is held of a tag lasts; the server counts up to a year.
func lasts(t segment.View) string {
	const year = 365 * 24 * 3600
	switch {
	case t.Held == 0:
		return "-"
	case t.Runway >= year:
		return "> 1 year"
	}
	return time.Duration(t.Runway * float64(time.Second)).Round(time.Second).String()
}
