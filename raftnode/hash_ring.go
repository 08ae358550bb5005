package raftnode

// hashesKept is how many of the last indexes a member can tell its state's hash of (S23).
const hashesKept = 65_536

// hashRing remembers the state's hash at each applied index. The machine's lock guards it.
type hashRing struct {
	entries []hashEntry
	floor   uint64 // nothing is known below: a Raft snapshot was restored there
	last    uint64
}

type hashEntry struct {
	index uint64
	hash  [32]byte
}

func newHashRing(size int) *hashRing { return &hashRing{entries: make([]hashEntry, size)} }

func (r *hashRing) put(index uint64, hash [32]byte) {
	r.entries[index%uint64(len(r.entries))] = hashEntry{index: index, hash: hash}
	r.last = index
}

// reset forgets all hashes: the state was replaced by a restored dump.
func (r *hashRing) reset(index uint64, hash [32]byte) {
	clear(r.entries)
	r.floor = index
	r.put(index, hash)
}

// at is the hash that the state had at index: the one after the last command at
// or below it, since Raft's own entries do not change the state.
func (r *hashRing) at(index uint64) ([32]byte, bool) {
	size := uint64(len(r.entries))
	for i := min(index, r.last); i > 0 && i >= r.floor && i+size > r.last; i-- {
		if s := r.entries[i%size]; s.index == i {
			return s.hash, true
		}
	}
	return [32]byte{}, false
}
