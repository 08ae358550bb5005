package fsm

import (
	"bytes"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// interner keeps the values that the last volumes had in common, so that volumes of one
// storage class share one copy. It saves memory and decides nothing: interned values
// are equal, and never written to.
type interner struct {
	fingerprints [8][]byte
	capabilities [8][]Capability
	requisites   [8][]Topology
	actors       [8]string
	next         uint8
}

// actor keeps the names of the members once.
func (x *interner) actor(name string) string {
	for _, k := range x.actors {
		if k == name {
			return k
		}
	}
	x.actors[x.next%8] = name
	x.next++
	return name
}

// requisite reads terms into their canonical order; terms that were read recently are found
// without a copy.
func (x *interner) requisite(terms []*fsmpb.Topology) ([]Topology, *Rejection) {
	if len(terms) == 0 {
		return nil, nil
	}
	for _, known := range x.requisites {
		if slices.EqualFunc(known, terms, sameTerm) {
			return known, nil
		}
	}
	read, rej := topologiesFrom(terms)
	sortTopologies(read)
	return read, rej
}

func sameTerm(known Topology, term *fsmpb.Topology) bool {
	return slices.EqualFunc(known, term.GetSegments(), func(k Label, l *fsmpb.Label) bool {
		return k.Key == l.GetKey() && k.Value == l.GetValue()
	})
}

// volume replaces parts of v by equal ones of earlier volumes.
func (x *interner) volume(v *Volume) {
	v.Fingerprint = interned(x, &x.fingerprints, v.Fingerprint, bytes.Equal)
	v.Capabilities = interned(x, &x.capabilities, v.Capabilities, slices.Equal)
	v.Requisite = interned(x, &x.requisites, v.Requisite, sameTopologies)
}

// snapshot replaces parts of n by equal ones of earlier records.
func (x *interner) snapshot(n *Snapshot) {
	n.Fingerprint = interned(x, &x.fingerprints, n.Fingerprint, bytes.Equal)
	n.Capabilities = interned(x, &x.capabilities, n.Capabilities, slices.Equal)
}

func interned[T any](x *interner, ring *[8][]T, value []T, equal func(a, b []T) bool) []T {
	if len(value) == 0 {
		return nil
	}
	for _, k := range ring {
		if equal(k, value) {
			return k
		}
	}
	ring[x.next%8] = value
	x.next++
	return value
}

func sameTopologies(a, b []Topology) bool {
	return slices.EqualFunc(a, b, func(s, t Topology) bool { return slices.Equal(s, t) })
}
