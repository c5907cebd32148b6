// Package fakes has modes that issue IDs without stores, and tokens, for the tests of front ends.
package fakes

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"shardid/client/hold"
	"shardid/model"
	"shardid/service/access"
)

// Mode counts what is issued: 1, 2, 3, … Its modes do whatever Fail says first. Safe for concurrent use.
type Mode struct {
	Fail func(context.Context) error // nil: it works; set before the first call, then by Restart

	mu     sync.Mutex
	counts Counts
}

// Counts are what a mode has done.
type Counts struct {
	Calls, Issued int64  // calls that have begun, and IDs
	Asked         string // the gatePass, tag or key of the latest call
}

// Broken is a Fail that gives err.
func Broken(err error) func(context.Context) error {
	return func(context.Context) error { return err }
}

// Counts gives what the mode has done.
func (m *Mode) Counts() Counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counts
}

// Restart has the mode issue from 1 again, until fail says that it fails.
func (m *Mode) Restart(fail func(context.Context) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Fail, m.counts = fail, Counts{}
}

// take appends the next IDs to dst.
func (m *Mode) take(ctx context.Context, asked string, count int, dst []int64) ([]int64, error) {
	m.mu.Lock()
	m.counts.Calls++
	m.counts.Asked = asked
	if fail := m.Fail; fail != nil {
		m.mu.Unlock()
		if err := fail(ctx); err != nil {
			return dst, err
		}
		m.mu.Lock()
	}
	first := m.counts.Issued + 1
	m.counts.Issued += int64(count)
	m.mu.Unlock()
	for i := range count {
		dst = append(dst, first+int64(i))
	}
	return dst, nil
}

// Queue issues indices of the list that is asked for.
type Queue struct{ *Mode }

// Next implements issuer.Queue.
func (q Queue) Next(ctx context.Context, app int, shard uint8, count int, dst []int64) ([]int64, error) {
	from := len(dst)
	dst, err := q.take(ctx, fmt.Sprint(shard), count, dst)
	list := model.ListKey{App: uint8(app), Shard: shard}
	for i := from; i < len(dst); i++ {
		dst[i] = list.Compose(dst[i])
	}
	return dst, err
}

// Segment has IDs of every tag but "numbers", which has texts. Those of "sharded" have four shard bits. A run has 100
// IDs.
type Segment struct{ *Mode }

// Next implements issuer.Segment.
func (s Segment) Next(
	ctx context.Context, tag string, key model.ShardKey, count int, dst []int64,
) ([]int64, error) {
	if tag == "numbers" {
		return dst, model.ErrPattern
	}
	bits, _ := s.ShardBits(ctx, tag)
	low, err := key.Low(tag, bits)
	if err != nil {
		return dst, err
	}
	from := len(dst)
	dst, err = s.take(ctx, tag, count, dst)
	for i := range dst[from:] {
		dst[from+i] = dst[from+i]<<bits | low
	}
	return dst, err
}

// Run implements issuer.Segment.
func (s Segment) Run(ctx context.Context, tag string, key model.ShardKey) (run hold.Run, err error) {
	ids, err := s.Next(ctx, tag, key, 100, nil)
	if err == nil {
		run = hold.Run{First: ids[0], Count: 100, Stride: ids[1] - ids[0]}
	}
	return run, err
}

// ShardBits implements issuer.Segment.
func (Segment) ShardBits(_ context.Context, tag string) (uint, error) {
	if tag == "sharded" {
		return 4, nil
	}
	return 0, nil
}

// Numbers implements issuer.Segment with no "1", no "2", …
func (s Segment) Numbers(ctx context.Context, tag string, count int, dst []string) ([]string, error) {
	ids, err := s.take(ctx, tag, count, nil)
	for _, id := range ids {
		dst = append(dst, fmt.Sprintf("no %q", fmt.Sprint(id)))
	}
	return dst, err
}

// Generator issues First, First+1, …
type Generator struct {
	*Mode
	First int64 // 1 when 0
}

// Next implements issuer.Generator.
func (g Generator) Next(ctx context.Context, count int, dst []int64) ([]int64, error) {
	from := len(dst)
	dst, err := g.take(ctx, "", count, dst)
	for i := from; i < len(dst); i++ {
		dst[i] += max(1, g.First) - 1
	}
	return dst, err
}

// Sequence counts by space and key. Of the space "x" there is none, and of the key "bad" no number.
type Sequence struct {
	*Mode
	mu    sync.Mutex
	Last  map[[2]string]int64
	Sizes []int // of its calls
}

// Ask implements issuer.Sequence.
func (s *Sequence) Ask(ctx context.Context, asks []*model.SequenceAsk) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Last == nil {
		s.Last = map[[2]string]int64{}
	}
	s.Sizes = append(s.Sizes, len(asks))
	for _, ask := range asks {
		at := [2]string{ask.Space, ask.Key}
		switch _, err := s.take(ctx, ask.Key, int(ask.Count), nil); {
		case ask.Space == "x":
			ask.Err = fmt.Errorf("%w: %q", model.ErrUnknownSpace, ask.Space)
		case ask.Key == "bad":
			ask.Err = model.ErrNoNumber
		case err != nil:
			ask.Err = err
		default:
			s.Last[at] += ask.Count
			ask.Last = s.Last[at]
		}
	}
}

// Guard knows admin as the token of the configuration, unless that is "", and those of a file whose entries are a name
// and what it may do each: the token of orders is sesame-orders, and is called orders-token. The clock stands, so that
// no rate fills again.
func Guard(admin string, entries ...string) *access.Guard {
	dir, err := os.MkdirTemp("", "tokens")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	var text strings.Builder
	if len(entries) == 0 {
		text.WriteString("[]")
	}
	for i := 0; i < len(entries); i += 2 {
		sum := sha256.Sum256([]byte("sesame-" + entries[i]))
		fmt.Fprintf(&text, "- {name: %s-token, sha256: '%x', %s}\n", entries[i], sum, entries[i+1])
	}
	file := filepath.Join(dir, "tokens.yaml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		panic(err)
	}
	now := time.Now()
	g, err := access.NewGuard(access.Options{AdminToken: admin, File: file, Now: func() time.Time { return now }})
	if err != nil {
		panic(err)
	}
	return g
}
