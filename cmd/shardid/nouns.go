package main

import "shardid/service/admin"

func appNoun() noun {
	return noun{
		Kind: admin.AppKind, short: "List, add (or provision), change or delete the apps of the queue mode",
		long: `List the apps of the queue mode; add one, with all of its 64 shards or none; change the given fields
of one, unless an ID could repeat; or delete one. What a deleted app issued is remembered. shardid
provision is the same as shardid apps add.`,
		example: `  shardid apps
  shardid apps add --app 7 --name orders
  shardid provision --app 8 --name invoices --scramble                 # the same as apps add
  shardid provision --if-missing --app 1 --name test                   # in a script that runs again
  shardid provision --file apps.yaml                                   # such as - {id: 1, name: orders, step: 5000}
  shardid apps set --app 7 --step 5000
  shardid apps set --app 7 --min-index 100000                          # every shard resumes above it
  shardid apps set --app 7 --max-limit-id 4294967295 --limit-policy wrap --confirm orders
  shardid apps delete --app 7 --confirm orders
  shardid apps list --json --url https://ids.example.com --token-file token`,
		none: "no app is provisioned: shardid provision --app 1 --name test",
		columns: []column{{"APP", "appId"}, {"NAME", "name"}, {"SHARDS", "shards"}, {"STEP", "step"},
			{"HIGHEST INDEX", "highestIndex"}, {"MAX LIMIT ID", "maxLimitIdStr"}, {"MIXED LIMITS", "mixedLimits"},
			{"POLICY", "limitPolicy"},
			{"DESCRIPTION", "description"}},
	}
}

func tagNoun() noun {
	return noun{
		Kind: admin.TagKind, short: "List, add, change or delete the tags of the segment mode",
		long: `List the tags of the segment mode, which are the rows of leaf_alloc; add one; change the given fields of
one, where max_id only rises; or delete one. What a deleted tag issued is remembered.`,
		example: `  shardid tags
  shardid tags add --tag orders --step 2000
  shardid tags add --if-missing --tag orders --step 2000    # in a script that runs again
  shardid tags add --tag invoices --step 100 --max-id 50001 --description "after the old system"
  shardid tags add --tag bills --step 100 --pattern 'ORD-{yyyyMMdd}-{seq:8}' --reset day --zone Asia/Shanghai
  shardid tags add --tag carts --shard-bits 10     # id % 64 equals user % 64
  shardid tags set --tag orders --max-id 1000000
  shardid tags set --tag bills --after ORD-20261122-00000500
  shardid tags delete --tag orders --confirm orders`,
		none: "there is no tag: shardid tags add --tag orders --step 2000",
		columns: []column{{"TAG", "tag"}, {"NEXT NUMBER", "maxIdStr"}, {"AS TEXT", "example"},
			{"SHARD BITS", "shardBits"}, {"STEP", "step"},
			{"UPDATED", "updatedAt"}, {"DESCRIPTION", "description"}},
	}
}

func nameNoun() noun {
	return noun{
		Kind: admin.NameKind, short: "List, add, change or delete the names of worker IDs",
		long: `List the names of worker IDs; add one, whose layout never changes; change how long its holders may
issue IDs without shardid; or delete one that has no leases. Its layout and leases are remembered, in
case it is added again.

A name is a set of worker IDs with a layout, for programs that make IDs themselves. After a restart or
failover of the database new leases wait for --hold. A shorter hold counts for leases that are granted
or renewed from now on, and a longer one a minute later.`,
		example: `  shardid names
  shardid names add --name orders
  shardid names add --if-missing --name orders              # in a script that runs again
  shardid names add --name carts --epoch 1767225600000 --worker-bits 12 --seq-bits 10 --hold 5m
  shardid names add --name bills --shard-bits 6             # id % 64 equals key % 64
  shardid names set --name orders --hold 5m
  shardid names delete --name orders --confirm orders`,
		none: "there is no name: shardid names add --name orders",
		columns: []column{{"NAME", "name"}, {"EPOCH", "epoch"}, {"WORKER BITS", "workerBits"},
			{"SEQ BITS", "seqBits"}, {"SHARD BITS", "shardBits"}, {"HOLD", "hold"},
			{"LEASED", "leased"}, {"OF", "workers"}},
	}
}

func spaceNoun() noun {
	return noun{
		Kind: admin.SpaceKind, short: "List, add, change or delete the spaces of sequences",
		long: `List the spaces of sequences; add one, whose number of sections never changes; change its step, which
is how many numbers a section reserves at once; or delete one. How far a deleted space came is
remembered, in case it is added again.

A space has a sequence for each key, whose numbers increase across all replicas. Keys need no
provisioning. A larger step means fewer writes, and skips more numbers when Redis loses its data.`,
		example: `  shardid spaces
  shardid spaces add --space chat
  shardid spaces add --if-missing --space chat              # in a script that runs again
  shardid spaces add --space feed --sections 4096 --step 100000
  shardid spaces set --space chat --step 100000
  shardid spaces delete --space chat --confirm chat`,
		none: "there is no space of sequences: shardid spaces add --space chat",
		columns: []column{{"SPACE", "space"}, {"SECTIONS", "sections"}, {"STEP", "step"},
			{"SECTIONS IN USE", "used"}, {"HIGHEST", "highest"}},
	}
}
