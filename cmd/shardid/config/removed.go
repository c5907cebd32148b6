package config

// removed says, for each key that an earlier version had, what to use instead.
var removed = map[string]string{
	"sequence.fence": "remove it: leases in the database keep the order of sequences",
}
