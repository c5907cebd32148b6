package sequence

import "sync/atomic"

// counters are counted since the start.
type counters struct {
	issued, rounds, passes, refills, claims, late atomic.Int64
}

// Stats are what a replica has done since its start. The tags are those of metrics.
type Stats struct {
	Issued  int64 `metric:"shardid_sequence_issued_total" help:"Numbers of sequences that were given to callers."`
	Rounds  int64 `metric:"shardid_sequence_rounds_total" help:"Calls of Redis for numbers of sequences; each answers all that came together."`
	Refills int64 `metric:"shardid_sequence_refills_total" help:"Times that a section got more numbers from the database."`
	Claims  int64 `metric:"shardid_sequence_claims_total" help:"Times that this replica saw a section go to another life of Redis."`
	Late    int64 `metric:"shardid_sequence_late_total" help:"Requests for numbers of sequences that waited in vain."`
}

// Stats reads the counters.
func (s *Service) Stats() Stats {
	c := &s.stats
	return Stats{Issued: c.issued.Load(), Rounds: c.rounds.Load(), Refills: c.refills.Load(), Claims: c.claims.Load(), Late: c.late.Load()}
}
