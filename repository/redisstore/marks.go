package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Marks remembers how far the deployment's counters in the database have come. In
// each call, life names a time in which the server has forgotten nothing and was in use
// without a break; marks of an earlier life are dropped. All calls may be repeated.
// Safe for concurrent use.
type Marks struct{ store *Store }

// Marks gives the marks of the deployment, over the connections of the store.
func (s *Store) Marks() Marks { return Marks{s} }

// Beat notes that the deployment uses the marks. When it did not for longer than most,
// another life begins, in which the marks stay. Errors: *model.StoreError.
func (m Marks) Beat(ctx context.Context, most time.Duration) (life string, err error) {
	life, _, _, err = m.run(ctx, "beat", strconv.FormatInt(most.Milliseconds(), 10), "", "")
	return life, err
}

// Peek gives how long ago the last beat was, by the server's clock, and the mark of a
// counter; 0 is none. Errors: *model.StoreError.
func (m Marks) Peek(ctx context.Context, counter string) (life string, age time.Duration, mark int64, err error) {
	return m.run(ctx, "read a mark", "", field(counter), "")
}

// Raise raises the mark of a counter to value and gives what it was before; 0 is
// none. Errors: *model.StoreError.
func (m Marks) Raise(ctx context.Context, counter string, value int64) (life string, before int64, err error) {
	life, _, before, err = m.run(ctx, "raise a mark", "", field(counter), fmt.Sprintf("%019d", max(value, 0)))
	return life, before, err
}

// field keeps counters apart from h, e and c.
func field(counter string) string { return "m:" + counter }

func (m Marks) run(ctx context.Context, op string, args ...any) (life string, age time.Duration, mark int64, err error) {
	self := m.store.self()
	deployment, _, _ := strings.Cut(self, " ")
	reply, err := m.store.marks.run(ctx, m.store.reader, []string{"id.gen.marks_{" + deployment + "}"}, append([]any{self}, args...)...)
	if err != nil {
		return "", 0, 0, m.store.fail(op, err)
	}
	f := fields{rest: reply}
	life, age = strings.Clone(f.word()), time.Duration(f.number())*time.Millisecond
	mark, err = strconv.ParseInt(f.rest, 10, 64)
	if err != nil || f.bad || mark < 0 {
		return "", 0, 0, explain(op, fmt.Errorf("%w: marks answered %.80q", errMalformed, reply))
	}
	return life, age, mark, nil
}
