//go:build unix

package redisstore_test

import (
	"bytes"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"shardid/model"
	"shardid/repository/listtest"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// TestARepeatChangesNothing: the client repeats what it gets no answer to. A push whose answer is lost, or that arrives
// after the next one, is in its list once; a lock belongs to the one that asked for it; a pop leaves a gap.
func TestARepeatChangesNothing(t *testing.T) {
	t.Parallel()
	f := &faults{}
	o := single(f.proxy(t, testserver.Redis(t).Addr))
	s := open(t, o)
	push := func(first, last int64) error { return pushErr(t, s, request(t, s, first, last)) }
	check.Must(t, push(1, 10))
	unanswered := request(t, s, 11, 20)
	f.loses.Store(1 << 30)
	check.Equal(t, pushErr(t, s, unanswered) != nil, true, "an error for want of an answer")
	f.loses.Store(0)
	check.Eventually(t, "it is executed", func() error {
		if st := listtest.State(t, s, key()); st.HighWater != 20 {
			return fmt.Errorf("%+v", st)
		}
		return nil
	})
	check.Is(t, push(20, 30), model.ErrNotAboveHighWater)
	check.Must(t, push(21, 30))

	listtest.Expect(t, listtest.Pop(t, s, key(), 5).Indices, 1, 5) // first the server has to learn a script
	f.loses.Store(1)
	listtest.Expect(t, listtest.Pop(t, s, key(), 5).Indices, 11, 15)
	for _, name := range []string{"1_2", "1_3"} { // likewise
		got, err := s.TryLock(t.Context(), []string{name}, "me", time.Minute)
		check.Must(t, err)
		check.Equal(t, got[0], true, "the lock", name)
		f.loses.Store(1)
	}
	f.loses.Store(0)

	late := &hold{make(chan struct{}), make(chan struct{})}
	req := request(t, s, 31, 40)
	f.hold.Store(late)
	delayed := make(chan error)
	go func() { delayed <- pushErr(t, s, req) }()
	<-late.sent
	listtest.Fill(t, open(t, o), key(), 41, 50)
	close(late.arrive)
	check.Is(t, <-delayed, model.ErrNotAboveHighWater)
	listtest.Expect(t, listtest.Pop(t, s, key(), 15).Indices, 16, 30)
	listtest.Expect(t, listtest.Pop(t, s, key(), 100).Indices, 41, 50)
}

// faults are what the proxy of a Redis does.
type faults struct {
	loses atomic.Int64         // to how many scripts the answer is lost
	hold  atomic.Pointer[hold] // of the next script, or nil
}

// hold keeps back a script: sent is closed once it was sent, and it arrives when arrive is closed.
type hold struct{ sent, arrive chan struct{} }

// proxy forwards to a Redis, and gives its own address.
func (f *faults) proxy(t *testing.T, to string) string {
	t.Helper()
	return testserver.Fake(t, func(client net.Conn) {
		var muted atomic.Bool
		testserver.Forward(client, to, func(request []byte) []byte {
			low := bytes.ToLower(request)
			if bytes.Contains(low, []byte("\neval")) {
				if h := f.hold.Swap(nil); h != nil {
					close(h.sent)
					<-h.arrive
				}
				muted.Store(f.loses.Add(-1) >= 0)
			}
			return request
		}, func(reply []byte) []byte {
			if !muted.Load() {
				return reply
			}
			time.Sleep(20 * time.Millisecond) // a pipeline is executed to its end
			_ = client.Close()
			return nil
		})
	})
}
