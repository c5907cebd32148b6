package sqlstore

import (
	"fmt"
	"time"

	"gorm.io/gorm"
)

// serverClock is what the database's own clock says, Unix ms.
type serverClock struct {
	now    int64
	booted int64 // the server had started by then; 0 for a file
}

// clock asks the transaction's server. UTC_TIMESTAMP does not depend on a time
// zone; it stands still during a statement, so it is asked for in one that waits
// for nothing. A file's clock is that of the process.
func (s *Store) clock(tx *gorm.DB) (serverClock, error) {
	if s.server == nil {
		return serverClock{now: s.opts.Now().UnixMilli()}, nil
	}
	up, err := uptime(tx)
	if err != nil {
		return serverClock{}, err
	}
	var c serverClock
	err = tx.Raw("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)) DIV 1000").Scan(&c.now).Error
	if err != nil {
		return serverClock{}, fmt.Errorf("ask for the time: %w", err)
	}
	// The server counts whole seconds from the second in which it started; it had
	// by the end of that one.
	c.booted = min(c.now, (c.now/1000+1)*1000-up.Milliseconds())
	return c, nil
}

// uptime is for how long the server has run, in whole seconds. SHOW needs no
// privilege and is the same on MySQL and MariaDB.
func uptime(tx *gorm.DB) (time.Duration, error) {
	var name, value string
	if err := tx.Raw("SHOW GLOBAL STATUS WHERE Variable_name = 'Uptime'").Row().Scan(&name, &value); err != nil {
		return 0, fmt.Errorf("ask for the uptime: %w", err)
	}
	var seconds int64
	if _, err := fmt.Sscan(value, &seconds); err != nil {
		return 0, fmt.Errorf("uptime %q: %w", value, err)
	}
	return time.Duration(seconds) * time.Second, nil
}
