//go:build unix

package redisstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"shardid/model"
	"shardid/repository/redisstore"
	"shardid/repository/sequencetest"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

const sectionName = "id.gen.sequence_s_0"

func TestSequencesContract(t *testing.T) {
	for name, start := range map[string]func(*testing.T) (redisstore.Options, []*testserver.RedisServer){
		"single": func(t *testing.T) (redisstore.Options, []*testserver.RedisServer) {
			server := testserver.SharedRedis(t)
			return single(server.Addr), []*testserver.RedisServer{server}
		},
		"sentinel": func(t *testing.T) (redisstore.Options, []*testserver.RedisServer) {
			setup := testserver.Sentinel(t)
			return redisstore.Options{Mode: "sentinel", Addrs: setup.Addrs, MasterName: setup.MasterName}, []*testserver.RedisServer{setup.Master}
		},
		"cluster": func(t *testing.T) (redisstore.Options, []*testserver.RedisServer) {
			setup := testserver.Cluster(t)
			return redisstore.Options{Mode: "cluster", Addrs: setup.Addrs}, setup.Nodes
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, servers := start(t)
			sequencetest.Run(t, func(t *testing.T) sequencetest.Store {
				for _, server := range servers {
					server.FlushAll()
				}
				s := open(t, o)
				check.Must(t, s.Check(t.Context()))
				return s.Sequences()
			})
		})
	}
}

// Where a section is gone, with others or alone, it has another life: what was allocated before
// comes to nothing, and nothing is given until numbers come for the new one.
func TestSectionIsGone(t *testing.T) {
	for name, how := range map[string][]any{"all is deleted": {"FLUSHALL"}, "the section is": {"DEL", sectionName}, "its history is": {"HDEL", sectionName, "h"},
		"its life is": {"HDEL", sectionName, "e"}, "it has another history": {"HSET", sectionName, "h", strings.Repeat("5f", 20)}} {
		t.Run(name, func(t *testing.T) {
			server := emptied(t)
			q, key := openAt(t, server.Addr).Sequences(), sequencetest.Key(0)
			check.Must(t, sequencetest.Push(t, q, key, 1, 1, 10))
			sequencetest.Want(t, q, 1, sequencetest.Of("k", 4), 4)
			before := sequencetest.State(t, q, key)
			push := model.SectionPush{Key: key, Life: before.Life, Term: 1, Segment: model.Segment{First: 11, Last: 20}}
			time.Sleep(time.Millisecond) // lives are told apart by their µs
			do(t, server.Client(), how...)
			if name != "its life is" { // the history is the server's, and so is the term, until somebody looks
				ask := model.SectionAsk{Key: key, Server: before.Server, Term: 1, Asks: sequencetest.Of("k", 1)}
				check.Equal(t, q.Next(t.Context(), []model.SectionAsk{ask})[0].Dry, true, "before anybody looks")
			}
			check.Is(t, q.Push(t.Context(), []model.SectionPush{push})[0], model.ErrLifeChanged, "before anybody looks")
			after := sequencetest.State(t, q, key)
			if after.Life == before.Life || after.Server != before.Server || after.Term != 0 || after.Bound != 0 {
				t.Errorf("%+v, before %+v", after, before)
			}
			check.Is(t, q.Push(t.Context(), []model.SectionPush{push})[0], model.ErrLifeChanged, "afterwards")
			check.Equal(t, sequencetest.Ask(t, q, key, 1, sequencetest.Of("k", 1)...).Dry, true, "the term before")
			check.Must(t, sequencetest.Push(t, q, key, 11, 11, 20))
			sequencetest.Want(t, q, 11, sequencetest.Of("k", 0, 1), 10, 11)
		})
	}
}

// A server that restarts on its old data is another one: what was given since is not known.
func TestSectionOfARestart(t *testing.T) {
	server := testserver.Redis(t)
	q, key := openAt(t, server.Addr).Sequences(), sequencetest.Key(0)
	check.Must(t, sequencetest.Push(t, q, key, 1, 1, 10))
	before := sequencetest.State(t, q, key)
	restartSaved(t, server)
	ask := model.SectionAsk{Key: key, Server: before.Server, Term: 1, Asks: sequencetest.Of("k", 1)}
	var a model.SectionAnswer
	eventually(t, "it is back", func() error { a = q.Next(t.Context(), []model.SectionAsk{ask})[0]; return a.Err })
	check.Equal(t, a.Dry, true, "dry")
	after := sequencetest.State(t, q, key)
	if after.Server == before.Server || after.Term != 0 {
		t.Errorf("%+v, before %+v", after, before)
	}
	server2, err := q.Confirm(t.Context(), key)
	check.OK(t, err)
	check.Equal(t, server2, after.Server, "the server")
}

// A section of another deployment is left as it is.
func TestSectionOfAnotherDeployment(t *testing.T) {
	server := emptied(t)
	q, key := openAt(t, server.Addr).Sequences(), sequencetest.Key(0)
	check.Must(t, sequencetest.Push(t, q, key, 1, 1, 10))
	st := sequencetest.State(t, q, key)
	c := server.Client()
	do(t, c, "HSET", sectionName, "d", "theirs")
	before := c.HGetAll(t.Context(), sectionName).Val()
	push := model.SectionPush{Key: key, Life: st.Life, Term: 1, Segment: model.Segment{First: 11, Last: 20}}
	ask := model.SectionAsk{Key: key, Server: st.Server, Term: 1, Asks: sequencetest.Of("k", 1)}
	a := q.Next(t.Context(), []model.SectionAsk{ask})[0]
	check.Equal(t, len(a.Last), 0, "numbers with an error")
	for what, err := range map[string]error{
		"state": q.State(t.Context(), []model.SectionKey{key})[0].Err, "push": q.Push(t.Context(), []model.SectionPush{push})[0],
		"next": a.Err, "confirm": check.Err(q.Confirm(t.Context(), key)), "forget": q.Forget(t.Context(), model.Space{Name: "s", Sections: 1, Step: 1}),
	} {
		var store *model.StoreError
		if !errors.As(err, &store) || !strings.Contains(err.Error(), "theirs") {
			t.Errorf("%s: %v", what, err)
		}
	}
	after := c.HGetAll(t.Context(), sectionName).Val()
	check.Equal(t, len(after), len(before), "fields")
	for field, value := range before {
		check.Equal(t, after[field], value, field)
	}
}
