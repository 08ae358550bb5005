package controller

import (
	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/fsm"
)

// describeVolume is a volume as CSI describes it. It has no volume_context: the id alone names
// it.
func describeVolume(view *fsm.VolumeView, v *fsm.Volume) *csi.Volume {
	volume := &csi.Volume{VolumeId: string(v.ID), CapacityBytes: v.Size, ContentSource: csiconv.ContentSource(v.Source)}
	for _, topology := range view.AccessibleFrom(v) {
		volume.AccessibleTopology = append(volume.AccessibleTopology, csiconv.Topology(topology))
	}
	return volume
}

func publishedNodes(v *fsm.Volume) []string {
	var nodes []string
	for _, p := range v.Publications() {
		nodes = append(nodes, string(p.Node))
	}
	return nodes
}
