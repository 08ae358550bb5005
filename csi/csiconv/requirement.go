package csiconv

import (
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// AddTopology reads where the volume must and should be accessible.
func AddTopology(cmd *fsmpb.CreateVolume, r *csi.TopologyRequirement) error {
	if r == nil {
		return nil
	}
	requisite, err := parseTerms(r.GetRequisite())
	if err != nil {
		return err
	}
	preferred, err := parseTerms(r.GetPreferred())
	if err != nil {
		return err
	}
	if len(requisite) == 0 && len(preferred) == 0 {
		return fsm.Reject(fsm.Invalid, "accessibility_requirements must have requisite or preferred topologies")
	}
	for _, term := range preferred {
		equal := func(other fsm.Topology) bool { return slices.Equal(term, other) }
		if len(requisite) > 0 && !slices.ContainsFunc(requisite, equal) {
			return fsm.Reject(fsm.Invalid, "a preferred topology is not among the requisite ones")
		}
	}
	cmd.Requisite, cmd.Preferred = termProtos(requisite), termProtos(preferred)
	return nil
}

func parseTerms(terms []*csi.Topology) ([]fsm.Topology, error) {
	all := make([]fsm.Topology, 0, len(terms))
	for _, t := range terms {
		term, err := ParseTopology(t)
		if err != nil {
			return nil, err
		}
		if len(term) == 0 {
			return nil, fsm.Reject(fsm.Invalid, "a topology of accessibility_requirements has no segments")
		}
		all = append(all, term)
	}
	return all, nil
}

func termProtos(terms []fsm.Topology) []*fsmpb.Topology {
	all := make([]*fsmpb.Topology, 0, len(terms))
	for _, term := range terms {
		p := &fsmpb.Topology{}
		for _, label := range term {
			p.Segments = append(p.Segments, &fsmpb.Label{Key: label.Key, Value: label.Value})
		}
		all = append(all, p)
	}
	return all
}
