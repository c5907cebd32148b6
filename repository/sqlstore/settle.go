package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"shardid/model"
)

// settleFor bounds the part of a settling that one heartbeat does.
const settleFor = time.Second

// scan is how far a settling has come.
type scan struct {
	witness string
	changes int64  // it settles the changes up to this one; all up to done are settled
	done    int64  // by this witness
	next    uint64 // where the marks are read on
}

// settleCounters brings the rows up to the marks of the witness, in parts, after a change of the
// server that it vouched for. From then on Redis may be lost. Callers hold member.mu.
func (s *Store) settleCounters(ctx context.Context, m moment) error {
	at := &s.member.scan
	if at.witness != m.Witness || at.changes != m.Changes {
		*at = scan{witness: m.Witness, changes: m.Changes}
	}
	if at.done == at.changes || m.now.Sub(m.times().Since) < model.ObjectFor {
		return nil
	}
	for began := s.opts.Now(); ; {
		asking, cancel := context.WithTimeout(ctx, witnessTimeout)
		marks, next, err := s.opts.Witness.Scan(asking, model.WitnessLife(m.Witness), at.next)
		cancel()
		if err == nil {
			err = s.raiseRows(ctx, marks)
		}
		if err != nil {
			return err
		}
		if at.next = next; next == 0 {
			break
		}
		if s.opts.Now().Sub(began) > settleFor {
			return nil // the next heartbeat goes on
		}
	}
	err := s.inTx(ctx, "note that the rows are settled", func(tx *gorm.DB) error {
		if _, err := s.moment(tx); err != nil {
			return err
		}
		return write(tx, "note that the rows are settled", "UPDATE "+changeTable+" SET settled = 1 WHERE witness = ? AND number <= ? AND settled = 0", m.Witness, at.changes)
	})
	if err == nil {
		at.done = at.changes
	}
	return err
}

// raiseRows raises the rows of counters that are below their marks. One that is not there
// gets a tombstone: should it be made again, it goes on above its mark.
func (s *Store) raiseRows(ctx context.Context, marks []model.Mark) error {
	var lists []model.AllocRequest
	tags, sections, spaces := map[string]int64{}, map[model.SectionKey]int64{}, map[string]int64{}
	for _, mark := range marks {
		kind, name, _ := strings.Cut(mark.Counter, ":")
		switch kind {
		case "l":
			var app, shard int64
			if _, err := fmt.Sscanf(name, "%d_%d", &app, &shard); err != nil {
				continue
			}
			if key, err := model.NewListKey(app, shard); err == nil {
				lists = append(lists, model.AllocRequest{Key: key, Floor: mark.Value})
			}
		case "t":
			tags[name] = mark.Value
		case sectionMark:
			if key, ok := parseSection(name); ok {
				sections[key] = mark.Value
			}
		case spaceMark:
			spaces[name] = mark.Value
		case nodeCounter:
			if err := s.raiseStarts(ctx, mark.Value); err != nil {
				return err
			}
		}
	}
	return cmp.Or(s.raiseLists(ctx, lists), s.raiseTags(ctx, tags), s.settleSections(ctx, sections), s.settleSpaces(ctx, spaces))
}

func (s *Store) raiseStarts(ctx context.Context, mark int64) error {
	return s.inTx(ctx, "raise the starts", func(tx *gorm.DB) error {
		m, err := s.moment(tx, toOwn)
		if err != nil {
			return err
		}
		counted, err := s.countStarts(tx, &m)
		if err != nil {
			return err
		}
		starts, _, err := s.readCounter(tx, &m, counted)
		if err != nil || starts.Last >= mark {
			return err
		}
		return storeStarts(tx, m, starts.Raise(mark), m.NodeLost+mark-starts.Last)
	})
}

func (s *Store) raiseLists(ctx context.Context, lists []model.AllocRequest) error {
	if len(lists) == 0 {
		return nil
	}
	return s.inTx(ctx, "raise the lists", func(tx *gorm.DB) error {
		m, err := s.moment(tx, toShare)
		if err != nil {
			return err
		}
		out, err := s.takeLists(tx, m, lists, func(state model.AllocState, req model.AllocRequest, _ time.Time) (model.Allocation, model.AllocState, error) {
			state.Counter = state.Raise(req.Floor)
			return model.Allocation{}, state, nil
		})
		if err != nil {
			return err
		}
		var gone []model.AllocRequest
		for i, a := range out {
			if errors.Is(a.Err, model.ErrUnknownShard) {
				gone = append(gone, lists[i])
			}
		}
		return buryLists(tx, gone)
	})
}

// raiseTags looks first which tags are below: after a change they are few.
func (s *Store) raiseTags(ctx context.Context, tags map[string]int64) error {
	if len(tags) == 0 {
		return nil
	}
	names := slices.Collect(maps.Keys(tags))
	rows, err := query[[]tagRow](s.gorm.WithContext(ctx), "read the tags that are marked",
		"SELECT biz_tag, max_id FROM "+tagTable+" WHERE biz_tag IN ?", names)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if row.MaxID > tags[row.BizTag] {
			delete(tags, row.BizTag)
		}
	}
	for name, mark := range tags {
		if err := s.inTx(ctx, "raise a tag", func(tx *gorm.DB) error { return s.raiseTag(tx, name, mark) }); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) raiseTag(tx *gorm.DB, name string, mark int64) error {
	m, err := s.moment(tx, toShare)
	if err != nil {
		return err
	}
	row, err := s.lockTag(tx, name)
	if errors.Is(err, model.ErrUnknownTag) || err == nil && row.BizTag != name {
		return buryTag(tx, name, mark+1)
	}
	if err != nil {
		return err
	}
	c, _, err := s.readCounter(tx, &m, row.counted(&m))
	if err != nil || c.Last >= mark {
		return err
	}
	return storeTag(tx, m, row, c.Raise(mark))
}
