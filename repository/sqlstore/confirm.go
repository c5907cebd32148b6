package sqlstore

import (
	"context"
	"fmt"

	"gorm.io/gorm"

	"shardid/model"
)

// ConfirmApp ends the doubts about an app's lists: whoever calls it says that max_id of
// each is right. name must be the app's, so that nobody confirms another one. It gives
// how many lists waited for it, and changes nothing when none did. Errors:
// model.ErrUnknownApp, ErrInvalidArgument for another name, *model.StoreError.
func (s *Store) ConfirmApp(ctx context.Context, app uint8, name string) (lists int64, err error) {
	return s.confirm(ctx, fmt.Sprintf("confirm app %d", app), func(tx *gorm.DB) (int64, error) {
		found, err := oneApp(tx, app)
		switch {
		case err != nil:
			return 0, err
		case found.Name != name:
			return 0, fmt.Errorf("%w: confirm it with the app's name, which is %q", model.ErrInvalidArgument, found.Name)
		}
		res := tx.Exec("UPDATE "+table+" SET doubt = 0, list_history = '', update_time = CURRENT_TIMESTAMP WHERE app_id = ? AND doubt > 0", app)
		return res.RowsAffected, res.Error
	})
}

// ConfirmTag is ConfirmApp for a tag.
func (s *Store) ConfirmTag(ctx context.Context, tag string) (tags int64, err error) {
	return s.confirm(ctx, fmt.Sprintf("confirm tag %q", tag), func(tx *gorm.DB) (int64, error) {
		if _, err := s.oneTag(tx, tag); err != nil {
			return 0, err
		}
		res := tx.Exec("UPDATE "+tagTable+" SET doubt = 0, mark_life = '', update_time = CURRENT_TIMESTAMP WHERE biz_tag = ? AND doubt > 0", tag)
		return res.RowsAffected, res.Error
	})
}

// ConfirmNodes ends the doubt about the starts of the UID mode: whoever calls it says
// that WORKER_NODE has all instances that are running.
func (s *Store) ConfirmNodes(ctx context.Context) (tables int64, err error) {
	return s.confirm(ctx, "confirm the starts of the UID mode", func(tx *gorm.DB) (int64, error) {
		res := tx.Exec("UPDATE " + deploymentTable + " SET node_doubt = 0, node_life = '' WHERE node_doubt > 0")
		return res.RowsAffected, res.Error
	})
}

// Adopt makes the database that of another deployment: it takes the place of one that
// is gone, with what Redis keeps for it. It gives 0 when it is that one's already.
// Errors: model.ErrInvalidArgument, *model.StoreError.
func (s *Store) Adopt(ctx context.Context, deployment string) (databases int64, err error) {
	if deployment == "" || len(deployment) > 64 || !isWord(deployment) {
		return 0, fmt.Errorf("%w: deployment %q: it is the ID that the error names", model.ErrInvalidArgument, deployment)
	}
	return s.confirm(ctx, "take the place of another deployment", func(tx *gorm.DB) (int64, error) {
		res := tx.Exec("UPDATE "+deploymentTable+" SET deployment = ? WHERE deployment <> ?", deployment, deployment)
		return res.RowsAffected, res.Error
	})
}

// isWord says whether a text has only letters and digits.
func isWord(s string) bool {
	for _, r := range s {
		if (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '-' {
			return false
		}
	}
	return true
}

func (s *Store) confirm(ctx context.Context, op string, body func(*gorm.DB) (int64, error)) (n int64, err error) {
	err = s.inTx(ctx, func(tx *gorm.DB) (err error) {
		if _, err = s.moment(tx); err == nil { // a change that nobody has noted yet comes first
			n, err = body(tx)
		}
		return err
	})
	if err != nil {
		return 0, s.answer(ctx, op, err)
	}
	return n, nil
}
