package redisstore

import (
	"fmt"
	"strings"
	"testing"
)

// Every form that people paste says the same in options, and what is wrong with another one is said without its
// password.
func TestParseURL(t *testing.T) {
	for text, want := range map[string]string{
		"h":                               "single [h:6379]",
		"10.0.0.5:6380":                   "single [10.0.0.5:6380]",
		"redis://h":                       "single [h:6379]",
		"redis://[::1]:1/2":               "single [[::1]:1] 2",
		"redis://:p%2Fw@h:1/":             "single [h:1] :p/w",
		"redis://u:p@w@h:1":               "single [h:1] u:p@w",
		"rediss://u:pw@h:1/15":            "single [h:1] 15 u:pw TLS",
		"rediss://h?skip_verify=true":     "single [h:6379] TLS of anybody",
		"redis://h?db=3&pool_size=7":      "single [h:6379] 3 pool 7",
		"redis://h?read_timeout=3s":       "single [h:6379] 3s",
		"a:1,b:2":                         "cluster [a:1 b:2]",
		"redis://u:pw@a,b:2,[::1]:3":      "cluster [a:6379 b:2 [::1]:3] u:pw",
		"redis://a:1?addr=b:2&addr=c:3":   "cluster [a:1 b:2 c:3]",
		"rediss://a:1?cluster=true":       "cluster [a:1] TLS",
		"redis://s1,s2:2/4?master_name=m": "sentinel [s1:26379 s2:2] 4 of m",
		"redis://u:pw@s1:1?master_name=m&addr=s2:2&sentinel_username=su&sentinel_password=sp": "sentinel [s1:1 s2:2] " +
			"u:pw of m by su:sp",

		"":                                   errURL.Error(),
		"http://h:1":                         errURL.Error(),
		"unix:///run/redis.sock":             errURL.Error(),
		"redis://":                           errURL.Error(),
		"redis://:secret/x@h:1":              errURL.Error(),
		"redis://:secret#x@h:1":              errURL.Error(),
		"redis://h:secret":                   errURL.Error(),
		"redis://h:1,b:secret":               errURL.Error(),
		"redis://h:1,b:99999999":             errPort.Error(),
		"h:0":                                errPort.Error(),
		"redis://h:1?addr=secret@b:1":        errURL.Error(),
		"redis://h:1,,b:1":                   errURL.Error(),
		"redis://h/secret":                   errParameter.Error(),
		"redis://h/-1":                       errParameter.Error(),
		"redis://h?secret":                   errParameter.Error(),
		"redis://h?pool_size=secret":         errParameter.Error(),
		"redis://h?max_retries=3":            errParameter.Error(),
		"redis://h?read_timeout=0":           errParameter.Error(),
		"redis://h?skip_verify=true":         errParameter.Error(),
		"redis://h?cluster=secret":           errParameter.Error(),
		"redis://h/1?cluster=true":           errClusterDB.Error(),
		"redis://h?sentinel_password=secret": errNoSentinel.Error(),
	} {
		o, err := ParseURL(text)
		got := fmt.Sprintf("%s %v", o.Mode, o.Addrs)
		if o.DB != 0 {
			got += fmt.Sprint(" ", o.DB)
		}
		if o.Username+o.Password != "" {
			got += " " + o.Username + ":" + o.Password
		}
		if o.ReadTimeout != 0 {
			got += " " + o.ReadTimeout.String()
		}
		if o.PoolSize != 0 {
			got += fmt.Sprint(" pool ", o.PoolSize)
		}
		if o.TLS != nil {
			got += " TLS"
			if o.TLS.InsecureSkipVerify {
				got += " of anybody"
			}
			if o.TLS.ServerName != "" {
				t.Errorf("%s asks every server for the name %s", text, o.TLS.ServerName)
			}
		}
		if o.MasterName != "" {
			got += " of " + o.MasterName
		}
		if o.SentinelUsername != "" {
			got += " by " + o.SentinelUsername + ":" + o.SentinelPassword
		}
		if err != nil {
			got = err.Error()
		}
		if got != want || strings.Contains(got, "secret") && err == nil {
			t.Errorf("%s:\ngot  %s\nwant %s", text, got, want)
		}
	}
}
