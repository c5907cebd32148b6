package zkstore

import "github.com/go-zookeeper/zk"

// NewOver is New with a network of the test's own.
func NewOver(o Options, dial zk.Dialer) (*Store, error) {
	s, err := New(o)
	if err == nil {
		s.slots.dial = dial
	}
	return s, err
}

// SessionID is that of the store's session.
func (s *Store) SessionID() int64 { return s.slots.sessionID() }
