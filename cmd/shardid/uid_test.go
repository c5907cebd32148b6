package main

import (
	"errors"
	"testing"

	"shardid/model"
	"shardid/repository/sqlstore"
)

func TestUIDPlace(t *testing.T) {
	actual := sqlstore.NodesOptions{Host: "me", Type: model.NodeActual}
	container := sqlstore.NodesOptions{Host: "me", Type: model.NodeContainer}
	for name, c := range map[string]struct {
		env  map[string]string
		file string
		want sqlstore.NodesOptions
		err  error
	}{
		"machine": {nil, "", actual, nil},
		"jpaas": {map[string]string{"JPAAS_HOST": "h", "JPAAS_HTTP_PORT": "80"}, "",
			sqlstore.NodesOptions{Host: "h", Port: "80", Type: model.NodeContainer}, nil},
		"jpaas, old": {map[string]string{"JPAAS_HOST": "h", "JPAAS_HOST_PORT_8080": "81"}, "",
			sqlstore.NodesOptions{Host: "h", Port: "81", Type: model.NodeContainer}, nil},
		"jpaas, no port": {map[string]string{"JPAAS_HOST": "h"}, "", sqlstore.NodesOptions{}, model.ErrInvalidArgument},
		"jpaas, no host": {map[string]string{"JPAAS_HTTP_PORT": "80"}, "", sqlstore.NodesOptions{},
			model.ErrInvalidArgument},
		"docker":     {nil, "/.dockerenv", container, nil},
		"podman":     {nil, "/run/.containerenv", container, nil},
		"kubernetes": {map[string]string{"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "", container, nil},
	} {
		lookup := func(name string) (string, bool) { v, ok := c.env[name]; return v, ok }
		got, err := uidPlace("me", lookup, func(path string) bool { return path == c.file })
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %+v, %v, want %+v, %v", name, got, err, c.want, c.err)
		}
	}
}
