package config

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

func TestConfigEnvErrors(t *testing.T) {
	for _, c := range []struct{ entry, want string }{
		{"SHARDID_QUEUE_LOW_WATERMARK=1.5", `environment SHARDID_QUEUE_LOW_WATERMARK: 1.5 is not in 0…1 (ends excluded): choose a value in this range, the default is 0.2`},
		{"SHARDID_QUEUE_LOW_WATERMARK=NaN", `environment SHARDID_QUEUE_LOW_WATERMARK: NaN is not in 0…1 (ends excluded): choose a value in this range, the default is 0.2`},
		{"SHARDID_QUEUE_LOW_WATER=0.5", `environment SHARDID_QUEUE_LOW_WATER: unknown variable: unset it, or see config.yaml in the sources for every key`},
		{"SHARDID_URL=x", `environment SHARDID_URL: unknown variable: unset it, or see config.yaml in the sources for every key`},
		{"SHARDID_CONFIG=x", `environment SHARDID_CONFIG: unknown variable: unset it, or see config.yaml in the sources for every key`},
		{"SHARDID_A\nB=x", `environment SHARDID_A…: unknown variable: unset it, or see config.yaml in the sources for every key`},
		{"SHARDID_REDIS_TLS=", `environment SHARDID_REDIS_TLS: "" is not a boolean: write true or false`},
		{"SHARDID_REDIS_ADDRS=a:1,,b:1", `environment SHARDID_REDIS_ADDRS: "" is not host:port: write an address such as 10.0.0.5:6379, with a port from 1 to 65535`},
		{"SHARDID_REDIS_ADDRS=a:1", `environment SHARDID_REDIS_ADDRS: redis.addrs is set but redis.mode is embedded: set redis.mode to single, sentinel or cluster`},
		{"SHARDID_SNOWFLAKE_WORKER_LOCAL_MAP=x", `environment SHARDID_SNOWFLAKE_WORKER_LOCAL_MAP: "x" is not a pair: write key=value, several separated by commas`},
		{"SHARDID_SNOWFLAKE_WORKER_LOCAL_MAP=a=1,a=2", `environment SHARDID_SNOWFLAKE_WORKER_LOCAL_MAP: "a" is there twice: keep one`},
	} {
		t.Chdir(t.TempDir())
		if _, err := loadArgs(t, []string{c.entry}); err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v\nwant %s", c.entry, err, c.want)
		}
	}
}

func TestConfigFlagErrors(t *testing.T) {
	for _, c := range []struct{ flag, want string }{
		{"--queue.low_watermark=1.5", `flag --queue.low_watermark: 1.5 is not in 0…1 (ends excluded): choose a value in this range, the default is 0.2`},
		{"--queue.timeout=2", `flag --queue.timeout: "2" is not a duration: write a number with its unit, such as 500ms, 2s or 5m`},
		{"--redis.mode=single", `flag --redis.mode: redis.mode is single but redis.addrs is empty: list host:port of the servers`},
		{"--log.level=", `flag --log.level: is empty: set it, the default is info`},
		{"--redis.tls=maybe", `flag --redis.tls: "maybe" is not a boolean: write true or false`},
	} {
		t.Chdir(t.TempDir())
		if _, err := loadArgs(t, nil, c.flag); err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v\nwant %s", c.flag, err, c.want)
		}
	}
}

// TestConfigLastSourceIsBlamed: a value that a later source replaced is not.
func TestConfigLastSourceIsBlamed(t *testing.T) {
	const file = "queue:\n  timeout: 1h\n"
	if _, err := loadText(t, file, []string{"SHARDID_QUEUE_TIMEOUT=3s"}); err != nil {
		t.Errorf("the value of the file is replaced: %v", err)
	}
	_, err := loadText(t, file, []string{"SHARDID_QUEUE_TIMEOUT=2h"}, "--queue.timeout=3h")
	if err == nil || !strings.HasPrefix(err.Error(), "flag --queue.timeout: 3h0m0s is not in ") {
		t.Errorf("got %v", err)
	}
}

// TestConfigSecretsNeverLeak breaks a configuration in every way around a
// secret, from the file and from the environment.
func TestConfigSecretsNeverLeak(t *testing.T) {
	const secret = "hunter2"
	wrongs := []string{
		"hunter2", "hunter2 \u00e9", "\"hunter2", "'hunter2", "[hunter2]", "{hunter2: hunter2}", "{hunter2: ", "&hunter2 x", "*hunter2", "!!hunter2 x",
		"|\n hunter2", "hunter2: hunter2: x", "\thunter2", "@hunter2", "%hunter2", "\"\\hunter2\"", "- hunter2", "hunter2\n  hunter2", "hunter2\nhunter2",
		"hunter2:hunter2@tcp(h)/x?tls=hunter2", "x@hunter2(h)/x", "x@/%zzhunter2", "x@/hunter2?hunter2", "u:hunter2@tcp(h)/", "\"hunter2\\n\"",
	}
	for _, k := range Defaults().Keys {
		if !k.Secret {
			continue
		}
		section, name, _ := strings.Cut(k.Path, ".")
		for _, wrong := range wrongs {
			_, inFile := loadText(t, section+":\n  "+name+": "+wrong+"\n", []string{"SHARDID_DATABASE_DRIVER=mysql"})
			_, inEnv := loadText(t, "", []string{"SHARDID_DATABASE_DRIVER=mysql", k.Env() + "=" + wrong})
			for _, err := range []error{inFile, inEnv} {
				for line := range strings.Lines(fmt.Sprint(err)) {
					if strings.Contains(line, secret) || !regexp.MustCompile(`^(<nil>|config\.yaml:\d+: |environment SHARDID_)`).MatchString(line) {
						t.Errorf("%s %q: %v", k.Path, wrong, err)
					}
				}
			}
		}
	}
}
