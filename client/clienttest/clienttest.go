// Package clienttest has a server for the tests of programs that use package client, so that
// they need no shardid:
//
//	ids := clienttest.Start()
//	defer ids.Close()
//	c, err := client.New(client.Options{Addrs: []string{ids.URL}})
//
// It provides every app and every tag. An app's shard and a tag count 1, 2, 3…, each on its
// own, and so do snowflakes and UIDs; queue IDs have their shard and app in them, and IDs of a
// tag that are asked for with a shard key end in ten bits of it. A business
// number is its count, without a pattern. Each key of each space of sequences counts on its own, too.
// It has no leases of worker IDs: a program that takes a func() (int64, error) needs no
// client.Generator in its tests.
package clienttest

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"sync"

	"shardid/client/idtext"
)

const (
	maxBatch  = 10_000
	shardBits = 10
	maxKey    = 256 // bytes, of sequences
)

// Server is the server. Its fields and Close are those of the server that it embeds. Safe
// for concurrent use.
type Server struct {
	*httptest.Server

	mu       sync.Mutex
	last     map[string]int64 // by app and shard, path, or space and key
	code     int              // of the refusal; 0: none
	message  string
	requests int
}

// Start starts a server on a free port of loopback; Close ends it.
func Start() *Server {
	s := &Server{last: map[string]int64{}}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	return s
}

// Refuse answers all further requests with an error: client.CodeLimit, for example. The
// code 0 ends that.
func (s *Server) Refuse(code int, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.code, s.message = code, message
}

// Requests is how many requests came.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// reply is the body of /v1.
type reply struct {
	Code      int      `json:"code"`
	Message   string   `json:"message,omitempty"`
	IDs       []string `json:"ids,omitempty"`
	Ranges    []ids    `json:"ranges,omitempty"`
	ShardBits int      `json:"shardBits,omitempty"`
	Current   *int64   `json:"current,string,omitempty"`
}

type ids struct {
	First  int64 `json:"first,string"`
	Count  int64 `json:"count"`
	Stride int64 `json:"stride,string"`
}

// statuses are those of the error table in docs/api.md; others have 503.
var statuses = map[int]int{-2: 404, -3: 404, -5: 409, -6: 400, -7: 401, -9: 404, -10: 404, -11: 500, -12: 429, -13: 409,
	-14: 409}

var paths = regexp.MustCompile(`^/v1/(?:queue/(\d{1,3})|(sequence/[^/]+)|segment/.+|snowflake|uid)/(?:ids|(current))$`)

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm() // what cannot be read is missing
	a := s.answer(r.Method, r.URL.EscapedPath(), r.Form)
	w.Header().Set("Content-Type", "application/json")
	if a.Code != 0 {
		status, ok := statuses[a.Code]
		if !ok {
			status = http.StatusServiceUnavailable
		}
		w.WriteHeader(status)
	}
	_ = json.NewEncoder(w).Encode(a) // fails when the caller has gone
}

func (s *Server) answer(method, path string, query url.Values) reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	if s.code != 0 {
		return reply{Code: s.code, Message: s.message}
	}
	found := paths.FindStringSubmatch(path)
	if found == nil || found[3] != "" && (found[2] == "" || method != http.MethodGet) {
		return reply{Code: -10, Message: "no such path, or method: " + path}
	}
	if key := query.Get("key"); found[2] != "" {
		if key == "" || len(key) > maxKey {
			return reply{Code: -6, Message: "key must have 1 to 256 bytes"}
		}
		path = found[2] + "?" + key
		if current := s.last[path]; found[3] != "" {
			return reply{Current: &current}
		}
	}
	count, err := strconv.ParseInt(cmp.Or(query.Get("count"), "1"), 10, 64)
	if err != nil || count < 1 || count > maxBatch {
		return reply{Code: -6, Message: "count must be 1 to 10000"}
	}
	stride, low := int64(1), int64(0)
	if found[1] != "" {
		app, err := strconv.ParseUint(found[1], 10, 8)
		if err != nil {
			return reply{Code: -6, Message: "appId must be 0 to 255"}
		}
		shard, err := shardOf(query)
		if err != nil {
			return reply{Code: -6, Message: err.Error()}
		}
		stride, low = 1<<14, int64(shard)<<8|int64(app)
		path = strconv.FormatInt(low, 10)
	}
	bits := 0
	if query.Get("sharded") == "true" {
		bits, stride = shardBits, 1<<shardBits
	} else if query.Has("shardKey") {
		key, err := idtext.ShardKey(query.Get("shardKey"))
		if err != nil {
			return reply{Code: -6, Message: err.Error()}
		}
		stride, low = 1<<shardBits, int64(key&(1<<shardBits-1))
	}
	first := s.last[path] + 1
	s.last[path] += count
	if query.Get("ranges") == "true" {
		return reply{Ranges: []ids{{first*stride + low, count, stride}}, ShardBits: bits}
	}
	a := reply{}
	for i := range count {
		a.IDs = append(a.IDs, strconv.FormatInt((first+i)*stride+low, 10))
	}
	return a
}

// shardOf is the shard of an app that is named, or that of a gatePass.
func shardOf(query url.Values) (uint8, error) {
	if !query.Has("shard") {
		return idtext.CheckedShardOf(query.Get("gatePass"))
	}
	n, err := strconv.ParseUint(query.Get("shard"), 10, 6)
	return uint8(n), err
}
