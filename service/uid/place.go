package uid

import (
	"fmt"
	"math/rand/v2"
	"time"

	"shardid/model"
)

// portRandom bounds the random part of a machine's PORT: 0…99999, Baidu's
// DisposableWorkerIdAssigner.
const portRandom = 100_000

// Place is what a node's row says about where it runs.
type Place struct {
	Host string
	Port string // empty: each start makes up its own, so that rows differ
	Type int    // model.NodeContainer or model.NodeActual
}

// FindPlace says whether the process runs in a container. JPAAS_HOST with
// JPAAS_HTTP_PORT or JPAAS_HOST_PORT_8080 say so and give the row's host and port,
// as for Baidu's DockerUtils; then one without the other is model.ErrInvalidArgument.
// So do the usual signs: KUBERNETES_SERVICE_HOST, and the files that Docker and
// Podman leave. lookup is os.LookupEnv, exists says whether a file is there, host is
// what the machine or the container calls itself.
func FindPlace(host string, lookup func(string) (string, bool), exists func(string) bool) (Place, error) {
	env := func(name string) string { value, _ := lookup(name); return value }
	jpaas, port := env("JPAAS_HOST"), env("JPAAS_HTTP_PORT")
	if port == "" {
		port = env("JPAAS_HOST_PORT_8080")
	}
	switch {
	case jpaas != "" && port != "":
		return Place{Host: jpaas, Port: port, Type: model.NodeContainer}, nil
	case jpaas != "" || port != "":
		return Place{}, fmt.Errorf("%w: JPAAS_HOST is %q and its port %q: set both or neither", model.ErrInvalidArgument, jpaas, port)
	case env("KUBERNETES_SERVICE_HOST") != "" || exists("/.dockerenv") || exists("/run/.containerenv"):
		return Place{Host: host, Type: model.NodeContainer}, nil
	}
	return Place{Host: host, Type: model.NodeActual}, nil
}

// port is that of one start.
func (p Place) port(now time.Time) string {
	if p.Port != "" {
		return p.Port
	}
	return fmt.Sprintf("%d-%d", now.UnixMilli(), rand.IntN(portRandom))
}
