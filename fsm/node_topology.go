package fsm

import (
	"cmp"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// matchesTerm tells whether the host has all the segments of the term.
func (n *Node) matchesTerm(term Topology) bool {
	for _, segment := range term {
		if n.segment(segment.Key) != segment {
			return false
		}
	}
	return true
}

// matchesSegments is matchesTerm for a term as a command carries it; no segments match every host.
func (n *Node) matchesSegments(segments []*fsmpb.Label) bool {
	for _, l := range segments {
		if s := n.segment(l.GetKey()); s.Key != l.GetKey() || s.Value != l.GetValue() {
			return false
		}
	}
	return true
}

// segment is the host's segment of that key, zero when it has none.
func (n *Node) segment(key string) Label {
	if key == TopologyKey {
		return Label{Key: TopologyKey, Value: string(n.ID)}
	}
	for _, l := range n.Labels {
		if l.Key == key {
			return l
		}
	}
	return Label{}
}

// matchesAnyTerm tells whether the host is in one of the terms; no terms are no condition.
func (n *Node) matchesAnyTerm(terms []Topology) bool {
	return len(terms) == 0 || slices.ContainsFunc(terms, n.matchesTerm)
}

// topologiesFrom reads terms: segments sorted by key, the terms in their order.
func topologiesFrom(terms []*fsmpb.Topology) ([]Topology, *Rejection) {
	if len(terms) == 0 {
		return nil, nil
	}
	if len(terms) > maxTerms {
		return nil, Reject(Invalid, "%d topology terms are given, more than %d", len(terms), maxTerms)
	}
	all := make([]Topology, 0, len(terms))
	for _, term := range terms {
		labels, rej := labelsFrom(term.GetSegments())
		if rej != nil {
			return nil, rej
		}
		all = append(all, labels)
	}
	return all, nil
}

func labelsFrom(segments []*fsmpb.Label) ([]Label, *Rejection) {
	if len(segments) == 0 {
		return nil, nil
	}
	if len(segments) > maxSegments {
		return nil, Reject(Invalid, "%d topology segments are given, more than %d", len(segments), maxSegments)
	}
	labels := make([]Label, 0, len(segments))
	for _, l := range segments {
		labels = append(labels, Label{Key: l.GetKey(), Value: l.GetValue()})
	}
	slices.SortFunc(labels, compareLabels)
	for i := range labels {
		if len(labels[i].Key) > maxIDBytes || len(labels[i].Value) > maxIDBytes {
			return nil, Reject(Invalid, "topology segment %q is longer than %d bytes", clip(labels[i].Key), maxIDBytes)
		}
		if labels[i].Key == "" || i > 0 && labels[i].Key == labels[i-1].Key {
			return nil, Reject(Invalid, "topology segment %q is empty or given twice", labels[i].Key)
		}
	}
	return labels, nil
}

func compareLabels(a, b Label) int {
	return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value))
}

// sortTopologies gives terms, any one of which suffices, a canonical order.
func sortTopologies(terms []Topology) {
	slices.SortFunc(terms, func(a, b Topology) int { return slices.CompareFunc(a, b, compareLabels) })
}

// severalTerms tells whether two of the terms differ. The terms are sorted.
func severalTerms(terms []Topology) bool {
	return len(terms) > 1 && !slices.Equal(terms[0], terms[len(terms)-1])
}

// otherTerms are those in which a second host is in another topology than this one: all
// where this one is in several of them, else all but its own.
func (n *Node) otherTerms(terms []Topology) []Topology {
	var others, own []Topology
	for _, term := range terms {
		switch {
		case !n.matchesTerm(term):
			others = append(others, term)
		case len(own) == 0 || !slices.Equal(own[0], term):
			own = append(own, term)
		}
	}
	if len(own) > 1 {
		return terms
	}
	return others
}
