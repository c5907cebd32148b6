package peers

import (
	"testing"
	"time"

	"github.com/bwmarrin/snowflake"
	"github.com/google/uuid"
	"github.com/oklog/ulid/v2"
	"github.com/rs/xid"
	"github.com/segmentio/ksuid"
	"github.com/sony/sonyflake"
)

// BenchmarkPeer is one ID a call, from one generator that all goroutines share:
// -cpu says how many there are. Results are kept in a variable of the goroutine, so
// that no call can be left out.
func BenchmarkPeer(b *testing.B) {
	for _, p := range []struct {
		name string
		open func(b *testing.B) func() error
	}{
		{"bwmarrin/snowflake", bwmarrin},
		{"bwmarrin/snowflake, 21 bits of sequence", bwmarrinBelow},
		{"sony/sonyflake", sony},
		{"google/uuid v4", fallible(uuid.NewRandom)},
		{"google/uuid v7", fallible(uuid.NewV7)},
		{"oklog/ulid", sure(ulid.Make)},
		{"rs/xid", sure(xid.New)},
		{"segmentio/ksuid", fallible(ksuid.NewRandom)},
	} {
		b.Run(p.name, func(b *testing.B) {
			next := p.open(b)
			b.RunParallel(func(loop *testing.PB) {
				for loop.Next() {
					if err := next(); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// fallible is a generator that needs no setting up.
func fallible[T comparable](generate func() (T, error)) func(*testing.B) func() error {
	return func(b *testing.B) func() error {
		var zero T
		return func() error {
			id, err := generate()
			if id == zero && err == nil {
				b.Error("an ID without a value")
			}
			return err
		}
	}
}

// sure is one that never fails.
func sure[T comparable](generate func() T) func(*testing.B) func() error {
	return fallible(func() (T, error) { return generate(), nil })
}

// bwmarrin has 4096 IDs a millisecond, and spins when they are used up.
func bwmarrin(b *testing.B) func() error {
	node, err := snowflake.NewNode(1)
	if err != nil {
		b.Fatal(err)
	}
	return sure(node.Generate)(b)
}

// bwmarrinBelow has 2,097,152 IDs a millisecond, which are never used up.
func bwmarrinBelow(b *testing.B) func() error {
	node, step := snowflake.NodeBits, snowflake.StepBits
	defer func() { snowflake.NodeBits, snowflake.StepBits = node, step }()
	snowflake.NodeBits, snowflake.StepBits = 1, 21
	return bwmarrin(b)
}

// sony has 256 IDs in 10 ms, and sleeps when they are used up.
func sony(b *testing.B) func() error {
	generator, err := sonyflake.New(sonyflake.Settings{
		StartTime: time.Now().Add(-24 * time.Hour),
		MachineID: func() (uint16, error) { return 1, nil },
	})
	if err != nil {
		b.Fatal(err)
	}
	return fallible(generator.NextID)(b)
}
