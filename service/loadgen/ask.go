package loadgen

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"shardid/model"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// asker makes one request, of those that take turns, and gives the IDs that came. Its errors are
// answerError and those of connections.
type asker func(ctx context.Context, turn int) ([]int64, error)

// answerError is an answer without what was asked for.
type answerError struct{ kind, message string } // the status and the code, and what the server said

func (e answerError) Error() string { return strings.TrimSuffix(e.kind+": "+e.message, ": ") }

// BadAnswer is the kind of an error that no server may answer with.
const BadAnswer = "not as many IDs above 0 as were asked for"

// kindOf is the name of an error in reports: of a connection the cause, which names no address.
func kindOf(err error) string {
	if answer, ok := errors.AsType[answerError](err); ok {
		return answer.kind
	}
	for cause := err; cause != nil; cause = errors.Unwrap(cause) {
		err = cause
	}
	return err.Error()
}

// newAsker chooses how IDs are asked for. hangUp closes the connections. An error says which option
// to change.
func newAsker(o Options) (ask asker, hangUp func(), err error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" {
		u = &url.URL{}
	}
	path, _ := o.target(0)
	switch {
	case path == "":
		return nil, nil, errors.New("give --mode queue, segment, snowflake, uid or sequence")
	case o.Concurrency < 1 || o.Duration <= 0 || o.Rate < 0:
		return nil, nil, errors.New("give --concurrency and --duration above 0, and no negative --rate")
	case u.Scheme == "http" || u.Scheme == "https":
		ask, hangUp = o.overHTTP(strings.TrimSuffix(u.String(), "/"))
		return ask, hangUp, nil
	case u.Scheme != "redis" && u.Scheme != "rediss":
		return nil, nil, fmt.Errorf("give --url like http://127.0.0.1:8080 or redis://127.0.0.1:6380, not %q", o.URL)
	}
	ask, hangUp = o.overRESP(u)
	return ask, hangUp, nil
}

// target is what a request asks for: a path with its query over HTTP, and a key of RESP. Values of
// gatePass end in 64 characters that follow each other, so all shards get as many requests.
func (o Options) target(turn int) (path, key string) {
	turn %= max(1, o.Passes)
	name := fmt.Sprintf("bench-%d-%c", turn/model.Shards, '?'+turn%model.Shards)
	query := ""
	switch o.Mode {
	case "queue":
		path, query = "/get", fmt.Sprintf("&appId=%d&gatePass=%s", o.App, url.QueryEscape(name))
		key = fmt.Sprintf("queue:%d:%s", o.App, name)
	case "segment":
		path, key = "/api/segment/get/"+url.PathEscape(o.Tag), "segment:"+o.Tag
	case "snowflake":
		path, key = "/api/snowflake/get/bench", o.Mode
	case "uid":
		path, key = "/api/uid/get", o.Mode
	case "sequence":
		path, query = "/v1/sequence/"+url.PathEscape(o.Space)+"/ids", "&key="+url.QueryEscape(name)
		key = "sequence:" + o.Space + ":" + name
	}
	if o.Count > 0 {
		query += "&count=" + strconv.Itoa(o.Count)
	}
	return path + strings.Replace(query, "&", "?", 1), key
}

func (o Options) overHTTP(base string) (asker, func()) {
	transport := &http.Transport{TLSClientConfig: o.TLS, MaxIdleConnsPerHost: o.Concurrency}
	client := &http.Client{Transport: transport, Timeout: o.Timeout}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return func(ctx context.Context, turn int) ([]int64, error) {
		path, _ := o.target(turn)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, nil)
		if err != nil {
			return nil, err
		}
		if o.Token != "" {
			req.Header.Set("Authorization", "Bearer "+o.Token)
		}
		res, err := client.Do(req)
		if err != nil {
			return nil, err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(io.LimitReader(res.Body, 4<<20))
		if err != nil {
			return nil, err
		}
		return readAnswer(res.StatusCode, body)
	}, transport.CloseIdleConnections
}

// readAnswer reads JSON with a code, or a decimal a line. What is neither gives no IDs.
func readAnswer(status int, body []byte) (ids []int64, err error) {
	var a struct {
		Code    *int
		Message string
		ID      json.Number
		IDs     []json.Number // or strings of digits
	}
	isJSON := json.Unmarshal(body, &a) == nil && a.Code != nil
	switch {
	case isJSON && *a.Code != 0:
		return nil, answerError{fmt.Sprintf("%d code %d", status, *a.Code), a.Message}
	case status != http.StatusOK:
		return nil, answerError{strconv.Itoa(status), fmt.Sprintf("%.100q", body)}
	case isJSON && a.ID != "":
		a.IDs = []json.Number{a.ID}
	case !isJSON:
		for _, line := range strings.Fields(string(body)) {
			a.IDs = append(a.IDs, json.Number(line))
		}
	}
	for _, text := range a.IDs {
		if id, err := text.Int64(); err == nil {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// overRESP asks with INCR, or for many with LPOP, or INCRBY of a sequence. Each connection asks INFO first, so that no
// key of a Redis is changed that was named by mistake.
func (o Options) overRESP(u *url.URL) (asker, func()) {
	opts := &redis.Options{
		Addr: u.Host, Password: o.Token, PoolSize: o.Concurrency, MaxRetries: -1, Protocol: 2, DisableIdentity: true,
		DialerRetries: 1, DialTimeout: o.Timeout, ReadTimeout: o.Timeout, WriteTimeout: o.Timeout,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if u.Scheme == "rediss" {
		opts.TLSConfig = o.TLS
	}
	opts.OnConnect = func(ctx context.Context, conn *redis.Conn) error {
		info, err := conn.Info(ctx, "server").Result()
		if err == nil && !strings.Contains(info, "server_name:shardid\r\n") {
			err = errors.New("give the server's resp.addr with --url: what answers there is no shardid")
		}
		return err
	}
	client := redis.NewClient(opts)
	return func(ctx context.Context, turn int) (ids []int64, err error) {
		_, key := o.target(turn)
		switch {
		case o.Count > 0 && o.Mode == "sequence": // which gives the last of its numbers
			last, failed := client.IncrBy(ctx, key, int64(o.Count)).Result()
			for id := last - int64(o.Count); failed == nil && id < last; id++ {
				ids = append(ids, id+1)
			}
			err = failed
		case o.Count > 0:
			ids, err = client.Do(ctx, "LPOP", key, o.Count).Int64Slice()
		default:
			var id int64
			if id, err = client.Incr(ctx, key).Result(); err == nil {
				ids = []int64{id}
			}
		}
		if said, ok := errors.AsType[redis.Error](err); ok {
			_, refusal, _ := strings.Cut(said.Error(), " ") // after SHARDID, NOAUTH or WRONGPASS
			code, message, _ := strings.Cut(refusal, " ")
			return nil, answerError{"code " + code, message}
		}
		return ids, err
	}, func() { _ = client.Close() }
}
