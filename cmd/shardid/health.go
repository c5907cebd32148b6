package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"shardid/model"

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
func (r healthReport) line() string {
	if r.Message == "" {
		return r.Status
	}
	return r.Status + ": " + r.Message
}

// asking says which server a command asks, and as whom.
type asking struct {
	url, caFile, tokenFile string
	insecure               bool
	timeout                time.Duration
}

func (a *asking) register(cmd *cobra.Command, timeout time.Duration, url string) {
	f := cmd.Flags()
	f.StringVar(&a.url, "url", "", url)
	f.DurationVar(&a.timeout, "timeout", timeout, "`time` an answer may take")
	f.StringVar(&a.caFile, "ca-file", "", "PEM `FILE` of the authorities to trust with https (default the system's)")
	f.BoolVar(&a.insecure, "insecure", false, "accept any certificate with https")
}

func (c *cli) health() *cobra.Command {
	var ask asking
	cmd := &cobra.Command{
		Use:   "health [--url URL]",
		Short: "Ask a server whether it should get requests; for images that hold no other client",
		Example: `  shardid health
  shardid health --url /readyz/queue
  shardid health --url /livez
  shardid health --url http://127.0.0.1:8080 --timeout 500ms`,
		Args: cobra.NoArgs,
	}
	ask.register(cmd, healthTimeout, "`URL` of the server, asked for /readyz, or of one of its pages; a page alone is one of the configured server.addr (default its /readyz)")
	return c.command(cmd, func(cmd *cobra.Command, _ []string, cfg Config) error {
		report, err := ask.health(cmd.Context(), cfg)
		if err != nil {
			return err
		}
		return c.print(cmd, report, func(w io.Writer) { fmt.Fprintln(w, report.line()) })
	})
}

// resolve is what to ask, and by which client.
func (a asking) resolve(cfg Config) (target string, client *http.Client, err error) {
	if a.url != "" && a.url[0] != '/' {
		if target, err = healthURL(a.url); err != nil {
			return "", nil, err
		}
		secure, err := clientTLS{insecure: a.insecure}.trusting(a.caFile)
		return target, healthClient(secure), err
	}
	own, err := serverURL(cfg.Server)
	if err != nil {
		return "", nil, err
	}
	if target, err = healthURL(own + a.url); err != nil {
		return "", nil, err
	}
	secure, err := ownTLS(cfg.Server)
	return target, healthClient(secure), err
}

// healthURL completes what was asked for: a URL without a path means /readyz.
func healthURL(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("%w: --url %q is no URL: write it like http://127.0.0.1:8080", model.ErrInvalidArgument, address)
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/readyz"
	}
	return u.String(), nil
}

// ownTLS is for the server of this configuration, on this machine. Its certificate is
// for the name that callers know and not for the loopback, and nothing is sent that
// another could use. Where clients must have a certificate, the server's own is shown.
func ownTLS(s ServerConfig) (*tls.Config, error) {
	secure, err := clientTLS{insecure: true}.trusting("")
	if err != nil || s.TLSClientCAFile == "" {
		return secure, err
	}
	cert, err := tls.LoadX509KeyPair(s.TLSCertFile, s.TLSKeyFile)
	if err != nil {
		return nil, fmt.Errorf("server.tls_cert_file and server.tls_key_file: %w", err)
	}
	secure.Certificates = []tls.Certificate{cert}
	return secure, nil
}

// healthClient goes through no proxy: what is asked for is this server and no
// other.
func healthClient(secure *tls.Config) *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: secure}}
}

// health gives the answer of a server that should get requests; any other is an
// error, which says why in the server's own words.
func (a asking) health(ctx context.Context, cfg Config) (r healthReport, err error) {
	target, status, body, err := a.get(ctx, cfg, "", "ask for the health: %w")
	switch {
	case err != nil:
		return r, err
	case json.Unmarshal(body, &r) != nil || r.Status == "":
		return r, fmt.Errorf("%s answers %d and not as shardid does: check the URL", target, status)
	case status != http.StatusOK:
		return r, fmt.Errorf("%s answers %d: %s", target, status, r.line())
	}
	return r, nil
}

// get gives the answer of the server, which it knows by a token unless that is empty; failed is
// the format of an error without an answer.
func (a asking) get(ctx context.Context, cfg Config, token, failed string) (target string, status int, body []byte, err error) {
	target, client, err := a.resolve(cfg)
	if err != nil {
		return "", 0, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return "", 0, nil, fmt.Errorf(failed, err)
	}
	req.Header.Set("Accept", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", 0, nil, fmt.Errorf(failed, err)
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer)); err != nil {
		err = fmt.Errorf("read the answer of %s: %w", target, err)
	}
	return target, resp.StatusCode, body, err
}
