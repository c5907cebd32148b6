package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"gorm.io/gorm"

	"shardid/model"
)

// errNoRegion: no region is stored, and this process issues the IDs of one. inTx stores it and runs
// the transaction again.
var errNoRegion = errors.New("the region is not stored")

// inRegion says whether IDs of this process' region may be issued. Each transaction that writes
// asks, with the row that it reads anyway: so it also sees a database that was restored from that of
// another region, or that another replica has given a region.
func (s *Store) inRegion(r deploymentRow) error {
	if err := s.refuseMoved(r.Region); err != nil {
		return err
	}
	switch want := s.opts.Region.String(); {
	case r.Region == want:
		return nil
	case r.Region == "":
		return errNoRegion
	case want == "":
		return fmt.Errorf("%w: %w: the IDs of this database are of a region, and the configuration has none",
			model.Do("set region.id/region.bits to %s", r.Region), model.ErrLayoutChanged)
	default:
		return fmt.Errorf("%w: %w: the IDs of this database are of region %[3]s, the configuration says %[4]s, and "+
			"what was restored from another region's backup cannot be used in this one", model.Do("set "+
			"region.id/region.bits to %s, or name the database of region %s",
			r.Region, want), model.ErrLayoutChanged, r.Region, want)
	}
}

// CheckRegion says whether IDs of this process' region may be issued, and stores nothing. Errors:
// model.ErrLayoutChanged, *model.StoreError.
func (s *Store) CheckRegion(ctx context.Context) error {
	return s.do(ctx, "look for the region", func(tx *gorm.DB) error {
		m, err := s.readMoment(tx, "")
		if err != nil {
			return err
		}
		if err := s.inRegion(m.deploymentRow); !errors.Is(err, errNoRegion) {
			return err
		}
		return s.refuseUsed(tx, false)
	})
}

// AdoptRegion stores region 0 in a database that has issued numbers without one, and answers what the
// other regions must not issue: where their tags must begin, and which tags and spaces they cannot have.
// Snowflakes and UIDs are told apart by their time: whatever worker IDs made those of before, the
// other regions begin later. Errors: model.ErrRefused, ErrLayoutChanged, *model.StoreError.
func (s *Store) AdoptRegion(ctx context.Context) (model.RegionStart, error) {
	if s.opts.Region.ID != 0 || s.opts.Region.Bits == 0 {
		return model.RegionStart{}, fmt.Errorf("%w: %w: only region 0 can take over what was issued without a region",
			model.Do("set region.id to 0, and region.bits"), model.ErrRefused)
	}
	return within(ctx, s, "give a database a region", func(tx *gorm.DB) (start model.RegionStart, err error) {
		if err := s.storeRegion(tx, true); err != nil {
			return start, err
		}
		stride := s.opts.Region.Stride()
		tags, err := query[[]struct {
			Name      string
			MaxID     int64
			Numbering model.Numbering `gorm:"embedded"`
		}](tx, "read the tags", "SELECT name, MAX(max_id) AS max_id, n.pattern, n.reset_by AS `reset`, n.zone, "+
			"n.overflow FROM "+allTags+" LEFT JOIN "+numberTable+" AS n ON n.biz_tag = name WHERE max_id > 1 "+
			"GROUP BY name, n.pattern, n.reset_by, n.zone, n.overflow ORDER BY name")
		for _, t := range tags {
			bits := t.Numbering.ShardBits()
			if t.Numbering.Pattern != "" && bits == 0 { // a text has no room for a region before
				start.Texts = append(start.Texts, t.Name)
				continue
			}
			least := max(1, t.MaxID/stride+1) // number<<bits must be above max_id - 1
			start.Tags = append(start.Tags, model.TagStart{Tag: t.Name, MaxID: least, ShardBits: bits})
		}
		if err != nil {
			return start, err
		}
		start.Spaces, err = query[[]string](tx, "read the spaces", "SELECT DISTINCT name FROM "+allSpaces+
			" WHERE max_id > 0 ORDER BY name")
		return start, err
	})
}

// storeRegion stores the region of a database that has issued nothing that another region could issue, unless another
// process was faster. adopt is for region 0, which takes over numbers, and worker IDs with their layouts. Errors:
// model.ErrLayoutChanged, those of the database.
func (s *Store) storeRegion(tx *gorm.DB, adopt bool) error {
	m, err := s.readMoment(tx, s.forUpdate())
	if err != nil {
		return err
	}
	err = s.inRegion(m.deploymentRow)
	if errors.Is(err, errNoRegion) {
		if err = s.refuseUsed(tx, adopt); err == nil {
			err = updateRows(tx, 1, "store the region", "UPDATE "+deploymentTable+" SET region = ? WHERE region = ''",
				s.opts.Region.String())
		}
	}
	if err == nil && adopt { // a version before 0.5 may have stored the region alone
		err = write(tx, "give the layouts the region", "UPDATE "+layoutTable+" SET layout = CONCAT(layout, ?) WHERE "+
			withoutRegion, s.opts.Region.Suffix())
	}
	return err
}

// withoutRegion is true of the layouts of worker IDs that have no region.
const withoutRegion = "kind IN ('" + model.KindSnowflake + "', '" + model.KindUID + "') AND " +
	"layout NOT LIKE '% region=%'"

// What lists, tags and spaces have issued, those that were deleted included.
const (
	allLists = "(SELECT app_id AS name, max_id FROM " + table + " UNION ALL SELECT app_id, max_id FROM " +
		deletedTable + ") AS u"
	allTags = "(SELECT biz_tag AS name, max_id FROM " + tagTable + " UNION ALL SELECT biz_tag, max_id FROM " +
		deletedTagTable + ") AS u"
	allSpaces = "(SELECT space AS name, max_id FROM " + sectionTable + " UNION ALL SELECT name, max_id FROM " +
		deletedSequenceTable + ") AS u"
)

// refuseUsed refuses to begin a region where IDs of no region were issued: those of a queue, and
// worker IDs, are region 0's, and numbers may be any region's. adopt lets numbers be.
func (s *Store) refuseUsed(tx *gorm.DB, adopt bool) error {
	r := s.opts.Region
	// Below what is in the range of region 0, and nothing in that of another one.
	most := int64(0)
	if r.ID == 0 {
		most = r.MaxIndex()
	}
	const (
		elsewhere = "begin the region with an empty database; region 0 can continue with this one"
		adopted   = "begin the region with an empty database; or, in region 0, run `shardid region adopt`, which " +
			"says where the others must begin, as they may issue the same"
	)
	for _, c := range []struct{ what, do, issued string }{
		{"app %s has issued queue IDs", elsewhere, fmt.Sprint(allLists, " WHERE max_id > ", most)},
		{"the scrambled app %s has issued IDs, which are spread over those of all regions",
			"begin the region with an empty database",
			allLists + " JOIN " + scrambleTable + " AS s ON s.app_id = u.name WHERE u.max_id > 0"},
		{"tag %s has issued IDs", adopted, allTags + " WHERE max_id > 1"},
		{"space %s has issued numbers", adopted, allSpaces + " WHERE max_id > 0"},
		{"the mode %s has issued IDs", adopted, "(SELECT kind AS name FROM " + layoutTable + " WHERE " + withoutRegion +
			") AS u"},
	} {
		if c.do == adopted && adopt {
			continue
		}
		found, err := query[[]string](tx, "look for IDs of no region", "SELECT u.name FROM "+c.issued+" LIMIT 1")
		if err != nil {
			return err
		}
		if len(found) > 0 {
			return fmt.Errorf("%w: %w: "+c.what+" without a region, this is region %s", model.Do("%s", c.do),
				model.ErrLayoutChanged, found[0], r)
		}
	}
	// Worker IDs of others that are leased, or were.
	names, err := query[[]struct {
		Name       string
		WorkerBits uint
		Low, High  int64
	}](tx, "look for leases", "SELECT n.name, n.worker_bits, MIN(l.worker_id) AS low, MAX(l.worker_id) AS high "+
		"FROM "+nameTable+" n JOIN "+leaseTable+
		" l ON l.name = n.name GROUP BY n.name, n.worker_bits")
	if err != nil {
		return err
	}
	for _, n := range names {
		if from, count := s.opts.Region.Workers(n.WorkerBits); n.Low < from || n.High >= from+count {
			return fmt.Errorf("%w: %w: worker IDs up to %d of the name %q were leased without a region, region %s has "+
				"%d…%d", model.Do("begin the region with an empty database"), model.ErrLayoutChanged, n.High, n.Name,
				s.opts.Region, from, from+count-1)
		}
	}
	return nil
}
