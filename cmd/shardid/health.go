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

// maxHealthAnswer is more than any answer of a health page, in bytes.
const maxHealthAnswer = 1 << 20

// healthReport is what the health pages say.
type healthReport struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

// line is the report for people.
func (r healthReport) line() string {
	if r.Message == "" {
		return r.Status
	}
	return r.Status + ": " + r.Message
}

// healthFlags say whom to ask and how.
type healthFlags struct {
	url, caFile string
	insecure    bool
	timeout     time.Duration
}

func (c *cli) health() *cobra.Command {
	var flags healthFlags
	cmd := &cobra.Command{
		Use:   "health [--url URL]",
		Short: "Ask a server whether it should get requests; for images that hold no other client",
		Example: `  shardid health
  shardid health --url /readyz/queue
  shardid health --url /livez
  shardid health --url http://127.0.0.1:8080 --timeout 500ms`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&flags.url, "url", "", "`URL` of the server, asked for /readyz, or of one of its pages; a page alone is one of the configured server.addr (default its /readyz)")
	f.DurationVar(&flags.timeout, "timeout", healthTimeout, "`time` an answer may take")
	f.StringVar(&flags.caFile, "ca-file", "", "PEM `FILE` of the authorities to trust with https (default the system's)")
	f.BoolVar(&flags.insecure, "insecure", false, "accept any certificate with https")
	return c.command(cmd, func(cmd *cobra.Command, _ []string, cfg Config) error {
		target, client, err := flags.resolve(cfg)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), flags.timeout)
		defer cancel()
		report, err := askHealth(ctx, client, target)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), report.line())
		return err
	})
}

// resolve is what to ask, and by which client.
func (f healthFlags) resolve(cfg Config) (target string, client *http.Client, err error) {
	if f.url != "" && f.url[0] != '/' {
		if target, err = healthURL(f.url); err != nil {
			return "", nil, err
		}
		secure, err := clientTLS{insecure: f.insecure}.trusting(f.caFile)
		return target, healthClient(secure), err
	}
	own, err := serverURL(cfg.Server.Addr)
	if err != nil {
		return "", nil, err
	}
	if target, err = healthURL(cfg.Server.scheme() + strings.TrimPrefix(own, "http") + f.url); err != nil {
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

// askHealth gives the answer of a server that should get requests; any other is an
// error, which says why in the server's own words.
func askHealth(ctx context.Context, client *http.Client, target string) (r healthReport, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return r, fmt.Errorf("ask for the health: %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return r, fmt.Errorf("ask for the health: %w", err)
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxHealthAnswer))
	if err != nil {
		return r, fmt.Errorf("read the answer of %s: %w", target, err)
	}
	if json.Unmarshal(body, &r) != nil || r.Status == "" {
		return r, fmt.Errorf("%s answers %d and not as shardid does: check the URL", target, resp.StatusCode)
	}
	if resp.StatusCode != http.StatusOK {
		return r, fmt.Errorf("%s answers %d: %s", target, resp.StatusCode, r.line())
	}
	return r, nil
}
