package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/holdfast-storage/holdfast/jepsen/model"
)

// NoStaleRead returns an error unless each answer is of a log index that every call knows of that began after it: a read is of
// the index of every answer before it began or a later one, and a change is decided after all of them. It
// answers at how many calls it looked that began after an answer.
func NoStaleRead(calls []Call) (looked int, err error) {
	answered := slices.Clone(calls)
	answered = slices.DeleteFunc(answered, func(c Call) bool { return c.Output.Outcome == model.Unknown || c.Output.Index == 0 })
	ends := slices.SortedFunc(slices.Values(answered), func(a, b Call) int { return cmp.Compare(a.End, b.End) })
	slices.SortFunc(answered, func(a, b Call) int { return cmp.Compare(a.Begin, b.Begin) })
	var last Call // of those that had ended, the one of the highest index
	next := 0
	for _, c := range answered {
		for ; next < len(ends) && ends[next].End < c.Begin; next++ {
			if ends[next].Output.Index > last.Output.Index {
				last = ends[next]
			}
		}
		if next > 0 {
			looked++
		}
		if isStale(c, last) {
			return looked, fmt.Errorf("%s of %s by client %d is of index %d, and began after the answer of index %d (%s of %s by client %d)",
				c.Input.Kind, c.Input.Name, c.Client, c.Output.Index, last.Output.Index, last.Input.Kind, last.Input.Name, last.Client)
		}
	}
	return looked, nil
}

// isStale tells whether a call did not see what had been answered before it began. What is decided by an entry of its own is
// decided after it; what is read may be read at it.
func isStale(c, before Call) bool {
	if c.Input.Kind.Reads() || c.Output.FromState {
		return c.Output.Index < before.Output.Index
	}
	return before.Output.Index != 0 && c.Output.Index <= before.Output.Index
}

// Sample is what the operators' API said of the cluster at one moment.
type Sample struct{ Members []MemberSample }

// MemberSample is what it said of one member.
type MemberSample struct {
	ID string
	// Hash is of the state at HashIndex, empty when it is not known.
	Hash      string
	HashIndex uint64
}

// HashesEqual returns an error unless every two hashes of one index are equal, whoever had them and whenever.
func HashesEqual(samples []Sample) (looked int, err error) {
	type had struct{ member, hash string }
	hashes := map[uint64]had{}
	for _, s := range samples {
		for _, m := range s.Members {
			if m.Hash == "" || m.HashIndex == 0 {
				continue
			}
			looked++
			first, known := hashes[m.HashIndex]
			if known && first.hash != m.Hash {
				return looked, fmt.Errorf("at index %d %s has the hash %s, %s has %s", m.HashIndex, m.ID, m.Hash, first.member, first.hash)
			}
			hashes[m.HashIndex] = had{m.ID, m.Hash}
		}
	}
	return looked, nil
}
