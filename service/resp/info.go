package resp

import (
	"fmt"
	"strconv"
	"time"
)

// redisVersion is the version of Redis from which the commands that are here were taken; clients
// and exporters look at it.
const redisVersion = "7.2.0"

// info answers INFO with what is true of shardid, and all of it, whatever the section. What
// tells of other clients needs a token where one is required.
func (c *conn) info([][]byte) {
	s := c.server
	up := int64(time.Since(s.begun).Seconds())
	text := fmt.Sprintf("# Server\r\nserver_name:shardid\r\nshardid_version:%s\r\nredis_version:%s\r\nredis_mode:standalone\r\n"+
		"uptime_in_seconds:%d\r\nuptime_in_days:%d\r\n", s.opts.Version, redisVersion, up, up/(24*60*60))
	if !s.opts.RequireToken || c.token != nil {
		answered, failed := s.served.Load(), int64(0)
		for code, n := range s.answers.Counts() {
			answered += n
			if code != 0 {
				failed += n
			}
		}
		s.mu.Lock()
		clients := len(s.conns)
		s.mu.Unlock()
		text += fmt.Sprintf("# Clients\r\nconnected_clients:%d\r\n# Stats\r\ntotal_connections_received:%d\r\n"+
			"total_commands_processed:%d\r\ntotal_error_replies:%d\r\n", clients, s.nextID.Load(), answered, failed)
	}
	text += "# Persistence\r\nloading:0\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n# Cluster\r\ncluster_enabled:0\r\n"
	c.work.out = appendBulk(c.work.out, text)
}

func (c *conn) time([][]byte) {
	now := time.Now()
	c.work.out = appendTexts(c.work.out, strconv.FormatInt(now.Unix(), 10), strconv.Itoa(now.Nanosecond()/1000))
}
