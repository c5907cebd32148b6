package uid

import (
	"errors"
	"regexp"
	"testing"
	"time"

	"shardid/model"
)

func TestFindPlace(t *testing.T) {
	for name, c := range map[string]struct {
		env  map[string]string
		file string
		want Place
		err  error
	}{
		"machine":        {nil, "", Place{"me", "", model.NodeActual}, nil},
		"jpaas":          {map[string]string{"JPAAS_HOST": "h", "JPAAS_HTTP_PORT": "80"}, "", Place{"h", "80", model.NodeContainer}, nil},
		"jpaas, old":     {map[string]string{"JPAAS_HOST": "h", "JPAAS_HOST_PORT_8080": "81"}, "", Place{"h", "81", model.NodeContainer}, nil},
		"jpaas, no port": {map[string]string{"JPAAS_HOST": "h"}, "", Place{}, model.ErrInvalidArgument},
		"jpaas, no host": {map[string]string{"JPAAS_HTTP_PORT": "80"}, "", Place{}, model.ErrInvalidArgument},
		"docker":         {nil, "/.dockerenv", Place{"me", "", model.NodeContainer}, nil},
		"podman":         {nil, "/run/.containerenv", Place{"me", "", model.NodeContainer}, nil},
		"kubernetes":     {map[string]string{"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "", Place{"me", "", model.NodeContainer}, nil},
	} {
		lookup := func(name string) (string, bool) { v, ok := c.env[name]; return v, ok }
		got, err := FindPlace("me", lookup, func(path string) bool { return path == c.file })
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %+v, %v, want %+v, %v", name, got, err, c.want, c.err)
		}
	}
}

// A machine's port is the time and a random number, so that its rows differ.
func TestPlacePort(t *testing.T) {
	now := time.UnixMilli(1700000000123)
	form := regexp.MustCompile(`^1700000000123-\d{1,5}$`)
	seen := map[string]bool{}
	for range 20 {
		p := Place{}.port(now)
		if !form.MatchString(p) {
			t.Fatalf("port %q", p)
		}
		seen[p] = true
	}
	if len(seen) < 10 {
		t.Errorf("20 ports, %d differ", len(seen))
	}
	if p := (Place{Port: "8080"}).port(now); p != "8080" {
		t.Errorf("port %q", p)
	}
}
