package load

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"shardid/model"
)

// target is where requests go, what they are, and how answers are read. It does not
// change.
type target struct {
	address  string      // host:port
	tls      *tls.Config // nil for http
	requests [][]byte    // they take turns
	decode   decoder     // nil: the answers are not looked into
	count    int         // IDs in an answer
}

// newTarget makes the requests of a run. The error is model.ErrInvalidArgument.
func newTarget(o Options) (*target, error) {
	base, err := parseBase(o.URL)
	if err != nil {
		return nil, err
	}
	paths, err := o.paths()
	if err != nil {
		return nil, err
	}
	t := &target{address: address(base), decode: o.decoder(), count: max(o.Count, 1)}
	if base.Scheme == "https" {
		t.tls = clientTLS(o.TLS, base.Hostname())
	}
	prefix := strings.TrimSuffix(base.EscapedPath(), "/")
	for _, path := range paths {
		t.requests = append(t.requests, request(base.Host, prefix+path, o.Token))
	}
	return t, nil
}

func parseBase(raw string) (*url.URL, error) {
	const example = "write it like http://127.0.0.1:8080"
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%w: %q is not the URL of a server: %s", model.ErrInvalidArgument, raw, example)
	case u.Hostname() == "":
		return nil, fmt.Errorf("%w: URL %q has no host: %s", model.ErrInvalidArgument, raw, example)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("%w: the URL may hold a host and a path, nothing else: %s", model.ErrInvalidArgument, example)
	}
	return u, nil
}

func address(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

func clientTLS(cfg *tls.Config, host string) *tls.Config {
	if cfg == nil {
		cfg = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	cfg = cfg.Clone()
	if cfg.ServerName == "" {
		cfg.ServerName = host
	}
	return cfg
}

// paths are those of the requests, each with its query.
func (o Options) paths() ([]string, error) {
	if o.Raw != "" {
		return o.rawPath()
	}
	batch := ""
	if o.Count > 0 {
		batch = "count=" + strconv.Itoa(o.Count)
	}
	switch o.Mode {
	case ModeQueue:
		return o.queuePaths(batch), nil
	case ModeSegment:
		if err := model.CheckTag(o.Tag); err != nil {
			return nil, err
		}
		return []string{query("/api/segment/get/"+url.PathEscape(o.Tag), batch)}, nil
	case ModeSnowflake:
		return []string{query("/api/snowflake/get/bench", batch)}, nil
	case ModeUID:
		return []string{query("/api/uid/get", batch)}, nil
	}
	return nil, fmt.Errorf("%w: mode %q is none of queue, segment, snowflake and uid", model.ErrInvalidArgument, o.Mode)
}

// rawPath takes what can stand in the first line of a request.
func (o Options) rawPath() ([]string, error) {
	control := func(c rune) bool { return c <= ' ' || c == 0x7f }
	if o.Raw[0] != '/' || strings.ContainsFunc(o.Raw, control) {
		return nil, fmt.Errorf("%w: %q is not a path: it begins with / and is percent-encoded", model.ErrInvalidArgument, o.Raw)
	}
	return []string{o.Raw}, nil
}

func query(path, q string) string {
	if q == "" {
		return path
	}
	return path + "?" + q
}

// queuePaths have a gatePass each; the shards take turns, and then the apps, so that
// all are asked alike.
func (o Options) queuePaths(batch string) []string {
	if batch != "" {
		batch = "&" + batch
	}
	paths := make([]string, o.Passes)
	for i := range paths {
		app := o.App + i/model.Shards%max(o.Apps, 1)
		paths[i] = fmt.Sprintf("/get?appId=%d&gatePass=%s%s", app, passOf(i), batch)
	}
	return paths
}

// passOf is the gatePass with number i, of shard i mod 64. Its last two letters are
// chosen for that: numbers alone have hashes that crowd on few shards.
func passOf(i int) string {
	pass := fmt.Appendf(nil, "bench-%d-aa", i)
	letters := pass[len(pass)-2:]
	for letters[0] = 'a'; letters[0] < 'z'; letters[0]++ {
		for letters[1] = 'a'; letters[1] < 'z'; letters[1]++ {
			if model.ShardOf(string(pass)) == uint8(i%model.Shards) {
				return string(pass)
			}
		}
	}
	return string(pass) // never reached: two letters suffice for every shard
}

func (o Options) decoder() decoder {
	switch {
	case o.Raw != "":
		return nil
	case o.Mode == ModeQueue:
		return decodeJSON
	}
	return decodeLines
}

// request is the least that HTTP/1.1 asks for, so that servers are measured and not
// their reading of headers.
func request(host, path, token string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "GET %s HTTP/1.1\r\nHost: %s\r\n", path, host)
	if token != "" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", token)
	}
	b.WriteString("\r\n")
	return []byte(b.String())
}
