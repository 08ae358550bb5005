package raftnode

import (
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// verdict is what the voters' hashes say.
type verdict int

const (
	// hashUnknown: too few answered.
	hashUnknown verdict = iota
	// hashAgreed: a majority of all voters has the same.
	hashAgreed
	// hashDisputed: they differ, and none is a majority's.
	hashDisputed
)

// majorityHash counts the voters' hashes. Members without a vote are not counted.
func majorityHash(hashes map[raft.ServerID][32]byte, servers []raft.Server) ([32]byte, verdict) {
	counts := make(map[[32]byte]int)
	voters := 0
	for _, s := range servers {
		if s.Suffrage != raft.Voter {
			continue
		}
		voters++
		if h, ok := hashes[s.ID]; ok {
			counts[h]++
		}
	}
	for h, n := range counts {
		if n > voters/2 {
			return h, hashAgreed
		}
	}
	if len(counts) > 1 {
		return [32]byte{}, hashDisputed
	}
	return [32]byte{}, hashUnknown
}

// hashDispute is a disagreement on the state's hash that no majority decides. The leader
// renews it for as long as it lasts; without renewal it expires.
type hashDispute struct {
	mu      sync.Mutex
	index   uint64
	expires time.Time
}

func (d *hashDispute) set(index uint64, ttl time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.index, d.expires = index, time.Now().Add(ttl)
}

func (d *hashDispute) clear() { d.set(0, 0) }

// activeIndex is the index of the dispute; zero when there is none.
func (d *hashDispute) activeIndex() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Now().After(d.expires) {
		return 0
	}
	return d.index
}

func (d *hashDispute) err() error {
	if index := d.activeIndex(); index != 0 {
		return fmt.Errorf("%w: no majority has the same hash at index %d; an operator must choose whose is right", ErrDiverged, index)
	}
	return nil
}
