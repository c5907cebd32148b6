package main

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"shardid/model"
	"shardid/service/admin"
)

func appNoun() noun[admin.AppItem] {
	return noun[admin.AppItem]{
		Kind: admin.AppKind, short: "List, add (or provision), change or delete the apps of the queue mode",
		long: `List the apps of the queue mode; add one, which provisions its 64 shards, all or none; change one,
only in what is given, and in nothing that would let an ID repeat; or delete one, of which is
remembered what it issued. shardid provision does the same as shardid apps add.`,
		example: `  shardid apps
  shardid apps add --app 7 --name orders
  shardid provision --app 8 --name invoices --scramble                 # the same as apps add
  shardid provision --if-missing --app 1 --name test                   # in a script that runs again
  shardid provision --file apps.yaml                                   # such as - {id: 1, name: orders, step: 5000}
  shardid apps set --app 7 --step 5000
  shardid apps set --app 7 --min-index 1000000                         # every shard continues above it
  shardid apps set --app 7 --max-limit-id 4294967295 --limit-policy wrap --confirm orders
  shardid apps delete --app 7 --confirm orders
  shardid apps list --json --url https://ids.example.com --token-file token`,
		none:   "no app is provisioned: shardid provision --app 1 --name test",
		header: "APP\tNAME\tSHARDS\tSTEP\tHIGHEST INDEX\tMAX LIMIT ID\tPOLICY\tDESCRIPTION",
		cells: func(a admin.AppItem) []any {
			limit := strconv.FormatInt(a.MaxLimitID, 10)
			if a.MixedLimits { // by another program, or in SQL
				limit += " (not all shards)"
			}
			return []any{a.AppID, a.Name, a.Shards, a.Step, a.HighestIndex, limit, a.LimitPolicy, a.Description}
		},
		title: func(a admin.AppItem) string { return fmt.Sprintf("app %d (%s)", a.AppID, a.Name) },
		added: func(a admin.AppItem, _ string) string {
			text := fmt.Sprintf(" has its %d shards", a.Shards)
			if a.HighestIndex > 0 { // it was deleted before, or the database may lack it
				text += fmt.Sprintf("; it continues above what it may have issued before, up to index %d", a.HighestIndex)
			}
			return text
		},
		deleted: func(a admin.AppItem) string { return fmt.Sprintf("it continues above index %d", a.HighestIndex) },
		isWhole: func(a admin.AppItem) bool { return a.Shards == model.Shards },
	}
}

func tagNoun() noun[admin.TagItem] {
	next := func(t admin.TagItem) string { return cmp.Or(t.Example, t.MaxIDStr) }
	return noun[admin.TagItem]{
		Kind: admin.TagKind, short: "List, add, change or delete the tags of the segment mode",
		long: `List the tags of the segment mode, which are the rows of leaf_alloc; add one; change one, only in what
is given, where max_id only rises; or delete one, of which is remembered what it issued.`,
		example: `  shardid tags
  shardid tags add --tag orders --step 2000
  shardid tags add --if-missing --tag orders --step 2000    # in a script that runs again
  shardid tags add --tag invoices --step 100 --max-id 50001 --description "after the old system"
  shardid tags add --tag bills --step 100 --pattern 'ORD-{yyyyMMdd}-{seq:8}' --reset day --zone Asia/Shanghai
  shardid tags set --tag orders --max-id 1000000
  shardid tags set --tag bills --after ORD-20261122-00000500
  shardid tags delete --tag orders --confirm orders`,
		none:   "there is no tag: shardid tags add --tag orders --step 2000",
		header: "TAG\tNEXT ID\tSTEP\tUPDATED\tDESCRIPTION",
		cells: func(t admin.TagItem) []any {
			return []any{t.Tag, next(t), t.Step, t.UpdatedAt.UTC().Format(time.RFC3339), t.Description}
		},
		title: func(t admin.TagItem) string { return "tag " + t.Tag },
		added: func(t admin.TagItem, base string) string {
			path := "/api/segment/get/" + url.PathEscape(t.Tag)
			if t.Pattern != "" {
				path = "/v1/segment/" + url.PathEscape(t.Tag) + "/ids"
			}
			return " starts at " + next(t) + curl(base, "", path)
		},
		deleted: func(t admin.TagItem) string { return "it continues at " + next(t) },
	}
}

func nameNoun() noun[admin.NameItem] {
	return noun[admin.NameItem]{
		Kind: admin.NameKind, short: "List, add, change or delete the names of worker IDs",
		long: `List the names of worker IDs; add one, whose layout never changes; change how long the holders of one
may continue without shardid; or delete one of which nothing is leased: its layout and leases are
remembered, should it come back.

A name is a space of worker IDs with a layout of its own, for programs that make IDs themselves. New
leases wait as long as --hold after the database went on from a copy that may lack some. A shorter
hold counts for leases that are granted or renewed from now on, a longer one a minute later.`,
		example: `  shardid names
  shardid names add --name orders
  shardid names add --if-missing --name orders              # in a script that runs again
  shardid names add --name carts --epoch 1767225600000 --worker-bits 12 --seq-bits 10 --hold 5m
  shardid names set --name orders --hold 5m
  shardid names delete --name orders --confirm orders`,
		none:   "there is no name: shardid names add --name orders",
		header: "NAME\tEPOCH\tWORKER BITS\tSEQ BITS\tHOLD\tLEASED",
		cells: func(n admin.NameItem) []any {
			return []any{n.Name, n.Epoch, n.WorkerBits, n.SeqBits, n.Hold, fmt.Sprintf("%d of %d", n.Leased, n.Workers)}
		},
		title: func(n admin.NameItem) string { return "name " + n.Name },
		added: func(n admin.NameItem, base string) string {
			epoch, _ := strconv.ParseInt(n.Epoch, 10, 64)
			end := time.UnixMilli(model.Name{EpochMs: epoch, WorkerBits: n.WorkerBits, SeqBits: n.SeqBits}.MaxMs())
			ids := fmt.Sprintf(" has the worker IDs 0…%d, for IDs until ", n.Workers-1)
			return ids + end.UTC().Format(time.DateOnly) + curl(base, "-X POST ", "/v1/leases/"+url.PathEscape(n.Name))
		},
		deleted: func(admin.NameItem) string { return "it has the same layout, and continues above its last leases" },
	}
}

func spaceNoun() noun[admin.SpaceItem] {
	return noun[admin.SpaceItem]{
		Kind: admin.SpaceKind, short: "List, add, change or delete the spaces of sequences",
		long: `List the spaces of sequences; add one, the number of whose sections never changes; change how many
numbers a section of one takes from the database at once; or delete one, whose numbers are
remembered, should it come back.

A space has a sequence for each key, as many as Redis holds: numbers that rise over all replicas.
Keys need no provisioning. A larger step means fewer writes, and leaves out more numbers when Redis
loses its data.`,
		example: `  shardid spaces
  shardid spaces add --space chat
  shardid spaces add --if-missing --space chat              # in a script that runs again
  shardid spaces add --space feed --sections 4096 --step 100000
  shardid spaces set --space chat --step 100000
  shardid spaces delete --space chat --confirm chat`,
		none:   "there is no space of sequences: shardid spaces add --space chat",
		header: "SPACE\tSECTIONS\tSTEP\tUSED\tHIGHEST",
		cells: func(s admin.SpaceItem) []any {
			if s.SpaceUse == nil { // it was just changed
				return []any{s.Space, s.Sections, s.Step, "-", "-"}
			}
			return []any{s.Space, s.Sections, s.Step, fmt.Sprintf("%d of %d", s.Used, s.Sections), s.Highest}
		},
		title: func(s admin.SpaceItem) string { return "space " + s.Space },
		added: func(s admin.SpaceItem, base string) string {
			return " has a sequence for each key, on every replica within 3 s" +
				curl(base, "-X POST '", "/v1/sequence/"+url.PathEscape(s.Space)+"/ids?key=room42'")
		},
		deleted: func(admin.SpaceItem) string { return "all of its sequences continue above its numbers" },
	}
}

// curl is the end of a sentence that shows how to ask the server at base; "" for an unknown one.
func curl(base, before, path string) string {
	if base == "" {
		return ""
	}
	return ": curl " + before + base + path
}
