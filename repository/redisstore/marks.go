package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"shardid/model"
)

// Marks remembers how far the deployment's counters in the database have come. In
// each call, life names a time in which the server has forgotten nothing; in another one
// the call fails with model.ErrLifeChanged, and marks of an earlier life are dropped. All
// calls may be repeated. Other errors: *model.StoreError. Safe for concurrent use.
type Marks struct{ store *Store }

// Marks gives the marks of the deployment, over the connections of the store.
func (s *Store) Marks() Marks { return Marks{s} }

// Place names the server, or the servers, and the way to reach them.
func (m Marks) Place() string { return m.store.opts.place() }

// Life is the present life; the error is also that of a server that takes no writes.
func (m Marks) Life(ctx context.Context) (string, error) {
	life, _, err := m.run(ctx, "beat", "", "life")
	return life, err
}

// Confirm is Life, asked through new connections. With Sentinel and Cluster the server must be
// the one that the majority takes for the master.
func (m Marks) Confirm(ctx context.Context) (life string, err error) {
	client, err := m.store.opts.fresh(ctx, m.key())
	if err != nil {
		return "", explain("ask who the master is", err)
	}
	defer func() { err = cmp.Or(err, client.Close()) }()
	fresh := &Store{opts: m.store.opts, client: client, marks: m.store.marks}
	fresh.SetDeployment(m.store.deploymentID())
	return Marks{fresh}.Life(ctx)
}

// Marks are those of the counters, in order; 0 is none.
func (m Marks) Marks(ctx context.Context, life string, counters []string) ([]int64, error) {
	args := []any{"read"}
	for _, c := range counters {
		args = append(args, c)
	}
	return m.values(ctx, "read marks", life, len(counters), args)
}

// Raise raises marks and gives, in order, what they were before; 0 is none.
func (m Marks) Raise(ctx context.Context, life string, marks []model.Mark) ([]int64, error) {
	args := []any{"raise"}
	for _, mark := range marks {
		args = append(args, mark.Counter, fmt.Sprintf("%019d", max(mark.Value, 0)))
	}
	return m.values(ctx, "raise marks", life, len(marks), args)
}

func (m Marks) values(ctx context.Context, op, life string, count int, args []any) ([]int64, error) {
	_, rest, err := m.run(ctx, op, life, args...)
	if err != nil {
		return nil, err
	}
	words := strings.Fields(rest)
	values := make([]int64, len(words))
	for i, word := range words {
		if values[i], err = strconv.ParseInt(word, 10, 64); err != nil || values[i] < 0 || len(words) != count {
			return nil, malformedMarks(op, rest)
		}
	}
	if len(words) != count {
		return nil, malformedMarks(op, rest)
	}
	return values, nil
}

func malformedMarks(op, reply string) error {
	return explain(op, fmt.Errorf("%w: marks answered %.80q", errMalformed, reply))
}

// Scan gives some marks; each that exists all the time comes at least once until next is 0.
func (m Marks) Scan(ctx context.Context, life string, from uint64) (marks []model.Mark, next uint64, err error) {
	const op, digits = "scan the marks", 19
	_, rest, err := m.run(ctx, op, life, "scan", from)
	if err != nil {
		return nil, 0, err
	}
	word, rest, _ := strings.Cut(rest, " ")
	if next, err = strconv.ParseUint(word, 10, 64); err != nil {
		return nil, 0, malformedMarks(op, word)
	}
	for rest != "" {
		size, tail, _ := strings.Cut(rest, ":")
		length, err := strconv.Atoi(size)
		if err != nil || length < 0 || len(tail)-digits < length {
			return nil, 0, malformedMarks(op, rest)
		}
		value, err := strconv.ParseInt(tail[length:length+digits], 10, 64)
		if err != nil || value < 0 {
			return nil, 0, malformedMarks(op, rest)
		}
		marks = append(marks, model.Mark{Counter: strings.Clone(tail[:length]), Value: value})
		rest = strings.TrimPrefix(tail[length+digits:], " ")
	}
	return marks, next, nil
}

func (m Marks) key() string {
	deployment := m.store.deploymentID()
	return marksKey(deployment)
}

func marksKey(deployment string) string { return "id.gen.marks_{" + deployment + "}" }

// run gives the present life and what follows it.
func (m Marks) run(ctx context.Context, op, want string, args ...any) (life, rest string, err error) {
	args = append([]any{m.store.deploymentID(), want}, args...)
	reply, err := m.store.marks.run(ctx, m.store.client, []string{m.key()}, args...)
	if err != nil {
		return "", "", m.store.fail(op, err)
	}
	life, rest, _ = strings.Cut(reply, " ")
	life = strings.Clone(life)
	switch {
	case life == "" || len(life) > maxLife:
		return "", "", malformedMarks(op, reply)
	case want != "" && want != life:
		return "", "", model.ErrLifeChanged
	}
	return life, rest, nil
}

// maxLife is the width of a life in the database, in bytes.
const maxLife = 80
