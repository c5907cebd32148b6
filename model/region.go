package model

import "fmt"

// Region is the part of IDs that tells deployments apart which share no store: each has its own
// ID of so many bits, and all have the same number of bits. The zero value is one deployment
// alone. What is counted stays as it is; the region joins it when an ID is made:
//
//	queue               the highest bits of the index
//	segment, sequences  number<<Bits | ID
//	snowflake, leases   the highest bits of the worker ID
//	UID                 the highest bits of the worker ID
//
// Region 0 has the queue IDs, and the worker IDs, that a deployment alone has.
type Region struct {
	ID   int  `json:"id"`   // 0…2^Bits-1
	Bits uint `json:"bits"` // 0…6; 0 is none
}

// String is "" for a deployment alone, and else such as "1/2": ID and bits.
func (r Region) String() string {
	if r.Bits == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", r.ID, r.Bits)
}

// Suffix is what a LayoutRecord ends with: nothing for a deployment alone.
func (r Region) Suffix() string {
	if r.Bits == 0 {
		return ""
	}
	return " region=" + r.String()
}

// indexBits is how many bits an index has below the region.
func (r Region) indexBits() uint { return indexBits - r.Bits }

// MaxIndex is the highest index of a list that fits below the region.
func (r Region) MaxIndex() int64 { return 1<<r.indexBits() - 1 }

// Index is an index of 1…MaxIndex as IDs have it.
func (r Region) Index(index int64) int64 { return int64(r.ID)<<r.indexBits() | index }

// Number is the n-th number of a tag or a key as IDs have it; 0, which is none, stays.
func (r Region) Number(n int64) int64 {
	if n == 0 {
		return 0
	}
	return n<<r.Bits | int64(r.ID)
}

// Stride is how far apart two successive numbers are.
func (r Region) Stride() int64 { return 1 << r.Bits }

// counted is the n of Number; the error is ErrInvalidArgument for another region's.
func (r Region) counted(number int64) (int64, error) {
	if of := int(number & (r.Stride() - 1)); of != r.ID {
		return 0, fmt.Errorf("%w: ask in region %d: %d is of that, and this is region %d",
			ErrInvalidArgument, of, number, r.ID)
	}
	return number >> r.Bits, nil
}

// MaxNumber is the highest n for Number, of numbers of 1…most.
func (r Region) MaxNumber(most int64) int64 { return (most - int64(r.ID)) >> r.Bits }

// Workers are the worker IDs of the region, from first on, of bits worker bits. There are none
// when the region needs more than all of them.
func (r Region) Workers(bits uint) (first, count int64) {
	if r.Bits > bits {
		return 0, 0
	}
	count = 1 << (bits - r.Bits)
	return int64(r.ID) * count, count
}

// of is the region in the highest of some bits of a value.
func (r Region) of(value int64, bits uint) int64 { return value >> (bits - r.Bits) }

// Refuses says why a limited app gives nothing in a region: its IDs would be above the limit,
// or, wrapped, those of another region. The error is ErrInvalidArgument, nil where it may.
func (r Region) Refuses(l Limit) error {
	if r.ID == 0 && (r.Bits == 0 || l.Policy != LimitWrap) || l.MaxID == 0 {
		return nil
	}
	return fmt.Errorf("%w: give no max limit ID, or in region 0 one with the policy reject: the IDs of an app begin "+
		"at %d in region %s, and end where those of the next one begin",
		ErrInvalidArgument, r.Index(1)<<(shardBits+appBits), r)
}

// RegionStart says what regions must not issue that are added to one deployment, region 0.
type RegionStart struct {
	Tags   []TagStart `json:"tags"`
	Texts  []string   `json:"texts"`  // tags with a pattern, which others cannot have
	Spaces []string   `json:"spaces"` // sequences that others cannot have
}

// TagStart is the least max_id that a tag needs in another region.
type TagStart struct {
	Tag       string `json:"tag"`
	MaxID     int64  `json:"maxId"`
	ShardBits uint   `json:"shardBits,omitempty"`
}
