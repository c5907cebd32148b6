package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"shardid/cmd/shardid/config"
	"shardid/model"
	"shardid/service/access"
	"shardid/service/background"
	"shardid/service/httpapi"
	"shardid/service/issuer"
	"shardid/service/monitor"

	"github.com/spf13/cobra"
)

// healthTimeout bounds the whole question: a container engine gives up after a
// time of its own, and should not before us.
const healthTimeout = 2 * time.Second

// healthReport is what the health pages say.
type healthReport struct {
	Status  string `json:"status"`
	Message string `json:"message,omitempty"`
}

// line is the report for people.
func (r healthReport) line() string { return strings.Trim(r.Status+": "+r.Message, ": ") }

// asking says which server a command asks, and as whom.
type asking struct {
	url, caFile, tokenFile string
	insecure               bool
	timeout                time.Duration
	beside                 http.RoundTripper // to the handlers on the database; nil to ask a server
}

// register adds the flags that say which server a command asks; url says whom without --url.
func (a *asking) register(cmd *cobra.Command, timeout time.Duration, url string) {
	f := cmd.Flags()
	f.StringVar(&a.url, "url", "", url)
	f.DurationVar(&a.timeout, "timeout", timeout, "`time` that an answer may take")
	f.StringVar(&a.caFile, "ca-file", "", "PEM `FILE` of the authorities to trust with https (default the system's)")
	f.BoolVar(&a.insecure, "insecure", false, "accept any certificate with https")
	f.StringVar(&a.tokenFile, "token-file", "", "`FILE` with a bearer token to send")
}

// ownServer is whom commands ask that ask a server.
const ownServer = "`URL` of the server (default that of the configured server.addr)"

func (c *cli) health() *cobra.Command {
	var ask asking
	cmd := &cobra.Command{
		Use:   "health [--url URL]",
		Short: "Check whether a server can serve, for container images without curl",
		Example: `  shardid health
  shardid health --url /readyz/queue
  shardid health --url /livez
  shardid health --url http://127.0.0.1:8080 --timeout 500ms`,
		Args: cobra.NoArgs,
	}
	ask.register(cmd, healthTimeout, "`URL` of the server, which is asked for /readyz, or of one of its pages; a path "+
		"alone is asked of the configured server.addr (default /readyz)")
	return c.command(cmd, func(cmd *cobra.Command, _ []string, cfg Config) error {
		report, err := ask.health(cmd.Context(), cfg)
		if err != nil {
			return err
		}
		return c.print(cmd, report, func(w io.Writer) { fmt.Fprintln(w, report.line()) })
	})
}

// resolve is the URL of the server, or of its page, and how to trust it. The server of this configuration is on this
// machine: its certificate is for the name that callers know and not for the loopback, so it is verified with --url
// alone. Where clients must have a certificate, the server's own is shown.
func (a asking) resolve(cfg Config) (target string, secure *tls.Config, err error) {
	own, isOwn := cfg.Server, a.url == "" || a.url[0] == '/'
	target = a.url
	secure = &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: a.insecure || isOwn, //nolint:gosec // the operator's choice, or see above
	}
	switch {
	case isOwn:
		if target, err = serverURL(own); err == nil && own.TLSClientCAFile != "" {
			files := config.TLSFiles{TLSCertFile: own.TLSCertFile, TLSKeyFile: own.TLSKeyFile}
			err = addTLSFiles(secure, "server", files)
		}
		target += a.url
	case a.caFile != "":
		secure.RootCAs, err = access.ReadPool(a.caFile)
	}
	if err != nil {
		return "", nil, err
	}
	u, err := url.Parse(target)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", nil, fmt.Errorf("%w: write --url like http://127.0.0.1:8080, without a query: %q is no such URL",
			model.ErrInvalidArgument, target)
	}
	return strings.TrimRight(target, "/"), secure, nil
}

// health gives the answer of a server that should get requests; any other is an
// error, which says why in the server's own words. A URL without a path means /readyz.
func (a asking) health(ctx context.Context, cfg Config) (r healthReport, err error) {
	page := ""
	if u, err := url.Parse(a.url); err == nil && strings.Trim(u.Path, "/") == "" {
		page = "/readyz"
	}
	body, err := a.send(ctx, cfg, http.MethodGet, page, nil)
	if err == nil && (json.Unmarshal(body, &r) != nil || r.Status == "") {
		err = errNotShardid
	}
	return r, err
}

// Remedies for what a server answers, or does not.
const (
	correctURL = "correct the URL or server.addr"
	giveToken  = "name a file that holds a token of the server by --token-file"
)

var errNotShardid = fmt.Errorf("%w: what answers there is not the HTTP of shardid", model.Remedy(correctURL))

// unanswered adds to the failure of a request what to do about it.
func unanswered(err error) error {
	do := correctURL + ", as what listens there does not answer as shardid does"
	dial, _ := errors.AsType[*net.OpError](err)
	timeout, _ := errors.AsType[net.Error](err)
	untrusted, _ := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case dial != nil && dial.Op == "dial":
		do = "start the server, or " + correctURL
	case untrusted != nil:
		do = "name the authorities to trust by --ca-file"
	case timeout != nil && timeout.Timeout():
		do = "look whether the server is busy, or raise --timeout"
	}
	return fmt.Errorf("%w: %w", model.Remedy(do), err)
}

// token reads the token file; "" without one.
func (a asking) token() (string, error) {
	if a.tokenFile == "" {
		return "", nil
	}
	token, err := os.ReadFile(a.tokenFile)
	if err != nil {
		return "", fmt.Errorf("%w: %w", model.Remedy(giveToken), err)
	}
	return strings.TrimSpace(string(token)), nil
}

// send gives the answer to a request for a path, with a body in JSON unless that is nil. An answer that is an error is
// one, in the server's own words.
func (a asking) send(
	ctx context.Context, cfg Config, method, path string, body map[string]any,
) (answer []byte, err error) {
	token, err := a.token()
	if err != nil {
		return nil, err
	}
	target, client := "http://shardid", &http.Client{Transport: a.beside, CheckRedirect: stay}
	if a.beside == nil {
		var secure *tls.Config
		if target, secure, err = a.resolve(cfg); err != nil {
			return nil, err
		}
		// Through no proxy: what is asked is this server and no other.
		client.Transport = &http.Transport{DisableKeepAlives: true, TLSClientConfig: secure}
	}
	target += path
	var sent []byte
	if body != nil {
		if sent, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(sent))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if sent != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if a.beside != nil {
		req.Header.Set(httpapi.OperatorHeader, operator().Name)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, unanswered(err)
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	answer, err = io.ReadAll(resp.Body)
	if err != nil {
		return nil, unanswered(err)
	}
	if resp.StatusCode/100 == 2 {
		return answer, nil
	}
	var said struct {
		Code int
		healthReport
	}
	message := errNotShardid.Error()
	switch unread := json.Unmarshal(answer, &said); {
	case resp.StatusCode == http.StatusUnauthorized && token == "":
		message = giveToken + ": it asks for one"
	case resp.StatusCode == http.StatusUnauthorized:
		message = giveToken + ": that of " + a.tokenFile + " is not known, or has expired"
	case unread == nil && said.line() != "":
		message = strings.Trim(said.Message+": "+said.Status, ": ")
	}
	if a.beside != nil {
		target = ""
	}
	return nil, &refusedError{target, resp.StatusCode, said.Code, message}
}

// stay follows no redirect: the token is for the address that was given.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// refusedError is an answer that is an error.
type refusedError struct {
	url          string // "" for one of this process
	status, code int
	message      string
}

func (r *refusedError) Error() string {
	if r.url == "" {
		return r.message
	}
	return fmt.Sprintf("%s: %s answers %d", r.message, r.url, r.status)
}

// Is says that a request that was refused as wrong is a command that is.
func (r *refusedError) Is(err error) bool {
	return err == model.ErrInvalidArgument && r.code == issuer.CodeInvalid
}

// inProcess is the way to a handler of this process.
type inProcess struct{ handler http.Handler }

// RoundTrip implements http.RoundTripper.
func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	w := &written{header: http.Header{}, status: http.StatusOK}
	p.handler.ServeHTTP(w, r)
	return &http.Response{StatusCode: w.status, Header: w.header, Body: io.NopCloser(&w.Buffer)}, nil
}

// written is an answer of a handler of this process.
type written struct {
	header http.Header
	status int
	bytes.Buffer
}

// Header implements http.ResponseWriter.
func (w *written) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *written) WriteHeader(status int) { w.status = status }

// awaitReady asks a server for its health until it is ready, for as long as wait allows.
func (a asking) awaitReady(ctx context.Context, cfg Config, wait time.Duration) error {
	_, unread := a.token()
	if _, _, err := a.resolve(cfg); err != nil || unread != nil {
		return cmp.Or(unread, err)
	}
	until := time.Now().Add(wait)
	for {
		_, err := a.health(ctx, cfg)
		if err == nil || errors.Is(err, model.ErrInvalidArgument) {
			return err
		}
		if left := time.Until(until); left <= 0 || !background.Pause(ctx, min(left, 200*time.Millisecond), nil) {
			return fmt.Errorf("%w: not ready within --wait %v", err, wait)
		}
	}
}

func (c *cli) status() *cobra.Command {
	var ask asking
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "status [--url URL]",
		Short: "Show how a running server is doing, as its console does",
		Long: `Show how a running server is doing, as its console does. Times are in UTC.

It exits with 1 while the server is not ready or has a critical alarm, and its last line on
standard error says which. Otherwise it exits with 0. With --wait, a script that has started
the server continues as soon as the server is ready.`,
		Example: `  shardid status
  shardid status --wait 15s    # after the start of a server
  shardid status --url https://ids.example.com --token-file token --json`,
		Args: cobra.NoArgs,
	}
	ask.register(cmd, 10*time.Second, ownServer)
	cmd.Flags().DurationVar(&wait, "wait", 0, "wait up to this `time` for the server to become ready")
	return c.command(cmd, func(cmd *cobra.Command, _ []string, cfg Config) error {
		if wait > 0 {
			if err := ask.awaitReady(cmd.Context(), cfg, wait); err != nil {
				return err
			}
		}
		status, body, err := ask.status(cmd.Context(), cfg)
		if err != nil {
			return err
		}
		return cmp.Or(c.print(cmd, json.RawMessage(body), func(w io.Writer) { statusTable(w, status) }),
			trouble(status))
	})
}

// status gives the answer of a server's status page, as it was and as it is read.
func (a asking) status(ctx context.Context, cfg Config) (s monitor.Status, body []byte, err error) {
	body, err = a.send(ctx, cfg, http.MethodGet, "/api/status", nil)
	if err == nil && (json.Unmarshal(body, &s) != nil || s.Version == "") {
		err = errNotShardid
	}
	return s, body, err
}

// trouble is an error for a server that is not ready, or has a critical alarm.
func trouble(s monitor.Status) error {
	var critical []string
	for _, a := range s.Alarms {
		if a.Severity == monitor.Critical {
			critical = append(critical, a.Name)
		}
	}
	switch {
	case len(critical) > 0:
		return fmt.Errorf("do what docs/operations.md says of each: critical: %s", strings.Join(critical, ", "))
	case !s.Ready:
		return fmt.Errorf("%s: the server is not ready", s.Message)
	}
	return nil
}

// summary is how a server is doing in a few words: a replica that is ready may have modes that are not.
func summary(s monitor.Status) string {
	switch {
	case !s.Ready:
		return "not ready"
	case s.Message != "" || trouble(s) != nil:
		return "degraded"
	}
	return "ready"
}

func statusTable(w io.Writer, s monitor.Status) {
	ready := map[bool]string{true: "ready", false: "not ready"}
	fmt.Fprintf(w, "shardid %s is %s, started at %s\t%s\n", s.Version, summary(s), instant(s.StartedAt), s.Message)
	fmt.Fprintln(w, "\nWHAT\tSTATE\tSINCE\tWHY")
	for _, mode := range model.Modes() {
		m := s.Modes[mode.String()]
		state := ready[m.Ready]
		if !m.Enabled {
			state = "disabled"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", mode, state, instant(m.Since), cmp.Or(m.Error, "-"))
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
}
