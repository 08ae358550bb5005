package csiconv

import (
	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/fsm"
)

// Condition is what CSI calls a volume's condition: both fields are always set,
// and the message fits CSI's limit.
func Condition(c fsm.Condition) *csi.VolumeCondition {
	message := c.Message
	if message == "" && c.Abnormal {
		message = "the volume is not healthy"
	} else if message == "" {
		message = "the volume is healthy"
	}
	return &csi.VolumeCondition{Abnormal: c.Abnormal, Message: Message(message)}
}

// Volume is a volume as CSI describes it. It has no volume_context: the id alone names
// it.
func Volume(view *fsm.VolumeView, v *fsm.Volume) *csi.Volume {
	volume := &csi.Volume{VolumeId: string(v.ID), CapacityBytes: v.Size, ContentSource: ContentSource(v.Source)}
	for _, topology := range view.AccessibleFrom(v) {
		volume.AccessibleTopology = append(volume.AccessibleTopology, Topology(topology))
	}
	return volume
}
