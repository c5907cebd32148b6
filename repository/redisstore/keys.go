package redisstore

import (
	"strconv"

	"shardid/model"
)

const (
	listPrefix = "id.gen.idList_"
	metaPrefix = "id.gen.meta_{"
	lockPrefix = "id.gen.lock_"
)

// keysOf names a list and its meta hash. The braces of the latter make a
// cluster place it by the list's name, so both share a slot.
func keysOf(k model.ListKey) (list, meta string) {
	b := make([]byte, 0, len(metaPrefix)+len(listPrefix)+len("255_63}"))
	b = append(b, metaPrefix...)
	b = append(b, listPrefix...)
	b = strconv.AppendUint(b, uint64(k.App), 10)
	b = append(b, '_')
	b = strconv.AppendUint(b, uint64(k.Shard), 10)
	b = append(b, '}')
	meta = string(b)
	return meta[len(metaPrefix) : len(meta)-1], meta
}
