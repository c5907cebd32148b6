package main

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

const configDocs = "../../config.yaml"

// TestConfigDocsAreTheDefaults holds the documented values; the loader itself
// refuses keys that do not exist.
func TestConfigDocsAreTheDefaults(t *testing.T) {
	got, err := loadFor(configDocs, true, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := defaultConfig(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestConfigDocsAreComplete: every key, in the order of the struct.
func TestConfigDocsAreComplete(t *testing.T) {
	data, err := os.ReadFile(configDocs)
	if err != nil {
		t.Fatal(err)
	}
	l, last := newLoader(), ""
	if err := l.parse(configDocs, data); err != nil {
		t.Fatal(err)
	}
	for _, k := range l.keys {
		from, ok := l.origins[k.path]
		if !ok {
			t.Errorf("%s is not documented", k.path)
			continue
		}
		if line := strings.TrimPrefix(from.where, configDocs+":"); len(line) < len(last) || len(line) == len(last) && line <= last {
			t.Errorf("%s is out of order", k.path)
		} else {
			last = line
		}
	}
}

// TestConfigCoversTheContract names what other people script against.
func TestConfigCoversTheContract(t *testing.T) {
	const contract = `server.addr=127.0.0.1:8080 server.admin_token= server.pprof_addr= data_dir=data database.driver=sqlite database.dsn=
		redis.mode=embedded redis.addrs=[] redis.master_name= redis.username= redis.password= redis.db=0 redis.tls=false
		queue.low_watermark=0.2 queue.prefetch_max=1000 segment.enabled=true snowflake.enabled=true uid.enabled=true
		snowflake.epoch_ms=1288834974657 snowflake.name=shardid snowflake.advertise= snowflake.worker.mode=mysql
		snowflake.worker.local_map=map[] zookeeper.addrs=[] uid.mode=cached uid.time_bits=28 uid.worker_bits=22 uid.seq_bits=13
		uid.epoch=2026-01-01 uid.boost_power=3 uid.padding_factor=50 uid.schedule_interval=off`
	std := map[string]string{}
	for _, k := range newLoader().keys {
		std[k.path] = k.std
	}
	for _, entry := range strings.Fields(contract) {
		path, want, _ := strings.Cut(entry, "=")
		if got, ok := std[path]; !ok || got != want {
			t.Errorf("%s: got %q (there: %t), want %q", path, got, ok, want)
		}
	}
	if std["queue.refill_cron"] != "0 */2 * * * *" || std["queue.reload_cron"] != "30 */2 * * * *" {
		t.Error("the schedules are not the contract's")
	}
}

// TestConfigTags: every tag is one that the checks know and the default
// passes, by itself and with all others.
func TestConfigTags(t *testing.T) {
	if err := newLoader().validate(); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{"": true, "listen": true, "hostport": true, "ipport": true, "name": true, "cron": true, "token": true, "zone": true, "url": true}
	for _, k := range newLoader().keys {
		if !known[k.tag.Get("format")] {
			t.Errorf("%s: format %q", k.path, k.tag.Get("format"))
		}
		if r := k.tag.Get("range"); r != "" {
			low, high, ok := strings.Cut(r, "..")
			if _, err := k.within(low, low, high, false); err != nil || !ok {
				t.Errorf("%s: range %q: %v", k.path, r, err)
			}
		}
	}
}
