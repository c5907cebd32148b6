//go:build unix

package redisstore_test

import (
	"strings"
	"testing"

	"shardid/model"
	"shardid/model/witness"
	"shardid/repository/listtest"
	"shardid/repository/redisstore"
	"shardid/repository/sequencetest"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// The promise rests on lives: whatever a Redis has forgotten, or has brought back, it is another one for each list,
// section and mark. Nothing of the life before is issued, and nothing that was allocated for it comes
// in.

// life is what a deployment has in the present life of a Redis.
type life struct {
	push    model.PushRequest // allocated for the list, which has 11…1000 and gave 1…10; another one gave all
	section model.SectionState
	marks   string
}

func emptied() model.ListKey { return model.ListKey{App: 9} }

func live(t *testing.T, s *redisstore.Store) life {
	t.Helper()
	listtest.Fill(t, s, key(), 1, 1000)
	l := life{push: request(t, s, 1001, 1010)}
	listtest.Expect(t, listtest.Pop(t, s, key(), 10).Indices, 1, 10)
	listtest.Fill(t, s, emptied(), 1, 5)
	listtest.Expect(t, listtest.Pop(t, s, emptied(), 10).Indices, 1, 5)
	q := s.Sequences()
	check.Must(t, sequencetest.Push(t, q, sequencetest.Key(0), 1, 1, 10))
	sequencetest.Want(t, q, 1, sequencetest.Of("k", 4), 4)
	l.section = sequencetest.State(t, q, sequencetest.Key(0))
	var err error
	l.marks, err = s.Marks().Life(t.Context())
	check.Must(t, err)
	check.Must(t, check.Err(s.Marks().Raise(t.Context(), l.marks, []witness.Mark{{Counter: "t:a", Value: 100}})))
	return l
}

// wantEnded wants that the life has ended. kept says whether how far all had come is still known, and known whether the
// sections have the server's life before anybody has looked at them. The first call for the list is first.
func (l life) wantEnded(t *testing.T, s *redisstore.Store, kept, known bool, first string) {
	t.Helper()
	switch first {
	case "pop":
		if p := listtest.Pop(t, s, key(), 10); len(p.Indices) > 0 || kept && p.Purged < 900 {
			t.Errorf("popped %+v", p)
		}
	case "state":
		if st := listtest.State(t, s, key()); st.Len > 0 || kept && st.Purged < 900 {
			t.Errorf("state %+v", st)
		}
	}
	check.Is(t, pushErr(t, s, l.push), model.ErrLifeChanged, "what was allocated before")
	want := int64(0)
	if kept {
		want = 1000
		check.Is(t, pushErr(t, s, request(t, s, 1000, 1100)), model.ErrNotAboveHighWater)
	}
	if st := listtest.State(t, s, key()); st.Len != 0 || st.HighWater != want {
		t.Errorf("state %+v, want the mark %d", st, want)
	}
	listtest.Fill(t, s, key(), 1011, 1020)
	listtest.Expect(t, listtest.Pop(t, s, key(), 100).Indices, 1011, 1020)
	listtest.Fill(t, s, emptied(), 6, 7)
	listtest.Expect(t, listtest.Pop(t, s, emptied(), 100).Indices, 6, 7)

	q, key := s.Sequences(), sequencetest.Key(0)
	push := model.SectionPush{Key: key, Life: l.section.Life, Term: 1, Segment: model.Segment{First: 11, Last: 20}}
	ask := model.SectionAsk{Key: key, Server: l.section.Server, Term: 1, Asks: sequencetest.Of("k", 1)}
	check.Equal(t, q.Next(t.Context(), []model.SectionAsk{ask})[0].Dry, !known, "before anybody looks")
	for range 2 { // before and after somebody looks
		check.Is(t, q.Push(t.Context(), []model.SectionPush{push})[0], model.ErrLifeChanged)
		st := sequencetest.State(t, q, key)
		if st.Life == l.section.Life || st.Term != 0 || st.Bound != 0 {
			t.Errorf("section %+v, before %+v", st, l.section)
		}
	}
	check.Equal(t, sequencetest.Ask(t, q, key, 1, sequencetest.Of("k", 1)...).Dry, true, "the term before")
	check.Must(t, sequencetest.Push(t, q, key, 11, 11, 20))
	sequencetest.Want(t, q, 11, sequencetest.Of("k", 0, 1), 10, 11)

	wantMarksEnded(t, s.Marks(), l.marks)
}

func wantMarksEnded(t *testing.T, m redisstore.Marks, life string) {
	t.Helper()
	for range 2 {
		_, raise := m.Raise(t.Context(), life, []witness.Mark{{Counter: "t:a", Value: 1}})
		check.Is(t, raise, model.ErrLifeChanged)
		check.Is(t, check.Err(m.Scan(t.Context(), life, 0)), model.ErrLifeChanged)
	}
	got, err := read(t, m, "", "t:a")
	check.Must(t, err)
	check.Equal(t, got[0], 0, "the mark")
}

// TestAHashIsLost: a hash that was evicted, deleted, or comes from elsewhere, in the same life of the server.
func TestAHashIsLost(t *testing.T) {
	for name, c := range map[string]struct {
		command     string
		args        []any
		kept, known bool
	}{
		"deleted":      {"DEL", nil, false, false},
		"history lost": {"HDEL", []any{"h"}, true, false},
		"life lost":    {"HDEL", []any{"e"}, true, true},
		"another's":    {"HSET", []any{"h", strings.Repeat("5f", 20)}, true, false},
	} {
		for _, first := range []string{"pop", "state", "push"} {
			t.Run(name+", then "+first, func(t *testing.T) {
				t.Parallel()
				o, c1 := lend(t)
				s := open(t, o)
				l := live(t, s)
				for _, hash := range []string{metaName, emptiedName, sectionName, marksName} {
					do(t, c1, append([]any{c.command, hash}, c.args...)...)
				}
				l.wantEnded(t, s, c.kept, c.known, first)
			})
		}
	}
	t.Run("the mark of a list is lost", func(t *testing.T) {
		t.Parallel()
		o, c := lend(t)
		s := open(t, o)
		l := live(t, s)
		do(t, c, "HDEL", metaName, "w")
		check.Is(t, pushErr(t, s, l.push), model.ErrLifeChanged)
		listtest.Fill(t, s, key(), 1, 5)
		do(t, c, "HDEL", metaName, "w")
		if p := listtest.Pop(t, s, key(), 10); len(p.Indices) != 0 || p.Purged != 5 {
			t.Errorf("popped %+v", p)
		}
	})
}

// TestAServerComesBack: killed and started again from a file or from none, demoted and promoted again, or replaced by
// a replica. What comes back is older than what was popped.
func TestAServerComesBack(t *testing.T) {
	restart := func(t *testing.T, s *redisstore.Store, servers []*testserver.RedisServer) {
		listtest.Pop(t, s, key(), 10)
		servers[0].Kill()
		servers[0].Restart()
		check.Eventually(t, "the restart", func() error { return s.Check(t.Context()) })
	}
	saved := func(t *testing.T, s *redisstore.Store, servers []*testserver.RedisServer) {
		do(t, servers[0].Client(), "SAVE")
		restart(t, s, servers)
	}
	// The last server hears its master no more, as in a network split, and becomes one itself.
	promoted := func(t *testing.T, s *redisstore.Store, servers []*testserver.RedisServer) {
		last := servers[len(servers)-1]
		c := last.Client()
		check.Eventually(t, "it has all", func() error { return c.HGet(t.Context(), marksName, "m:t:a").Err() })
		do(t, last.Client(), "REPLICAOF", "127.0.0.1", "1")
		if len(servers) > 1 {
			listtest.Pop(t, s, key(), 10)
		}
		wantAdvice(t, popErr(t, openAt(t, last.Addr)), "READONLY", "master")
		do(t, last.Client(), "REPLICAOF", "NO", "ONE")
	}
	for name, c := range map[string]struct {
		args    []string
		kept    bool
		replica bool
		change  func(*testing.T, *redisstore.Store, []*testserver.RedisServer)
	}{
		"without data":   {nil, false, false, restart},
		"from an AOF":    {[]string{"--appendonly", "yes", "--appendfsync", "no"}, true, false, restart},
		"from an RDB":    {nil, true, false, saved},
		"there and back": {nil, true, false, promoted},
		"as a replica":   {nil, true, true, promoted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := []*testserver.RedisServer{testserver.Redis(t, c.args...)}
			if c.replica { // the first one of a server begins another life
				servers = append(servers, testserver.RedisReplica(t, servers[0]))
			}
			s := openAt(t, servers[0].Addr)
			l := live(t, s)
			c.change(t, s, servers)
			after := openAt(t, servers[len(servers)-1].Addr)
			server, err := after.Sequences().Confirm(t.Context(), sequencetest.Key(1))
			check.Must(t, err)
			check.Equal(t, server != l.section.Server, true, "another server")
			l.wantEnded(t, after, c.kept, false, "pop")
		})
	}
}

// TestForeignContent: what somebody else wrote under the name of a list is an error, which other lists do not feel.
func TestForeignContent(t *testing.T) {
	t.Parallel()
	o, client := lend(t)
	s := open(t, o)
	listtest.Fill(t, s, key(), 1, 10)
	req := request(t, s, 11, 20)
	do(t, client, "SET", listName, "x")
	states := s.State(t.Context(), []model.ListKey{key(), {App: 3}})
	check.OK(t, states[1].Err, "another list")
	for _, err := range []error{popErr(t, s), states[0].Err, pushErr(t, s, req)} {
		wantAdvice(t, err, "WRONGTYPE", "of its own")
	}
}
