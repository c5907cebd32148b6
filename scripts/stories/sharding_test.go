//go:build unix

package stories_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"shardid/client"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// shardKeys are asked for in turn; their lowest ten bits are the same for some.
var shardKeys = []int64{0, 1, 63, 64, 666, 1023, 1024 + 666, 1 << 40}

// keyed is what came of a million IDs of one tag.
type keyed struct {
	mu      sync.Mutex
	numbers map[int64]bool
	wrong   string
}

// add notes IDs of a key, and gives how many there are.
func (k *keyed) add(key int64, ids ...int64) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range ids {
		if k.numbers[id>>10] || id%1024 != key%1024 {
			k.wrong = fmt.Sprintf("the ID %d of key %d came twice, or is of another one", id, key)
		}
		k.numbers[id>>10] = true
	}
	return len(k.numbers)
}

// javaKeys prints IDs with their keys.
const javaKeys = `public class Keys {
	public static void main(String[] args) throws Exception {
		StringBuilder out = new StringBuilder();
		try (shardid.Shardid client = shardid.Shardid.connect(args[0], null, 20_000)) {
			shardid.Source carts = client.segment("carts");
			for (int i = 0; i < 200_000; i++) {
				long key = Long.parseLong(args[1 + i % (args.length - 1)]);
				out.append(key).append(' ').append(carts.next(key)).append('\n');
			}
		}
		System.out.print(out);
	}
}`

// TestShardKeys: a million IDs of one tag with shard bits, by eight keys, from two replicas: with the Go and the Java
// client, over HTTP and by a Redis client at once, while the database fails over to a replica that lacks a moment. Each
// ends in the bits of its key, and no number comes twice.
func TestShardKeys(t *testing.T) {
	check.Deep(t)
	story(t)
	const wanted = 1_000_000
	db := testserver.MariaDBReplicated(t)
	proxy := testserver.NewProxy(t, db.Primary.Addr())
	query(t, db.Primary.DSN(""), "CREATE DATABASE shardid")
	s := onMariaDB("root@tcp(" + proxy.Addr + ")/shardid").With(onRedis(testserver.Redis(t).Addr))
	s = s.With(settings{"RESP_ADDR": "127.0.0.1:0"})
	must(t, s, "migrate")
	must(t, s, "tags", "add", "--tag", "carts", "--step", "5000", "--shard-bits", "10")
	replicas := serveReady(t, 2, s)
	got := &keyed{numbers: make(map[int64]bool, wanted)}
	urls := []string{replicas[0].url, replicas[1].url}
	c, err := client.New(client.Options{Addrs: urls, Timeout: 20 * time.Second})
	check.Must(t, err)
	defer c.Close()
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
	defer stop()
	asks := []func(key int64) ([]int64, error){
		func(key int64) ([]int64, error) { return c.Segment("carts").For(uint64(key)).Take(ctx, 500) },
	}
	for _, d := range replicas {
		conn := redis.NewClient(&redis.Options{Addr: d.respAddr()})
		defer conn.Close()
		asks = append(asks, func(key int64) ([]int64, error) { return overHTTP(ctx, d.url, key) },
			func(key int64) (ids []int64, err error) {
				texts, err := conn.LPopCount(ctx, fmt.Sprint("sharded:carts:", key), 500).Result()
				for _, text := range texts {
					id, _ := strconv.ParseInt(text, 10, 64)
					ids = append(ids, id)
				}
				return ids, err
			})
	}
	var callers sync.WaitGroup
	for _, ask := range asks {
		callers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				key := shardKeys[n%len(shardKeys)]
				ids, err := ask(key)
				if got.add(key, ids...) >= wanted {
					return
				}
				if err != nil {
					time.Sleep(50 * time.Millisecond)
				}
			}
		})
	}
	callers.Go(func() { fromJava(ctx, t, urls, got) })
	eventually(t, time.Minute, "a third of the IDs", func() bool { return got.add(0) > wanted/3 })
	db.CatchUp()
	db.Lag()
	time.Sleep(time.Second) // what comes in it is lost
	db.Primary.Kill()
	db.Promote()
	proxy.Switch(db.Primary.Addr())
	callers.Wait()
	if n := got.add(0); n < wanted || got.wrong != "" {
		t.Errorf("%d numbers: %s", n, got.wrong)
	}
}

// overHTTP asks for 500 IDs of a key.
func overHTTP(ctx context.Context, url string, key int64) (ids []int64, err error) {
	target := fmt.Sprintf("%s/v1/segment/carts/ids?count=500&shardKey=%d", url, key)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	var answer struct {
		IDs []string `json:"ids"`
	}
	if err = json.Unmarshal(body, &answer); err != nil {
		return nil, err
	}
	for _, text := range answer.IDs {
		id, _ := strconv.ParseInt(text, 10, 64)
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		err = fmt.Errorf("%s", body)
	}
	return ids, err
}

// fromJava adds what a program with the Java client gets, where there is a compiler.
func fromJava(ctx context.Context, t *testing.T, urls []string, got *keyed) {
	classes := javaClasses(t)
	if classes == "" {
		return
	}
	source := filepath.Join(t.TempDir(), "Keys.java")
	writeFile(t, source, javaKeys)
	compile := exec.CommandContext(ctx, "javac", "-cp", classes, "-d", classes, source)
	if out, err := compile.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
		return
	}
	args := []string{"-cp", classes, "Keys", strings.Join(urls, ",")}
	for _, key := range shardKeys {
		args = append(args, strconv.FormatInt(key, 10))
	}
	out, err := exec.CommandContext(ctx, "java", args...).Output()
	if err != nil {
		t.Errorf("the Java client: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		var key, id int64
		if _, err := fmt.Sscan(line, &key, &id); err != nil {
			t.Error(err)
			return
		}
		got.add(key, id)
	}
}
