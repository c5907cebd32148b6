package main

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/user"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// The commands as users type them, run in the process on the embedded stores. A session is what one of them types in
// a folder of its own, line after line.
//
// A command that works says nothing on stderr. One that fails prints nothing but a line on stderr for each problem,
// which begins with "shardid: ". A change leaves an audit line beside that. No output holds a password.

// line is a command, how it ends and what it says: a part of its output, or of its line on stderr if it fails. What
// begins with ^ is an expression for the output. Lines of says are for several problems.
type line struct {
	args string // ␣ is a blank within an argument
	exit int
	says string
}

// try runs a command in the folder of the test, and gives what it prints.
func try(t *testing.T, args ...string) (exit int, stdout, stderr string) {
	t.Helper()
	files := [2]**os.File{&os.Stdout, &os.Stderr}
	var was, is [2]*os.File
	for i, file := range files {
		made, err := os.CreateTemp(t.TempDir(), "")
		check.Must(t, err)
		defer made.Close()
		was[i], is[i], *file = *file, made, made
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute) // a server that ought to be refused ends well then
	defer stop()
	exit = run(ctx, args)
	texts := [2]string{}
	for i, file := range files {
		*file = was[i]
		text, err := os.ReadFile(is[i].Name())
		check.Must(t, err)
		texts[i] = string(text)
	}
	return exit, texts[0], texts[1]
}

// types runs lines in the folder of the test. Pairs of here are a word of a line and what it stands for.
func types(t *testing.T, lines []line, here ...string) {
	t.Helper()
	for _, l := range lines {
		args := strings.Fields(strings.NewReplacer(here...).Replace(l.args))
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "␣", " ")
		}
		exit, stdout, stderr := try(t, args...)
		var audit, problems []string
		for said := range strings.Lines(stderr) {
			if strings.Contains(said, `"msg":"audit"`) {
				audit = append(audit, said)
			} else {
				problems = append(problems, said)
			}
		}
		if exit != l.exit || !l.isSaid(stdout, problems) || strings.Contains(stdout+stderr, "hunter2") {
			t.Errorf("%s\n got  %d, %q\n      %q\n want %d, %q", l.args, exit, stdout, problems, l.exit, l.says)
		}
		wantAudit(t, l, stdout, audit)
	}
}

func (l line) isSaid(stdout string, problems []string) bool {
	if strings.HasPrefix(l.says, "^") {
		says := regexp.MustCompile(l.says)
		return says.MatchString(stdout) || says.MatchString(stdout+strings.Join(problems, ""))
	}
	if l.exit == exitDone {
		return strings.Contains(stdout, l.says) && problems == nil
	}
	says := strings.Split(l.says, "\n")
	for i, problem := range problems {
		if !strings.HasPrefix(problem, "shardid: ") || i < len(says) && !strings.Contains(problem, says[i]) {
			return false
		}
	}
	return len(problems) == len(says) && stdout == ""
}

// wantAudit: a change that was made names who made it, and one that failed is not told as made. A server has the lines
// of what was sent to it.
func wantAudit(t *testing.T, l line, stdout string, audit []string) {
	t.Helper()
	me, err := user.Current()
	check.Must(t, err)
	changes := regexp.MustCompile(`^(provision|confirm|(apps|tags|names|spaces) (add|set|delete)) `)
	nothing := regexp.MustCompile("nothing was changed")
	isSent := strings.Contains(l.args, "--url") || check.Err(os.Stat("data/shardid.db.sock")) == nil
	isChange := changes.MatchString(l.args) && !isSent
	if isChange && l.exit == exitDone && !nothing.MatchString(stdout) && audit == nil {
		t.Errorf("%s: no audit line", l.args)
	}
	for _, said := range audit {
		isDone, isOfMany := strings.Contains(said, `"outcome":"done"`), strings.Contains(l.args, "--file")
		if !strings.Contains(said, `"who":"cli:`+me.Username+`"`) || isDone != (l.exit == exitDone) && !isOfMany {
			t.Errorf("%s: exit %d, audit line %s", l.args, l.exit, said)
		}
	}
}

// serveQuietly is a server on a free port.
const serveQuietly = "serve --set server.addr=127.0.0.1:0 --set log.level=error"

func TestCommands(t *testing.T) {
	t.Setenv("GOGC", "100") // serve would space out the collections of this process
	t.Setenv("SHARDID_SERVER_ADMIN_TOKEN", "hunter2-of-an-administrator")
	for name, lines := range map[string][]line{
		"usage": usageLines(), "configuration": configurationLines(), "start": startLines(), "decode": decodeLines(),
		"apps": appLines(), "a file of apps": fileLines(), "tags": tagLines(), "names": nameLines(),
		"spaces": spaceLines(), "workers": workerLines(), "tokens": tokenLines(), "JSON": jsonLines(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			for file, text := range map[string]string{
				"tab.yaml":      "server:\n\taddr: ':1'\n",
				"two.yaml":      "foo: 1\nlog:\n  level: loud\n",
				"typo.yaml":     "server:\n  addr: 127.0.0.1:0\nqueue:\n  prefetch_macks: 5\n",
				"right.yaml":    "server:\n  request_timeout: 3s\n",
				"apps.yaml":     "- {id: 8, name: eight}\n- {id: 9, name: nine}\n",
				"mistake.yaml":  "- {id: 1, name: one}\n- {id: 256, name: one too many}\n",
				"again.yaml":    "- {id: 8, name: other}\n- {id: 9, name: back, step: 77}\n",
				"redis.yaml":    "redis:\n  url: rediss://127.0.0.1:1\n",
				"no-token.yaml": "- name: c\n",
				"tags.yaml":     "- {tag: orders}\n- {tag: many, step: 7}\n",
				"nameless.yaml": "- {name: orders}\n", "parts.yaml": "- {tag: a}\n---\n- {tag: b}\n",
				"empty": "",
			} {
				check.Must(t, os.WriteFile(file, []byte(text), 0o600))
			}
			busy, err := net.Listen("tcp", "127.0.0.1:0")
			check.Must(t, err)
			defer busy.Close()
			types(t, lines,
				"SERVE", serveQuietly,
				"REDIS", "--config redis.yaml",
				"ZOOKEEPER", "--set snowflake.worker.mode=zk --set zookeeper.addrs=127.0.0.1:1",
				"BUSY", busy.Addr().String())
		})
	}
}

func usageLines() []line {
	return []line{
		{"version", 0, `^shardid \d+\.\d+\.\d+\S* go1\.\S+ \S+/\S+\n$`},
		{"--version", 0, `^shardid \d+\.\d+\.\d+\S* go1\.\S+ \S+/\S+\n$`},
		{"serve --help", 0, `^(?s)Serve .* database\.dsn +secret: .*DATABASE_DSN\n.* queue\.prefetch_max +1000\n`},
		{"srve", 2, `did you mean serve; see shardid --help: unknown command "srve" for "shardid"`},
		{"apps show", 2, `see shardid apps --help: invalid argument "show" for "shardid apps"`},
		{"config print", 2, `see shardid config --help: invalid argument "print" for "shardid config"`},
		{"doctor extra", 2, `"extra"`},
		{"confirm", 2, "give --app and --name, --tag"},
		{"provision", 2, "give --app, see shardid apps --help: it is missing"},
		{"provision --app 1 --file apps.yaml", 2, "give --app or --file, not both"},
		{"tags add --step 7 --file tags.yaml", 2, "give --step or --file, not both"},
		{"provision --app x --name test", 2, `invalid argument "x" for "--app" flag`},
		{"apps --help", 0, `^(?s)List .*\n +shardid apps add --app 7 .* --max-limit-id ID .* \(add, set\)\n` +
			`.* --min-index index .* \(set\)\n`},
		{"apps --app 7", 2, "leave --app out of list: it is for add and set and delete"},
		{"apps add --app 7 --name x --min-index 5", 2, "leave --min-index out of add: it is for set"},
		{"apps delete --app 7", 2, "give --confirm, see shardid apps --help: it is missing"},
		{"tags add", 2, "give --tag, see shardid tags --help: it is missing"},
		{"status --url 127.0.0.1:1", 2, "write --url like http://127.0.0.1:8080, "},
		{"apps --url http://127.0.0.1:1", 1, "start the server, or correct the URL or server.addr: "},
	}
}

func configurationLines() []line {
	const unknown = "did you mean queue.prefetch_max: typo.yaml:4: queue.prefetch_macks: unknown key"
	return []line{
		{"config check --config right.yaml", 0, `^the configuration is right: right\.yaml\n$`},
		{"config check --config tab.yaml", 1, "tab.yaml:2: is not YAML: found character … that cannot start any token"},
		{"config check --config two.yaml --set server.request_timeout=1h", 1,
			"two.yaml:1: foo: unknown key\nflag --set: server.request_timeout: is 1h0m0s\ntwo.yaml:3: " +
				"log.level: "},
		{"config check --set server.tokens_file=none REDIS --set redis.tls_ca_file=none", 1,
			"server.tokens_file: none: \nredis.tls_ca_file: "},
		{"doctor", 0, `^(?s).*\ndatabase .* file +- +made by the first start +unknown`},
		{"migrate --print", 1, "set database.driver and database.dsn to those of the service, or begin"},
		{"migrate --from data", 2, "set database.driver to mysql, and database.dsn: --from is for the move"},
		{"migrate", 0, `^made data/shardid\.db\napplied .*\nschema is at version 17 ` +
			`\(embedded database data/shardid\.db\)\n$`},
		{"migrate --print", 0, "nothing to do"},
		{"doctor", 0, `^(?s).* journal_mode +wal +wal +ok `},
		{"doctor --region http://127.0.0.1:1", 1, `^(?s).*region +- +reachable +no .* http://127\.0\.0\.1:1: `},
		{"serve --config typo.yaml", 1, unknown},
		{"serve --config none.yaml", 1, "none.yaml: cannot be read"},
	}
}

func decodeLines() []line {
	return []line{
		{"decode 16385", 0, `^index +1\nshardId +0\nappId +1\nkind +queue\n$`},
		{"decode 16385 32769", 0, `^id +16385\nindex +1\n(.*\n){4}id +32769\nindex +2\n`},
		{"decode --kind snowflake 1169786042799259000", 0, `^timestamp +1567733700834\n(?s).*\nsequenceId +3448\n$`},
		{"decode --kind segment --shard-bits 10 1690", 0, `^number +1\nshard +666\n$`},
		{"decode --shard-bits 10 1690", 2, "give 0 to 16 shard bits, as `shardid tags` shows them, of IDs of the kind"},
		{"decode --format base62 4GH", 0, `^id +16385\nindex +1\nshardId +0\nappId +1\nkind +queue\n$`},
		{"decode --format crockford g-ol 00G01", 0, `^id +16385\nindex +1\n`},
		{"decode --json --format crockford 7ZZZZZZZZZZZZ", 0, `"idStr":"9223372036854775807"`},
		{"decode --json 16385 32769 16386", 0,
			`^(\{"appId":\d,"id":\d+,.*,"index":\d,"kind":"queue","shardId":0\}\n){3}$`},
		{"decode", 2, "; see shardid decode --help: requires at least 1 arg(s), only received 0"},
		{"decode 16385 2", 2, `^id +16385\n`},
		{"decode 2", 2, "give a queue ID, from 16384 to "},
		{"decode abc", 2, "name the format, dec, hex, base36, base62 or crockford, of an ID that is not decimal"},
		{"decode --format roman XI", 2, "format must be dec, hex, base36, base62 or crockford"},
		{"decode --kind what 5", 2, "queue"},
		{"decode -- -5", 2, `of an ID that is not decimal: "-5" is none`},
		{"decode -x", 2, "see shardid decode --help: unknown shorthand flag: 'x' in -x"},
	}
}

func appLines() []line {
	return []line{
		{"migrate", 0, "schema is at version"},
		{"migrate", 0, "schema is at version"},
		{"apps", 0, "shardid provision"},
		{"confirm --app 9 --name x", 1, "not provisioned"},
		{"provision --app 1 --name test --limit-policy wrap", 2, "limit"},
		{"provision --app 5 --name 订单 --description orders --step 5000 --max-limit-id 4294967295", 0, "app 5 is added"},
		{"apps list", 0, "\n5    订单    64      5000  0              4294967295    -             reject  orders\n"},
		{"confirm --app 5 --name 订单", 0, "app 5: nothing waited for a confirmation, nothing was changed"},
		{"apps add --if-missing --app 7 --name orders", 0, "app 7 is added, now, on every replica"},
		{"provision --app 7 --name orders", 1,
			"or change it with `shardid apps set --app 7`: already provisioned"},
		{"provision --if-missing --app 7 --name orders", 0, "app 7 is there, nothing was changed"},
		{"apps add --if-missing --app 7 --name others", 1, `name "orders"`},
		{"provision --app 256 --name test", 2, "--app must be a whole number in 0…255, not 256"},
		{"apps set --app 8 --step 5", 1, "shardid: see `shardid apps`, or provision it with `shardid provision "},
		{"apps set --app 7", 2,
			"give some of --name, --description, --step, --max-limit-id, --limit-policy, --min-index: "},
		{"apps set --app 7 --min-index 4000 --description d", 0, "app 7 is changed, on every replica with its next"},
		{"apps set --app 7 --max-limit-id 32519", 1, "may have been issued"},
		{"apps set --app 7 --max-limit-id 99999999999 --limit-policy wrap", 2, "confirm it with the app's name"},
		{"apps set --app 7 --max-limit-id 99999999999 --limit-policy wrap --confirm orders", 0, "wrap"},
		{"apps delete --app 7 --confirm Orders", 2, `confirm the deletion with the app's name, "orders"`},
		{"apps delete --app 7 --confirm orders", 0, `^APP .*\n7 +orders +64 +\d+ +4000 .*\napp 7 is deleted, `},
		{"provision --app 7 --name again --max-limit-id 32519", 1, "may have been issued"},
		{"provision --app 7 --name again", 0, `^APP .*\n7 +again +64 +1000 +4000 `},
	}
}

// fileLines: one app that is refused does not keep the others of its file away, and a file with a mistake makes none.
func fileLines() []line {
	return []line{
		{"migrate", 0, "schema is at version"},
		{"provision --file empty", 2, "write each as - {id: ID, name: NAME}: empty is no list of apps"},
		{"provision --file tab.yaml", 2, "tab.yaml: [2:1] found character"},
		{"provision --file apps.yaml --json", 0, `^{.*"name":"eight",.*}\n{.*"name":"nine",.*}\n$`},
		{"provision --file apps.yaml", 0, "app 9 is there, nothing was changed"},
		{"apps delete --app 9 --confirm nine", 0, "app 9"},
		{"provision --file again.yaml --json", 1, `^{.*"name":"back",.*}\n$`},
		{"provision --file mistake.yaml", 2, `^APP .*\n1 +one .*\napp 1 is added, now, on every replica ` +
			`\(embedded database data/shardid\.db\)\n$`},
		{"apps delete --app 1 --confirm one", 0, "app 1"},
		{"apps list --json", 0, `^\[\{"appId":8,.*"name":"eight",.*\},\{"appId":9,.*"name":"back",.*"step":77,`},
	}
}

func tagLines() []line {
	return []line{
		{"migrate", 0, "schema is at version"},
		{"tags", 0, "shardid tags add"},
		{"tags add --if-missing --tag orders --step 500 --max-id 50001 --description paid", 0,
			`^TAG .*\norders +50001 +- +- +500 `},
		{"tags add --if-missing --tag orders --step 7", 0, "tag orders is there, nothing was changed"},
		{"tags add --tag orders", 1, "already provisioned"},
		{"tags add --if-missing --tag orders --pattern {seq:8} --reset none", 1, "already provisioned"},
		{"tags add --if-missing --tag 单号 --pattern {seq:8} --reset none", 0, "tag 单号 is added, now, on every replica"},
		{"tags add --if-missing --tag 单号 --pattern {seq:8} --reset none", 0, "tag 单号 is there, nothing was changed"},
		{"tags add --if-missing --tag 单号 --pattern {seq:8} --reset none --overflow refuse", 1, "already provisioned"},
		{"tags list", 0, `^(?s)TAG .*\norders +50001 +- +- +500 .*\n单号 +1 +00000001 +- +2000 [^\n]*\n$`},
		{"tags add --file tags.yaml", 0, "tag many is added, "}, {"tags delete --tag many --confirm many", 0, ""},
		{"tags add --file empty", 2, "write each as - {tag: TAG}: empty is no list of tags"},
		{"tags add --file nameless.yaml", 2, "1 of 1 tags are not there\nuse tag, step, "},
		{"tags add --file parts.yaml", 2, "keep one document, without ---"},
		{"tags add --tag bits --shard-bits 4", 0, ""}, {"tags add --tag bits --if-missing", 1, "already provisioned"},
		{"tags delete --tag bits --confirm bits", 0, ""},
		{"tags --search x", 0, "no tag is found"},
		{"tags --search R --limit 1", 0, `^TAG .*\norders +50001 .*\n$`},
		{"tags --limit 1", 0, `^TAG .*\norders .*\nuse --search or --limit to see others: these are 1 of 2 tags\n$`},
		{"tags add --tag a/b --max-id 9", 0, "tag a/b is added"},
		{"tags add --tag cart --shard-bits 10", 0, `^TAG .*\ncart +1 +- +10 +2000 `},
		{"tags add --if-missing --tag cart --shard-bits 10", 0, "tag cart is there, nothing was changed"},
		{"tags add --if-missing --tag cart --shard-bits 9", 1, "already provisioned"},
		{"tags add --tag x --shard-bits 17", 2, "--shard-bits must be a whole number in 1…16, not 17"},
		{"tags add --tag x --shard-bits 3 --pattern {seq:4} --reset none", 2, "give --shard-bits or --pattern, not " +
			"both"},
		{"tags set --tag cart --shard-bits 9", 2, "leave --shard-bits out of set: it is for add"},
		{"tags delete --tag cart --confirm cart", 0, "tag cart is deleted"},
		{"tags add --tag cart --shard-bits 9", 1, "give tag \"cart\" 10 shard bits, as before it was deleted"},
		{"tags add --tag a --shard-bits 1", 0, ""}, {"tags delete --tag a --confirm a", 0, ""},
		{"tags set --tag none --step 5", 1, "shardid: see `shardid tags`, or add it with `shardid tags add "},
		{"tags set --tag a/b --max-id 8", 1, "only rises"},
		{"tags set --tag 单号 --max-id 5 --after 0005", 2, "give --max-id or --after, not both"},
		{"tags set --tag a/b --step 5 --max-id 80", 0, "tag a/b is changed"},
		{"tags delete --tag a/b --confirm a", 2, "confirm"},
		{"tags delete --tag a/b --confirm a/b", 0, `^TAG .*\na/b +80 +- +- +5 .*\ntag a/b is deleted, `},
		{"tags add --tag a/b", 0, `^TAG .*\na/b +80 `},
	}
}

func nameLines() []line {
	return []line{
		{"migrate", 0, "schema is at version"},
		{"names add --if-missing --name orders", 0, `^NAME .*\norders .* 0 +1024\nname orders is added, now, `},
		{"names add --if-missing --name orders --hold 5m", 0, "name orders is there, nothing was changed"},
		{"names add --if-missing --name orders --worker-bits 9", 1, "worker_bits=10"},
		{"names add --name carts --epoch 1767225600000 --worker-bits 4 --seq-bits 6 --hold 5m", 0,
			"name carts is added"},
		{"names add --name shardid", 1, "choose another name"},
		{"names add --name x --shard-bits 12", 2, "give fewer --shard-bits than the 12 of the sequence"},
		{"names add --name bills --shard-bits 6", 0, `^NAME .*\nbills +1288834974657 +10 +12 +6 +60s +0 +1024\n`},
		{"names add --if-missing --name bills --shard-bits 5", 1, "shard_bits=6"},
		{"names delete --name bills --confirm bills", 0, ""},
		{"names add --name bills", 1, "were made with epoch_ms=1288834974657 worker_bits=10 seq_bits=12 shard_bits=6"},
		{"names", 0, `^NAME .*\ncarts +1767225600000 +4 +6 +- +300s +0 +16\n` +
			`orders +1288834974657 +10 +12 +- +60s +0 +1024\n$`},
		{"workers --name carts", 0, "no worker ID has been used yet"},
		{"workers --name none", 1, "see `shardid names`"},
		{"names set --name orders --hold 10s", 0, "is changed, for leases that are granted or renewed from now on"},
		{"names delete --name orders --confirm orders", 0, "name orders is deleted, now, on every replica"},
	}
}

func spaceLines() []line {
	return []line{
		{"migrate", 0, "schema is at version"},
		{"spaces", 0, `^there is no space of sequences: shardid spaces add --space chat\n$`},
		{"spaces add --if-missing --space chat --sections 8", 0, "space chat is added, on every replica within 3 s"},
		{"spaces add --if-missing --space chat --sections 8", 0, "space chat is there, nothing was changed"},
		{"spaces add --if-missing --space chat", 1, "already provisioned"},
		{"spaces add --space feed --sections 16384 --step 1000000", 0, "space feed is added"},
		{"spaces", 0, `^SPACE .*\nchat +8 +10000 +0 +0\nfeed +16384 +1000000 +0 +0\n$`},
		{"spaces set --space feed --step 10", 0, "space feed is changed, on every replica within 3 s"},
		{"spaces delete --space feed --confirm feed", 0, "space feed is deleted, "},
	}
}

func workerLines() []line {
	return []line{
		{"migrate", 0, "schema is at version"},
		{"workers", 0, "no worker ID has been used yet"},
		{"workers list ZOOKEEPER", 2, "look at the console or /api/replicas for those in use"},
	}
}

// hash is what the file of tokens has of one.
func hash(token string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(token))) }

func tokenLines() []line {
	const missing = "no-token.yaml: token 1: sha256: is not a SHA-256"
	return []line{
		{"token new --name a --may segment:x,segment:pre*,uid --rate 2.5 --ids-per-second 9 --expires 2027-01-31", 0,
			`^- {name: "a", sha256: "[0-9a-f]{64}", may: \["segment:x", "segment:pre\*", "uid"\], ` +
				`rate: 2.5, ids_per_second: 9, expires: "2027-01-31"}\n$`},
		{"token new --name a --may root", 2, "write [\"queue:1\", "},
		{"token new --name a␣b", 2, "write 1 to 64 of letters"},
		{"token", 2, "write shardid token new --name NAME --may WHAT,WHAT; see shardid token --help: accepts 1 "},
		{"config check --set server.tokens_file=no-token.yaml", 1, missing},
		{"SERVE --set server.tokens_file=no-token.yaml", 1, missing},
	}
}

// jsonLines: each command that prints something takes --json, and an app has one name for its number, that of HTTP.
func jsonLines() []line {
	lines := []line{
		{"version", 0, `"version":"0.`},
		{"migrate", 0, `{"steps":[`},
		{"decode 16385", 0, `{"appId":1,`},
		{"provision --app 7 --name orders", 0, `"appId":7`},
		{"apps", 0, `[{"appId":7`},
		{"apps set --app 7 --step 2000", 0, `"appId":7`},
		{"confirm --app 7 --name orders", 0, `"confirmed":false`},
		{"apps delete --app 7 --confirm orders", 0, `"appId":7`},
		{"tags add --tag t", 0, `"tag":"t","maxId":1,"maxIdStr":"1"`},
		{"workers", 0, `[]`},
		{"doctor", 0, `[{"store":"database",`},
		{"config check", 0, `"ok":true`},
		{"token new --name a --may admin", 0, `"token":"shardid_`},
	}
	for i := range lines {
		lines[i].args += " --json"
	}
	return lines
}

// startLines: what stops the start of a server is one line that says what to do.
func startLines() []line {
	return []line{
		{"SERVE --set server.tls_cert_file=no.pem --set server.tls_key_file=no.key", 1, "name the PEM files"},
		{"SERVE REDIS --set redis.tls_ca_file=no.pem", 1, "name a PEM file of authorities"},
		{"SERVE --set data_dir=empty", 1, "let the user of this process read and write "},
		{"SERVE --set server.tokens_file=tab.yaml", 1, "server.tokens_file: tab.yaml:2: found character"},
		{"SERVE --set resp.addr=BUSY", 1, "choose another resp.addr"},
	}
}

// The audit line of a command follows its answer.
func TestAuditFollowsTheAnswer(t *testing.T) {
	t.Chdir(t.TempDir())
	types(t, []line{{"migrate", 0, ""}})
	out, err := os.Create("out")
	check.Must(t, err)
	defer out.Close()
	stdout, stderr := os.Stdout, os.Stderr
	defer func() { os.Stdout, os.Stderr = stdout, stderr }()
	os.Stdout, os.Stderr = out, out
	run(t.Context(), []string{"provision", "--app", "1", "--name", "a"})
	run(t.Context(), []string{"provision", "--app", "1", "--name", "b"})
	text, err := os.ReadFile("out")
	check.Must(t, err)
	if !regexp.MustCompile(`^APP .*\n1 .*\napp 1 is added.*\n\{.*"outcome":"done"\}\n` +
		`shardid: leave it.*\n\{.*"outcome":"refused".*\}\n$`).Match(text) {
		t.Errorf("%s", text)
	}
}

// A command of administration makes nothing where nothing is.
func TestCommandsWithoutData(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, args := range []string{
		"apps", "apps --json", "tags", "workers", "apps set --app 1 --step 5", "apps delete --app 1 --confirm test",
		"tags set --tag a --step 5", "tags delete --tag a --confirm a",
		"confirm --app 1 --name test", "provision --app 1 --name test", "tags add --tag a",
	} {
		types(t, []line{{args, 1, "there is no database of shardid at data/shardid.db"}})
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("%v was made, %v", left, err)
	}
}

// A command that cannot reach its store says so in one line, and what doctor cannot ask hides nothing of the rest.
func TestCommandsWithStoreAway(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("SHARDID_DATABASE_DRIVER", "mysql")
	t.Setenv("SHARDID_DATABASE_DSN", "root:hunter2@tcp(127.0.0.1:1)/nowhere")
	for _, args := range []string{"migrate", "apps", "provision --app 1 --name test"} {
		types(t, []line{{args, 1, "127.0.0.1:1"}})
	}
	redis := testserver.Redis(t, "--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lru")
	types(t, []line{{"status --url http://" + redis.Addr, 1,
		"correct the URL or server.addr, as what listens there does not answer as shardid does: "}})
	t.Setenv("SHARDID_REDIS_URL", "redis://"+redis.Addr)
	types(t, []line{{"doctor", 1, `^STORE .*\ndatabase +\S+ +reachable +no +yes +unknown .*\n` +
		`(?:.*\n)*redis +\S+ +maxmemory-policy +allkeys-lru +noeviction +unsafe .*\n(?:.*\n)*` +
		`shardid: start the database server at 127\.0\.0\.1:1, or correct database\.dsn: .*; ` +
		`do what WHY says of maxmemory-policy: .* is allkeys-lru, and should be noeviction\n$`}})
}

// served serves in the folder of the test, with --demo, until stop is called.
func served(t *testing.T, flags ...string) (url string, stop func()) {
	t.Helper()
	loaded, err := load(t, nil, append(flags, "--set=server.addr=127.0.0.1:0")...)
	check.Must(t, err)
	app, err := NewApp(loaded.Config, slog.New(slog.DiscardHandler), nil)
	check.Must(t, err)
	stop = sync.OnceFunc(func() { check.OK(t, app.Stop(0)) })
	t.Cleanup(stop)
	check.Must(t, app.Start(t.Context(), true))
	url = strings.TrimSuffix(app.url, "/")
	check.Eventually(t, "it is ready", func() error {
		_, err := asking{url: url, timeout: time.Minute}.health(t.Context(), loaded.Config)
		return err
	})
	return url, stop
}

// gets asks a server until it has what is asked for, and gives the body of its answer.
func gets(t *testing.T, url string) (body []byte) {
	t.Helper()
	check.Eventually(t, url, func() error {
		answer, err := http.Get(url)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if body, err = io.ReadAll(answer.Body); err == nil && answer.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", answer.Status, body)
		}
		return err
	})
	return body
}

// A server is asked as callers and its console do. What is in use is not deleted; a worker ID of an instance that is
// gone is freed once nobody can make IDs with it any more.
func TestCommandsAskAServer(t *testing.T) {
	t.Chdir(t.TempDir())
	url, stop := served(t, "--set=snowflake.advertise=10.0.0.7:80")
	for _, path := range []string{
		"/get?appId=1&gatePass=alice", "/api/segment/get/leaf-segment-test", "/v1/sequence/chat/ids?key=room42",
	} {
		gets(t, url+path)
	}
	lease, err := http.Post(url+"/v1/leases/demo?instance=pod-1", "", nil)
	check.Must(t, err)
	check.Equal(t, lease.StatusCode, http.StatusOK, "a lease")
	check.Must(t, lease.Body.Close())
	types(t, []line{{"apps add --app 8 --name hidden --scramble", 0, "app 8 is added"}})
	var said struct{ ID, Index int64 }
	check.Must(t, json.Unmarshal(gets(t, url+"/get?appId=8&gatePass=alice"), &said))
	check.Must(t, json.Unmarshal(gets(t, fmt.Sprint(url, "/decode?id=", said.ID)), &said))
	check.Equal(t, said.Index, 1, "what only a server can tell of the ID of a scrambled app")
	check.Must(t, check.Within(time.Minute, func() error { // a refusal before is an alarm for 15 s
		if said := gets(t, url+"/api/status"); !strings.Contains(string(said), `"alarms":[]`) {
			return fmt.Errorf("there are alarms: %s", said)
		}
		return nil
	}))
	types(t, []line{
		{"status --url URL", 0, `^(?s)shardid 0\.\S+ is ready, started at 2\S+Z.*\nqueue +ready +2.*\ndatabase +ok `},
		{"status --url URL --wait 15s --json", 0, `^[^+]*"apps":\[\{"appId":1,[^+]*$`},
		{"status --url URL --json", 0, `"alarms":[]`},
		{"status --url http://127.0.0.1:1 --wait 1ns", 1, "not ready within --wait"},
		{"status --url 10.0.0.5:8080 --wait 1h", 2, "is no such URL"},
		{"health --url URL --json", 0, `^\{"status":"ok"\}\n$`},
		{"spaces", 0, `^SPACE .*\nchat +1024 +10000 +1 +10000\n`},
		{"names", 0, `^(?s)NAME .*\ndemo .* 1 +1024\n$`},
		{"names delete --name demo --confirm demo", 1, "are leased until 2"},
		{"workers --name demo", 0, `^WORKER ID .*\n0 +pod-1 +leased +2\S+Z +2\S+Z +2\S+Z +-\n$`},
		{"workers --name none", 1, "see `shardid names`"},
		{"workers", 0, `^(?s)WORKER ID.*\n1 +10\.0\.0\.7:80 +leased .* -\n$`},
		{"confirm --uid", 1, "stop the shardid that serves with data/shardid.db, or ask it, as with `shardid status`"},
		{"doctor", 0, `^(?s).*\ndatabase .* file +in use .* unknown `},
	}, "URL", url)
	stop()
	onSQLite(t, "data/shardid.db", "UPDATE shardid_worker_claim SET until_ms = 1; "+
		"UPDATE leaf_workerid_alloc SET reserved_until = 1, expires_at = 1, claimed_at = 0")
	types(t, []line{
		{"workers", 0, `^(?s).*\n1 +10\.0\.0\.7:80 +expired `},
	})
}

// A folder that has been in use keeps the widths and the epochs of its IDs, and does not begin anew when its database
// is gone, empty or another one. A start that is refused takes no worker ID and changes no file.
func TestFolderInUse(t *testing.T) {
	t.Chdir(t.TempDir())
	use := func(worker int64, flags ...string) {
		t.Helper()
		url, stop := served(t, flags...)
		gets(t, url+"/api/snowflake/get/x")
		uid, err := strconv.ParseInt(string(gets(t, url+"/api/uid/get")), 10, 64)
		check.OK(t, err)
		check.Equal(t, uid>>13&(1<<22-1), worker, "the worker ID of a UID")
		stop()
	}
	use(1)
	const (
		uid = `^shardid: set the recorded values again; only where IDs of both never meet .*: uid IDs have been ` +
			`issued with time_bits=28 worker_bits=22 seq_bits=13 epoch=2026-01-01T00:00:00Z.*\n$`
		snowflake = `^shardid: set the recorded values again; .* epoch_ms=1288834974657.*\n$`
	)
	types(t, []line{
		{"SERVE --set uid.time_bits=29 --set uid.worker_bits=21", 1, uid},
		{"SERVE --set uid.epoch=2026-01-02", 1, uid},
		{"SERVE --set uid.epoch=2026-01-01T00:00:00+08:00", 1, uid},
		{"SERVE --set snowflake.epoch_ms=1600000000000", 1, snowflake},
		{"SERVE --set snowflake.worker_bits=9", 1, snowflake},
		{"SERVE --set snowflake.seq_bits=11", 1, snowflake},
	}, "SERVE", serveQuietly)
	use(2, "--set=uid.mode=default", "--set=uid.boost_power=5")

	const file, saved = "data/shardid.db", "saved.db"
	check.Must(t, os.Rename(file, saved))
	for name, statement := range map[string]string{
		"missing": "", "zero length": "PRAGMA user_version", "no table": "PRAGMA user_version = 7",
		"foreign": "CREATE TABLE theirs (x)",
	} {
		t.Run(name, func(t *testing.T) {
			if statement != "" {
				onSQLite(t, file, statement)
			}
			before, _ := os.ReadFile(file)
			const lost = `^(?s).*shardid: restore data/shardid.db from a backup[^\n]*, remove data/shardid/[^\n]*: ` +
				`the file has no tables of shardid[^\n]*\n$`
			types(t, []line{
				{"SERVE", 1, lost}, {"migrate", 1, lost}, {"provision --app 2 --name b", 1, lost}, {"doctor", 1, lost},
			}, "SERVE", serveQuietly)
			after, err := os.ReadFile(file)
			check.Equal(t, string(after) == string(before), true, "the file is as it was")
			check.Equal(t, err == nil, statement != "", "that it is there")
			_ = os.Remove(file) // it may be missing
		})
	}
	check.Must(t, os.Rename(saved, file))
	use(3)
}

// onSQLite runs statements on a file.
func onSQLite(t *testing.T, file, statements string) {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	check.Must(t, err)
	_, err = db.ExecContext(t.Context(), statements)
	check.Must(t, errors.Join(err, db.Close()))
}

// Who asks without a token, or with another one, is told by the name of the flag.
func TestCommandsWithTokens(t *testing.T) {
	t.Chdir(t.TempDir())
	check.Must(t, os.WriteFile("other", []byte("shardid_of-somebody-else"), 0o600))
	check.Must(t, os.WriteFile("tokens.yaml", []byte("- {name: orders, sha256: "+hash("orders")+", may: ['queue:1']}\n"+
		"- {name: boss, sha256: "+hash("boss")+", may: [admin]}"), 0o600))
	check.Must(t, os.WriteFile("token", []byte("orders"), 0o600))
	check.Must(t, os.WriteFile("boss", []byte("boss"), 0o600))
	url, _ := served(t, "--set=server.tokens_file=tokens.yaml", "--set=server.require_token=true",
		"--set=server.protect_monitoring=true")
	types(t, []line{
		{"status", 1, "name a file that holds a token of the server by --token-file: it asks for one: "},
		{"status --token-file other", 1, "by --token-file: that of other is not known, or has expired: "},
		{"status --token-file token", 0, ""},
	}, "status", "status --url "+url)
	types(t, []line{
		{"apps --url URL --token-file token", 1,
			"use a token that may admin: not allowed: token orders may not: " + url + "/admin/apps answers 403"},
		{"tags add --url URL --token-file boss --tag a/b --pattern {seq:4} --reset none", 0,
			`^TAG .*\na/b +1 +0001 +- +2000 `},
		{"tags set --url URL --token-file boss --tag a/b --step 7", 0,
			"tag a/b is changed, here now, on every replica"},
		{"tags list --url URL --token-file boss", 0, `^(?s)TAG .*\na/b +1 +0001 +- +7 `},
		{"tags add --url URL --token-file boss --tag a/b", 1, url + "/admin/tags answers 409"},
		{"tags set --url URL --token-file boss --tag a/b --step 0", 2, "step must be a whole number in 1"},
		{"tags set --url URL --token-file boss --tag a/b --after 0005", 0, "0006"},
		{"tags delete --url URL --token-file boss --tag a/b --confirm a/b", 0, `^TAG .*\na/b +6 +0006 `},
	}, "URL", url)
}

// What --demo provisions is there once, and nothing is added where an operator has apps.
func TestDemoAddsToNothing(t *testing.T) {
	for name, c := range map[string]struct {
		before                 []line
		app, tag, lease, space string
	}{
		"an empty folder": {nil, "1    test", "leaf-segment-test", "demo", "chat"},
		"an operator's folder": {[]line{
			{"migrate", 0, ""}, {"apps add --app 2 --name own", 0, "app 2"}, {"tags add --tag own", 0, "own"},
			{"names add --name own", 0, "own"}, {"spaces add --space own", 0, "own"},
		}, "2    own", "own", "own", "own"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			types(t, c.before)
			for range 2 {
				_, stop := served(t)
				stop()
				types(t, []line{
					{"apps", 0, "^APP.*\n" + c.app + ".*\n$"},
					{"tags", 0, "^TAG.*\n" + c.tag + " .*\n(orders .*\n)?$"},
					{"names", 0, "^NAME.*\n" + c.lease + " .*\n$"},
					{"spaces", 0, "^SPACE.*\n" + c.space + " .*\n$"},
				})
			}
		})
	}
}
