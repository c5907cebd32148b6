//go:build unix

package stories_test

import (
	"strings"
	"testing"

	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// TestConfirmReplacesALostDatabase: a database is lost without a backup, and Redis knows how far
// its lists had come. A new database takes its place by the ID that the error names, and by
// no other; but not with scrambled apps, of which the lost one had the secret.
func TestConfirmReplacesALostDatabase(t *testing.T) {
	check.Deep(t)
	story(t)
	lost, found := migrated(t), migrated(t)
	server, books := testserver.Redis(t), &ledger{}
	env := func(dsn string) settings {
		return onMariaDB(dsn).With(onRedis(server.Addr)).With(direct())
	}
	refused := func(s settings, want string, args ...string) {
		t.Helper()
		if o := shardid(t, s, args...); o.exit == 0 || !strings.Contains(o.stderr, want) {
			t.Errorf("%v: %+v, want %q", args, o, want)
		}
	}
	must(t, env(lost), "provision", "--app", "1", "--name", "test")
	d := serve(t, env(lost))
	take(d, books, 3000)
	d.Kill()

	must(t, env(found), "provision", "--app", "1", "--name", "test")
	d = serve(t, env(found))
	id := deploymentOf(t, lost)
	eventually(t, startLimit, "the new database is refused", func() bool {
		return strings.Contains(d.get(aliceGet).Message, "deployment "+id)
	})
	own := deploymentOf(t, found)
	for _, wrong := range []string{"lost", id + "0", own + "0"} {
		refused(env(found), "nothing in Redis belongs to deployment",
			"confirm", "--deployment", wrong, "--confirm", own)
		refused(env(found), " keys of "+id, "confirm", "--deployment", wrong)
	}
	refused(onMariaDB(found), "nothing in Redis belongs to deployment", "confirm", "--deployment", id, "--confirm", own)
	for _, present := range [][]string{nil, {"--confirm", id}, {"--confirm", ""}} {
		refused(env(found), "--confirm "+own, append([]string{"confirm", "--deployment", id}, present...)...)
	}

	scrambling := migrated(t)
	must(t, env(scrambling), "provision", "--app", "8", "--name", "invoices", "--scramble")
	refused(env(scrambling), "app 8 is scrambled with the secret of this database",
		"confirm", "--deployment", id, "--confirm", deploymentOf(t, scrambling))

	must(t, env(found), "confirm", "--deployment", id, "--confirm", own)
	d.Kill()
	take(serve(t, env(found)), books, 3000)
	books.Settle(t)
	refused(env(found), "whose secret of scrambled apps it does not have",
		"provision", "--app", "8", "--name", "invoices", "--scramble")
	secret := word(t, lost, "SELECT scramble_secret FROM shardid_deployment")
	query(t, found, "UPDATE shardid_deployment SET scramble_secret = '"+secret+"'")
	must(t, env(found), "provision", "--app", "8", "--name", "invoices", "--scramble")
}

// deploymentOf is the ID of a database, as errors name it.
func deploymentOf(t *testing.T, dsn string) string {
	t.Helper()
	return word(t, dsn, "SELECT deployment FROM shardid_deployment")
}
