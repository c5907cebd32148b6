package segment

import (
	"testing"
	"unsafe"
)

// What is read after each claim must not share a cache line with what is written,
// nor must two blocks share one.
func TestTheCounterHasACacheLineOfItsOwn(t *testing.T) {
	const line = 64
	for range 100 {
		tag := newTag(nil, "orders")
		if at := uintptr(unsafe.Pointer(tag.current.Load())) % line; at != 0 {
			t.Fatalf("a block begins at byte %d of a line", at)
		}
	}
	if unsafe.Offsetof(block{}.first) < line || unsafe.Sizeof(block{})%line != 0 {
		t.Errorf("the counter's line ends at byte %d, the block at %d", unsafe.Offsetof(block{}.first), unsafe.Sizeof(block{}))
	}
}
