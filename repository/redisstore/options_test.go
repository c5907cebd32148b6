package redisstore_test

import (
	"errors"
	"strings"
	"testing"

	"shardid/model"
	"shardid/repository/redisstore"
	"shardid/scripts/check"
)

func TestNewRefusesWhatCannotWork(t *testing.T) {
	one := []string{"localhost:6379"}
	for name, test := range map[string]struct {
		o    redisstore.Options
		want string
	}{
		"no mode":              {redisstore.Options{Addrs: one}, "redis.mode"},
		"unknown mode":         {redisstore.Options{Mode: "ring", Addrs: one}, "redis.mode"},
		"no address":           {redisstore.Options{Mode: "cluster"}, "redis.addrs"},
		"no port":              {redisstore.Options{Mode: "cluster", Addrs: []string{"localhost"}}, "redis.addrs[0]"},
		"bad port":             {redisstore.Options{Mode: "cluster", Addrs: []string{"a:1", "a:70000"}}, "redis.addrs[1]"},
		"no host":              {redisstore.Options{Mode: "single", Addrs: []string{":1"}}, "redis.addrs[0]"},
		"URL":                  {redisstore.Options{Mode: "single", Addrs: []string{"redis://u:secret@h:1"}}, "URL"},
		"two for single":       {redisstore.Options{Mode: "single", Addrs: []string{"a:1", "b:1"}}, "single takes one"},
		"no master name":       {redisstore.Options{Mode: "sentinel", Addrs: one}, "redis.master_name"},
		"master name, single":  {redisstore.Options{Mode: "single", Addrs: one, MasterName: "m"}, "redis.master_name"},
		"master name, cluster": {redisstore.Options{Mode: "cluster", Addrs: one, MasterName: "m"}, "redis.master_name"},
		"database in cluster":  {redisstore.Options{Mode: "cluster", Addrs: one, DB: 1}, "redis.db"},
		"negative database":    {redisstore.Options{Mode: "single", Addrs: one, DB: -1}, "negative"},
		"negative timeout":     {redisstore.Options{Mode: "single", Addrs: one, ReadTimeout: -1}, "negative"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := redisstore.New(test.o)
			if s != nil || !errors.Is(err, model.ErrInvalidArgument) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an invalid argument that mentions %q", err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("%q tells the password", err)
			}
		})
	}
}

func TestNewConnectsToNothing(t *testing.T) {
	for _, o := range []redisstore.Options{
		{Mode: "single", Addrs: []string{"[::1]:1"}},
		{Mode: "sentinel", Addrs: []string{"nowhere.invalid:1"}, MasterName: "m"},
		{Mode: "cluster", Addrs: []string{"nowhere.invalid:1", "nowhere.invalid:2"}},
	} {
		s, err := redisstore.New(o)
		check.Must(t, err)
		check.OK(t, s.Close())
	}
}
