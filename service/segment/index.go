package segment

import (
	"hash/maphash"
	"iter"
	"sync/atomic"

	"shardid/model"
)

// entry is what is kept of a tag that was in the table, used or not. There may be a
// million of them, so all that issues IDs is made with the first use. Its fields but the
// first two are set under Service.mu.
type entry struct {
	name    string
	numbers *model.Numbers
	maxID   int64               // the highest that was read
	step    atomic.Int32        // of the row, at most model.MaxTagStep
	seen    atomic.Uint32       // the reading of all rows that met this one last; 0 once it is removed
	tag     atomic.Pointer[Tag] // nil before the first use
}

// view is that of the tag, which may never have been used.
func (e *entry) view() View {
	if t := e.tag.Load(); t != nil {
		return t.view()
	}
	v := View{Name: e.name, Step: int64(e.step.Load())}
	if e.numbers != nil {
		v.Pattern = e.numbers.Pattern
	}
	return v
}

// index finds entries by name, without a lock and with one pointer for each: it is a table
// of hashes in which a taken slot leads to the next one. An entry is never taken out.
type index struct {
	seed  maphash.Seed
	slots atomic.Pointer[[]atomic.Pointer[entry]] // a power of two, at least a quarter of them free
	count int                                     // of entries; of add
}

func newIndex() *index {
	x := &index{seed: maphash.MakeSeed()}
	slots := make([]atomic.Pointer[entry], 64)
	x.slots.Store(&slots)
	return x
}

// find returns the entry of a name, or nil. It may miss one that is added meanwhile.
func (x *index) find(name string) *entry {
	slots := *x.slots.Load()
	for at := maphash.String(x.seed, name); ; at++ { // as slot, which compares names once more: it is the hot path
		if e := slots[at&uint64(len(slots)-1)].Load(); e == nil || e.name == name {
			return e
		}
	}
}

// slot is where the entry of a name is, or would be.
func (x *index) slot(slots []atomic.Pointer[entry], name string) *atomic.Pointer[entry] {
	for at := maphash.String(x.seed, name); ; at++ {
		slot := &slots[at&uint64(len(slots)-1)]
		if e := slot.Load(); e == nil || e.name == name {
			return slot
		}
	}
}

// add puts an entry in whose name is not there. Callers exclude each other.
func (x *index) add(e *entry) {
	slots := *x.slots.Load()
	if x.count++; 4*x.count > 3*len(slots) {
		slots = make([]atomic.Pointer[entry], 2*len(slots))
		for old := range x.all() {
			x.slot(slots, old.name).Store(old)
		}
		defer x.slots.Store(&slots)
	}
	x.slot(slots, e.name).Store(e)
}

// all yields every entry that was added before.
func (x *index) all() iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		slots := *x.slots.Load()
		for i := range slots {
			if e := slots[i].Load(); e != nil && !yield(e) {
				return
			}
		}
	}
}
