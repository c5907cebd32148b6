package zkstore

import (
	"github.com/go-zookeeper/zk"

	"shardid/model"
)

// NewOver is New with a network of the test's own.
func NewOver(o Options, dial dialer) (*Store, error) {
	s, err := New(o)
	if err == nil {
		s.tree.dial = dial
	}
	return s, err
}

// TheirHolder is what a node of NotFound9's fork says that is in use, written at that time
// by the server's clock: what the next lease starts above, and until when there is none. No
// server's clock can be set.
func TheirHolder(data string, id int, written int64) (after, until int64, err error) {
	rec, err := record{}.withTheirs(id, node{found: true, data: []byte(data), stat: zk.Stat{Mtime: written}}, node{})
	return rec.after(model.Owner{}), rec.liveUntil(), err
}
