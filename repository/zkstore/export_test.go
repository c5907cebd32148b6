package zkstore

// NewOver is New with a network of the test's own.
func NewOver(o Options, dial dialer) (*Store, error) {
	s, err := New(o)
	if err == nil {
		s.slots.dial = dial
	}
	return s, err
}
