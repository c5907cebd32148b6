package config

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"shardid/scripts/check"
)

const configDocs = "../../../config.yaml"

// TestConfigDocsAreTheDefaults holds the documented values; the loader itself
// refuses keys that do not exist.
func TestConfigDocsAreTheDefaults(t *testing.T) {
	got, err := loadArgs(t, nil, "--config", configDocs)
	wantConfig(t, got, err, nothing)
}

// TestConfigDocsAreComplete: every key, in the order of the struct.
func TestConfigDocsAreComplete(t *testing.T) {
	l, err := loadArgs(t, nil, "--config", configDocs)
	check.Must(t, err)
	last := 0
	for _, k := range l.Keys {
		line, err := strconv.Atoi(strings.TrimPrefix(k.From, configDocs+":"))
		if err != nil || line <= last {
			t.Errorf("%s is not documented or out of order: %s", k.Path, k.From)
		}
		last = line
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
	for _, k := range Defaults().Keys {
		std[k.Path] = k.Default
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

// TestConfigTags: the validator knows every tag, and the defaults pass.
func TestConfigTags(t *testing.T) {
	l := Defaults()
	l.check()
	check.Must(t, l.wrong())
	tags := regexp.MustCompile(`^(min=-?\w+,max=\w+|gt=\w+,lt=\w+|oneof=[a-z_ ]+)$`)
	for _, k := range Defaults().Keys {
		for _, prefix := range []string{"omitempty,", "unique,", "dive,", "keys,ipport,endkeys,"} {
			k.must = strings.TrimPrefix(k.must, prefix)
		}
		if k.must != "" && formats()[k.must] == nil && !tags.MatchString(k.must) {
			t.Errorf("%s: %q has no message", k.Path, k.must)
		}
	}
}
