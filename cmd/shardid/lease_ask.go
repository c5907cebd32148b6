package main

import (
	"bytes"
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

	fits time.Time // when the clock of this machine should be in the times of the lease
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

// isFinal says whether the same request gets the same answer later, and from every replica.
func isFinal(err error) bool {
	var r *refusedError
	return errors.As(err, &r) && r.status < http.StatusInternalServerError && r.status != http.StatusTooManyRequests &&
		r.code != 0 && r.code != issuer.CodeNoRoute // a replica of a newer version may have the path
}

// isLost says whether an answer means that a lease is over: it is lost (-14), or its name gone (-2).
func isLost(err error) bool {
	var r *refusedError
	return errors.As(err, &r) && (r.code == -14 || r.code == -2)
}

// body is the parameters of a request.
type body map[string]string

// lessor is the replicas that grant leases of a name.
type lessor struct {
	asking
	cfg            Config
	name, instance string
	replicas       []asking // the first is the one to ask first
}

// resolveReplicas reads --url and the token.
func (l *lessor) resolveReplicas(cfg Config) error {
	l.cfg = cfg
	_, err := l.token()
	for one := range strings.SplitSeq(l.url, ",") {
		ask := l.asking
		ask.url = strings.TrimRight(strings.TrimSpace(one), "/") + "/v1/leases/" + url.PathEscape(l.name)
		_, _, wrong := ask.resolve(cfg)
		err = errors.Join(err, wrong)
		l.replicas = append(l.replicas, ask)
	}
	return err
}

// leaseAnswer is a lease that was granted or renewed, or why not; final: it is not asked again.
type leaseAnswer struct {
	lease leased
	err   error
	final bool
}

// hold leases a worker ID, for as long as wait allows, and renews the lease until the context ends
// or it is lost; each answer is told.
func (l *lessor) hold(ctx context.Context, wait time.Duration) <-chan leaseAnswer {
	answers := make(chan leaseAnswer)
	go func() {
		defer close(answers)
		is, err := l.acquire(ctx, wait)
		answers <- leaseAnswer{is, err, err != nil}
		for pause := is.renew(); err == nil || !isLost(err); {
			if is.Secret == "" || !sleep(ctx, pause) {
				return
			}
			// All replicas together leave time for another try.
			var next leased
			within := min(l.timeout, is.renew()/time.Duration(2*len(l.replicas)))
			path, given := fmt.Sprintf("/%d/renew", is.WorkerID), body{"secret": is.Secret}
			next, err = l.ask(ctx, http.MethodPost, path, within, given)
			if err == nil && (next.WorkerID != is.WorkerID || next.Secret != is.Secret) {
				err = fmt.Errorf("the answer to the renewal of %v is about %v with another secret", is, next)
			}
			next.fits = is.fits
			if pause = min(time.Second, is.renew()/4); err == nil {
				is, pause = next, next.renew()
			}
			answers <- leaseAnswer{is, err, isLost(err)}
		}
	}()
	return answers
}

// sleep says whether the context is still alive after it.
func sleep(ctx context.Context, pause time.Duration) bool {
	select {
	case <-time.After(pause):
		return true
	case <-ctx.Done():
		return false
	}
}

// acquire leases a worker ID, for as long as wait allows.
func (l *lessor) acquire(ctx context.Context, wait time.Duration) (is leased, err error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	given := body{}
	if l.instance != "" {
		given["instance"] = l.instance
	}
	for said := ""; ; {
		if is, err = l.ask(ctx, http.MethodPost, "", l.timeout, given); err == nil {
			left := time.Duration(is.After-is.Now)*time.Millisecond + leaseEdge
			if left > 2*leaseEdge {
				say("waiting for %v: earlier holders of %v may have used the time until then", left.Round(time.Second), is)
			}
			is.fits = time.Now().Add(left + leaseEdge + leaseSlack)
			return is, nil
		}
		if isFinal(err) {
			return is, fmt.Errorf("lease a worker ID: %w", err)
		}
		if text := oneLine(err); ctx.Err() == nil && text != said {
			said = text
			say("no worker ID yet, trying again for up to %v: %s", wait, text)
		}
		if !sleep(ctx, time.Second) {
			return is, fmt.Errorf("no worker ID within --wait %v: %w", wait, err)
		}
	}
}

// release gives a lease back. Nothing after lastUsed, Unix ms, was used.
func (l *lessor) release(was leased, lastUsed int64) {
	given := body{"secret": was.Secret, "lastUsed": strconv.FormatInt(lastUsed, 10)}
	_, err := l.ask(context.Background(), http.MethodDelete, fmt.Sprintf("/%d", was.WorkerID), l.timeout, given)
	if err != nil && !isLost(err) { // it may have ended by this request, whose answer was lost
		say("%v was not released and stays leased until it ends: %s", was, oneLine(err))
	}
}

// ask asks one replica after the other until one has an answer that counts.
func (l *lessor) ask(
	ctx context.Context, method, path string, within time.Duration, given body,
) (is leased, err error) {
	for range l.replicas {
		if is, err = l.askOne(ctx, method, path, within, given); err == nil || isFinal(err) || ctx.Err() != nil {
			return is, err
		}
		l.replicas = append(l.replicas[1:], l.replicas[0])
	}
	return is, err
}

// askOne asks the first replica. The answer to DELETE has no lease.
func (l *lessor) askOne(
	ctx context.Context, method, path string, within time.Duration, given body,
) (is leased, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	target, client, err := l.replicas[0].resolve(l.cfg)
	token, err2 := l.token()
	sent, err3 := json.Marshal(given)
	req, err4 := http.NewRequestWithContext(ctx, method, target+path, bytes.NewReader(sent))
	if err := errors.Join(err, err2, err3, err4); err != nil {
		return is, err
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return is, err
	}
	defer func() { _ = resp.Body.Close() }() // it was read, or is of no use
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return is, fmt.Errorf("read the answer of %s: %w", target, err)
	}
	var said struct {
		Code    *int
		Message string
		Lease   *leased
	}
	switch err := json.Unmarshal(text, &said); {
	case err != nil || said.Code == nil ||
		resp.StatusCode == http.StatusOK && (said.Lease == nil) != (method == http.MethodDelete):
		return is, &refusedError{url: target, status: resp.StatusCode, message: "not as shardid does: check the URL"}
	case resp.StatusCode != http.StatusOK:
		return is, &refusedError{target, resp.StatusCode, *said.Code, said.Message}
	case said.Lease == nil:
		return is, nil
	}
	is = *said.Lease
	if is.Name != l.name || is.Secret == "" || is.RenewMs < 1 ||
		is.WorkerBits < 1 || is.WorkerBits > 62 || is.WorkerID < 0 || is.WorkerID >= 1<<is.WorkerBits {
		return leased{}, &refusedError{url: target, status: resp.StatusCode, message: "with a lease that cannot be"}
	}
	return is, nil
}
