package httpapi

import (
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"
)

// A path that does not exist brings the one that is most like it to mind, or none.
func TestNearestPath(t *testing.T) {
	for path, want := range map[string]string{
		"/got": "/get", "/get/": "/get", "/Get": "/get", "/ready": "/readyz", "/health": "/healthz", "/metric": "/metrics",
		"/status": "/api/status", "/admin/app": "/admin/apps", "/admin/tags/": "/admin/tags", "/openapi.yml": "/openapi.yaml",
		"/uid/get": "/api/uid/get", "/api/uid/get/": "/api/uid/get", "/api/uid/get/x": "/api/uid/get",
		"/segment/get/orders": "/api/segment/get/{key}", "/api/segment/get/orders/": "/api/segment/get/{key}",
		"/api/segment/take/orders": "/api/segment/get/{key}", "/v1/segment/orders": "/v1/segment/{tag}/ids",
		"/v1/queue/1/id": "/v1/queue/{appId}/ids", "/v1/queue/1/ids/": "/v1/queue/{appId}/ids", "/tinyid/id/nextid": "/tinyid/id/nextId",
		"/nope": "", "/": "", "": "", "/favicon.ico": "", "/wp-login.php": "", "/index.html": "", "/x": "", "//": "", "/张三": "",
		strings.Repeat("/get", 100): "", "/docs/none.md": "", "/readyz/none": "", "/admin/apps": "",
	} {
		check.Equal(t, nearestPath(path), want, path)
	}
	begun := time.Now()
	nearestPath("/" + strings.Repeat("x", 1<<20))
	nearestPath(strings.Repeat("/", 1<<16))
	if took := time.Since(begun); took > time.Second {
		t.Errorf("long paths take %v", took)
	}
}

// FuzzNearestPath: whatever the path, the answer is a documented one or none, and a path
// with one byte too many is found again.
func FuzzNearestPath(f *testing.F) {
	for _, path := range documented() {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		near := nearestPath(path)
		for _, known := range documented() {
			if known == near {
				return
			}
		}
		check.Equal(t, near, "", path)
	})
}

func BenchmarkNearestPath(b *testing.B) {
	for b.Loop() {
		nearestPath("/v1/segmenx/" + strings.Repeat("x", 48) + "/ids")
	}
}
