package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"shardid/client/idgen"
	"shardid/client/idtext"
)

// maxBits is how many bits of an ID worker ID and sequence have together at most.
const maxBits = 24

// lease is the right to issue IDs with a worker ID of a name: IDs whose time t, in Unix ms, has
// After < t ≤ Until, whatever the clock of the holder is.
type lease struct {
	idgen.Layout
	Name     string `json:"name"`
	WorkerID int64  `json:"workerId"`
	Secret   string `json:"secret"`
	After    int64  `json:"after,string"`
	Until    int64  `json:"until,string"`
	Now      int64  `json:"now,string"` // the database's clock when it granted or renewed, Unix ms
	RenewMs  int64  `json:"renewMs"`    // wait so long before the next renewal
}

func (l lease) renew() time.Duration { return time.Duration(l.RenewMs) * time.Millisecond }

// check refuses what no shardid answers, and with which IDs could repeat or be negative.
func (l lease) check(name string) error {
	if l.Name != name || l.Secret == "" || l.RenewMs < 1 || l.Epoch < 0 || l.After < 0 ||
		l.WorkerBits < 1 || l.WorkerBits > maxBits || l.SeqBits < 1 || l.SeqBits > maxBits-l.WorkerBits ||
		l.ShardBits >= l.SeqBits || l.ShardBits > idtext.MaxShardBits ||
		l.WorkerID < 0 || l.WorkerID >= l.Workers() || l.After > l.MaxTime() {
		l.Secret = "…"
		return fmt.Errorf("the lease %+v", l)
	}
	return nil
}

func leasePath(name string) string { return "/v1/leases/" + url.PathEscape(name) }

func (l lease) path() string { return leasePath(l.Name) + "/" + strconv.FormatInt(l.WorkerID, 10) }

// acquire leases a worker ID of a name. An answer that was lost leaves one leased that nobody
// uses, until it ends.
func (c *Client) acquire(ctx context.Context, name string) (l lease, err error) {
	q := question{method: http.MethodPost, path: leasePath(name)}
	if c.opts.Instance != "" {
		q.form = url.Values{"instance": {c.opts.Instance}}.Encode()
	}
	return c.askLease(ctx, q, name)
}

// renew is the lease with a later Until. It takes half of the time between renewals at most, so
// that it can be repeated.
func (c *Client) renew(ctx context.Context, l lease) (lease, error) {
	q := question{
		method: http.MethodPost, path: l.path() + "/renew", form: url.Values{"secret": {l.Secret}}.Encode(),
		within: min(c.opts.Timeout, l.renew()/2),
	}
	next, err := c.askLease(ctx, q, l.Name)
	if err == nil && (next.WorkerID != l.WorkerID || next.Secret != l.Secret || next.Layout != l.Layout) {
		err = fmt.Errorf("shardid: worker ID %d was renewed, and the answer is about %d with another secret or layout"+
			": it is not used", l.WorkerID, next.WorkerID)
	}
	return next, err
}

// askLease asks for a lease of a name.
func (c *Client) askLease(ctx context.Context, q question, name string) (l lease, err error) {
	err = c.askNow(ctx, q, func(a answer) error {
		if a.Lease == nil {
			return errors.New("without a lease")
		}
		l = *a.Lease
		l.Layout = l.InMillis()
		return l.check(name)
	})
	return l, err
}

// release ends a lease under which nothing after lastUsed, Unix ms, was or will be issued.
func (c *Client) release(ctx context.Context, l lease, lastUsed int64) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.opts.Timeout, ErrTimeout)
	defer cancel()
	form := url.Values{"secret": {l.Secret}, "lastUsed": {strconv.FormatInt(lastUsed, 10)}}
	q := question{method: http.MethodDelete, path: l.path(), form: form.Encode()}
	err := c.askInTurn(ctx, q, func(answer) error { return nil })
	if isLost(err) { // it has ended, perhaps by this request, whose answer was lost
		return nil
	}
	if err != nil {
		return fmt.Errorf("worker ID %d of the name %q was not released and stays leased until %s: %w",
			l.WorkerID, l.Name, time.UnixMilli(l.Until).UTC().Format(time.RFC3339), err)
	}
	return nil
}

// isLost says whether a refusal means that the lease is over.
func isLost(err error) bool {
	var refused *Error
	return errors.As(err, &refused) && (refused.Code == CodeLeaseLost || refused.Code == CodeUnknown)
}
