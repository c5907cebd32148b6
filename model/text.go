package model

import "shardid/client/idtext"

// Format is a way to write an ID as text. It and what follows are in the module of the
// clients, who know them too.
type Format = idtext.Format

// The formats, as idtext has them.
const (
	Dec       = idtext.Dec
	Hex       = idtext.Hex
	Base36    = idtext.Base36
	Base62    = idtext.Base62
	Crockford = idtext.Crockford
)

// MaxBatch is the most IDs one call may ask for, in every mode.
const MaxBatch = 10_000

// MaxGatePassBytes is the longest gatePass that is hashed, in bytes of UTF-8.
const MaxGatePassBytes = idtext.MaxGatePassBytes

// Both modules have as many shards.
var _ [idtext.Shards]struct{} = [Shards]struct{}{}

// ParseFormat reads the name of a format. The error is ErrInvalidArgument.
func ParseFormat(name string) (Format, error) { return idtext.ParseFormat(name) }

// ParseID is idtext.ParseID. The error is ErrInvalidArgument.
func ParseID(text, format string) (int64, error) { return idtext.ParseID(text, format) }

// CheckGatePass is idtext.CheckGatePass. The error is ErrInvalidArgument.
func CheckGatePass(pass string) error { return idtext.CheckGatePass(pass) }

// ShardOf is the shard of a gatePass.
func ShardOf(gatePass string) uint8 { return idtext.ShardOf(gatePass) }

// CheckedShardOf is CheckGatePass and ShardOf.
func CheckedShardOf(gatePass string) (uint8, error) { return idtext.CheckedShardOf(gatePass) }
