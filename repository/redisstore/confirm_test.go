//go:build unix

package redisstore_test

import (
	"strings"
	"testing"

	"shardid/repository/redisstore"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// confirmed wants that a life is confirmed while all servers are there, and not any more
// once those that lose have stopped.
func confirmed(t *testing.T, opts redisstore.Options, lose ...*testserver.RedisServer) {
	t.Helper()
	s, err := redisstore.New(opts)
	check.Must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	s.SetDeployment("one")
	life, err := s.Marks().Life(t.Context())
	check.Must(t, err)
	got, err := s.Marks().Confirm(t.Context())
	check.Must(t, err)
	check.Equal(t, got, life, "confirmed")
	for _, server := range lose {
		server.Stop()
	}
	if got, err := s.Marks().Confirm(t.Context()); err == nil || !strings.Contains(err.Error(), "no majority") {
		t.Errorf("without a majority: %q, %v", got, err)
	}
	again, err := s.Marks().Life(t.Context())
	check.Must(t, err)
	check.Equal(t, again, life, "it is there all the same")
}

func TestConfirmSentinel(t *testing.T) {
	setup := testserver.Sentinel(t)
	opts := redisstore.Options{Mode: redisstore.ModeSentinel, Addrs: setup.Addrs[:1], MasterName: setup.MasterName}
	confirmed(t, opts, setup.Sentinels[1], setup.Sentinels[2])
}

// The slot of marks_{one} is owned by the node that stays.
func TestConfirmCluster(t *testing.T) {
	setup := testserver.Cluster(t, "--cluster-node-timeout", "60000")
	client := setup.Client()
	owner, err := client.MasterForKey(t.Context(), "id.gen.marks_{one}")
	check.Must(t, err)
	var others []*testserver.RedisServer
	for _, node := range setup.Nodes {
		if node.Addr != owner.Options().Addr {
			others = append(others, node)
		}
	}
	check.Equal(t, len(others), 2, "other nodes")
	confirmed(t, redisstore.Options{Mode: redisstore.ModeCluster, Addrs: setup.Addrs}, others...)
}

func TestConfirmSingle(t *testing.T) {
	server := testserver.Redis(t)
	s := of(t, server, "one")
	life, err := s.Marks().Confirm(t.Context())
	check.Must(t, err)
	server.Stop()
	check.Equal(t, check.Err(s.Marks().Confirm(t.Context())) != nil, true, "no server: an error")
	server.Restart()
	check.Eventually(t, "another life", func() error { _, err := s.Marks().Confirm(t.Context()); return err })
	again, err := s.Marks().Confirm(t.Context())
	if err != nil || again == life {
		t.Errorf("%q, then %q, %v", life, again, err)
	}
}
