package main

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
	"time"

	"shardid/service/issuer"
)

// leased is a lease, as a server answers it. Times are Unix ms.
type leased struct {
	Name       string `json:"name"`
	WorkerID   int64  `json:"workerId"`
	Secret     string `json:"secret"`
	Epoch      int64  `json:"epoch,string"`
	WorkerBits uint   `json:"workerBits"`
	SeqBits    uint   `json:"seqBits"`
	After      int64  `json:"after,string"` // IDs have a later time,
	Until      int64  `json:"until,string"` // and this one at most
	Now        int64  `json:"now,string"`   // by the database's clock
	RenewMs    int64  `json:"renewMs"`
}

func (l leased) renew() time.Duration { return time.Duration(l.RenewMs) * time.Millisecond }

func (l leased) String() string {
	return fmt.Sprintf("worker ID %d of the name %q", l.WorkerID, l.Name)
}

// environ is what a command is told of its worker ID.
func (l leased) environ() []string {
	return []string{
		fmt.Sprint("SHARDID_WORKER_ID=", l.WorkerID), fmt.Sprint("SHARDID_EPOCH=", l.Epoch),
		fmt.Sprint("SHARDID_WORKER_BITS=", l.WorkerBits), fmt.Sprint("SHARDID_SEQ_BITS=", l.SeqBits),
	}
}

// refusedError is what a server answers that grants or renews nothing.
type refusedError struct {
	url     string
	status  int
	code    int
	message string
	after   time.Duration // ask again after it
}

func (r *refusedError) Error() string {
	return fmt.Sprintf("%s answers %d: %s", r.url, r.status, r.message)
}

// isFinal says whether the same request gets the same answer later, and from every replica.
func isFinal(err error) bool {
	var r *refusedError
	return errors.As(err, &r) && r.status < http.StatusInternalServerError && r.status != http.StatusTooManyRequests &&
		r.code != 0 && r.code != issuer.CodeNoRoute // a replica of a newer version may have the path
}

// isLost says whether an answer to a renewal means that the lease is over: it is lost (-14), or
// its name is gone (-2).
func isLost(err error) bool {
	var r *refusedError
	return errors.As(err, &r) && (r.code == -14 || r.code == -2)
}

// lessor is the replicas that grant leases of a name. The first is the one to ask first.
type lessor struct {
	replicas       []asking
	cfg            Config
	name, instance string
	timeout        time.Duration // of one answer
}

// newLessor is for the replicas of --url, separated by commas.
func newLessor(ask asking, cfg Config, name, instance string) (*lessor, error) {
	l := &lessor{cfg: cfg, name: name, instance: instance, timeout: ask.timeout}
	for one := range strings.SplitSeq(ask.url, ",") {
		ask.url = strings.TrimRight(strings.TrimSpace(one), "/") + "/v1/leases/" + url.PathEscape(name)
		if _, _, err := ask.resolve(cfg); err != nil {
			return nil, err
		}
		l.replicas = append(l.replicas, ask)
	}
	if _, err := ask.token(); err != nil {
		return nil, err
	}
	return l, nil
}

// acquire leases a worker ID.
func (l *lessor) acquire(ctx context.Context) (leased, error) {
	form := url.Values{}
	if l.instance != "" {
		form.Set("instance", l.instance)
	}
	return l.ask(ctx, http.MethodPost, "", form, l.timeout)
}

// renew is the lease with a later Until. All replicas together take no longer than the time
// between renewals, so that another try is in time.
func (l *lessor) renew(ctx context.Context, was leased) (leased, error) {
	patience := min(l.timeout, was.renew()/time.Duration(2*len(l.replicas)))
	is, err := l.ask(ctx, http.MethodPost, fmt.Sprintf("/%d/renew", was.WorkerID), url.Values{"secret": {was.Secret}}, patience)
	if err == nil && (is.WorkerID != was.WorkerID || is.Secret != was.Secret) {
		err = fmt.Errorf("the answer to the renewal of %v is about %v with another secret", was, is)
	}
	return is, err
}

// release gives the lease back. Nothing after lastUsed, Unix ms, was used.
func (l *lessor) release(ctx context.Context, was leased, lastUsed int64) error {
	query := url.Values{"secret": {was.Secret}, "lastUsed": {strconv.FormatInt(lastUsed, 10)}}
	_, err := l.ask(ctx, http.MethodDelete, fmt.Sprintf("/%d?%s", was.WorkerID, query.Encode()), nil, l.timeout)
	if isLost(err) { // it has ended, perhaps by this request, whose answer was lost
		return nil
	}
	return err
}

// ask asks one replica after the other until one has an answer that counts.
func (l *lessor) ask(ctx context.Context, method, path string, form url.Values, patience time.Duration) (is leased, err error) {
	for range l.replicas {
		one := l.replicas[0]
		if is, err = l.askOne(ctx, one, method, path, form, patience); err == nil || isFinal(err) || ctx.Err() != nil {
			return is, err
		}
		l.replicas = append(l.replicas[1:], one)
	}
	return is, err
}

func (l *lessor) askOne(ctx context.Context, one asking, method, path string, form url.Values, patience time.Duration) (leased, error) {
	target, client, err := one.resolve(l.cfg)
	if err != nil {
		return leased{}, err
	}
	token, err := one.token()
	if err != nil {
		return leased{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, target+path, strings.NewReader(form.Encode()))
	if err != nil {
		return leased{}, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return leased{}, withoutQuery(err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read, or is of no use
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return leased{}, fmt.Errorf("read the answer of %s: %w", target, err)
	}
	return l.read(target, method, resp, body)
}

// withoutQuery keeps the secret of a lease out of an error.
func withoutQuery(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		of.URL, _, _ = strings.Cut(of.URL, "?")
	}
	return err
}

// read is the lease of an answer; that to DELETE has none.
func (l *lessor) read(target, method string, resp *http.Response, body []byte) (leased, error) {
	var said struct {
		Code    *int
		Message string
		Lease   *leased
	}
	after, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	switch err := json.Unmarshal(body, &said); {
	case err != nil || said.Code == nil || resp.StatusCode == http.StatusOK && (said.Lease == nil) != (method == http.MethodDelete):
		return leased{}, &refusedError{url: target, status: resp.StatusCode, message: "not as shardid does: check the URL"}
	case resp.StatusCode != http.StatusOK:
		return leased{}, &refusedError{target, resp.StatusCode, *said.Code, said.Message, time.Duration(after) * time.Second}
	case said.Lease == nil:
		return leased{}, nil
	}
	is := *said.Lease
	if is.Name != l.name || is.Secret == "" || is.RenewMs < 1 || is.WorkerBits < 1 || is.WorkerBits > 62 || is.WorkerID < 0 || is.WorkerID >= 1<<is.WorkerBits {
		return leased{}, &refusedError{url: target, status: resp.StatusCode, message: "with a lease that cannot be"}
	}
	return is, nil
}
