package redisstore

import (
	"strconv"

	"shardid/model"
)

const (
	metaPrefix = "id.gen.meta_{id.gen.idList_"
	lockPrefix = "id.gen.lock_"
)

// metaKey names the meta hash of a list. The braces make a cluster place it by the
// list's name, which they hold, so both share a slot.
func metaKey(k model.ListKey) string {
	b := make([]byte, 0, len(metaPrefix)+len("255_63}"))
	b = append(b, metaPrefix...)
	b = strconv.AppendUint(b, uint64(k.App), 10)
	b = append(b, '_')
	b = strconv.AppendUint(b, uint64(k.Shard), 10)
	return string(append(b, '}'))
}

func metaKeys(keys []model.ListKey) []string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = metaKey(k)
	}
	return names
}
