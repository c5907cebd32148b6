package sqlstore

import (
	"cmp"
	"context"
	"crypto/sha1" //nolint:gosec // the name of a server, no protection
	"fmt"
	"time"

	"gorm.io/gorm"

	"shardid/model"
)

// identify says which life of which server the transaction runs on. It asks on
// the transaction's own connection, as a proxy may send another one elsewhere. A
// restored or restarted server has a new boot time, one that took over another
// name. A file has neither: the zero value.
func (s *Store) identify(tx *gorm.DB) (model.Server, error) {
	if s.server == nil {
		return model.Server{}, nil
	}
	up, err := uptime(tx)
	if err != nil {
		return model.Server{}, fmt.Errorf("identify the server: %w", err)
	}
	var name []byte
	var now int64
	if err := tx.Raw("SELECT CONCAT_WS('|', @@hostname, @@port, @@datadir), UNIX_TIMESTAMP()").Row().Scan(&name, &now); err != nil {
		return model.Server{}, fmt.Errorf("identify the server: %w", err)
	}
	id := fmt.Sprintf("%x", sha1.Sum(name)) //nolint:gosec // a short name, no protection; MySQL 9.6 and newer have no SHA1()
	return model.Server{ID: id, BootedAt: time.Unix(now, 0).Add(-up)}, nil
}

// Confirm says for all lists of an app that max_id is right, however old the rows
// may look: the next segments start above it. Errors: model.ErrUnknownApp,
// *model.StoreError.
func (s *Store) Confirm(ctx context.Context, app uint8) error {
	apps, err := s.summaries(ctx, "app_id = ?", app)
	if err != nil {
		return err
	}
	if len(apps) == 0 {
		return fmt.Errorf("%w: app %d", model.ErrUnknownApp, app)
	}
	err = s.query(ctx).Exec("UPDATE "+table+" SET db_server = '', update_time = CURRENT_TIMESTAMP WHERE app_id = ?", app).Error
	if err != nil {
		return s.explain(fmt.Sprintf("confirm app %d", app), err)
	}
	return nil
}

// Raise lifts max_id of each request's list to its Floor, where it is below, and
// says by how much in Lifted; it takes no segment. Otherwise it is as Allocate.
func (s *Store) Raise(ctx context.Context, reqs []model.AllocRequest) []model.Allocation {
	var out []model.Allocation
	if len(reqs) == 0 {
		return out
	}
	err := s.inTx(ctx, func(tx *gorm.DB) (err error) {
		out, err = s.raise(tx, reqs)
		return err
	})
	if err != nil {
		return failAll(len(reqs), s.fail(ctx, "raise max_id", err))
	}
	return out
}

func (s *Store) raise(tx *gorm.DB, reqs []model.AllocRequest) ([]model.Allocation, error) {
	rows, err := s.lockRows(tx, reqs)
	if err != nil {
		return nil, err
	}
	out := make([]model.Allocation, len(reqs))
	for i, req := range reqs {
		row, found := rows[req.Key]
		floor := min(req.Floor, model.MaxIndex)
		if !found || row.MaxID >= floor {
			continue
		}
		out[i].Lifted = floor - row.MaxID
		res := tx.Exec("UPDATE "+table+" SET max_id = ?, update_time = CURRENT_TIMESTAMP WHERE app_id = ? AND shard_id = ? AND max_id = ?",
			floor, req.Key.App, req.Key.Shard, row.MaxID)
		if res.Error != nil || res.RowsAffected != 1 {
			return nil, fmt.Errorf("store: %w", cmp.Or(res.Error, errRowChanged))
		}
	}
	return out, nil
}
