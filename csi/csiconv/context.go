package csiconv

import (
	"strings"

	"github.com/holdfast-storage/holdfast/fsm"
)

// Prefix is that of the keys that Holdfast itself puts into contexts.
const Prefix = "holdfast.storage/"

// EpochKey is the publish context's key of the publication's epoch (S3).
const EpochKey = Prefix + "epoch"

// PublishContext is what carries the epoch of a publication to its node.
func PublishContext(epoch fsm.Epoch) map[string]string {
	return map[string]string{EpochKey: epoch.String()}
}

// ParseContexts checks the volume context and reads the epoch. Without one the epoch is
// zero, which no publication has: the host then decides whether the volume is unknown or
// not published (S3).
func ParseContexts(volume, publish map[string]string) (fsm.Epoch, error) {
	if err := CheckVolumeContext(volume); err != nil {
		return fsm.Epoch{}, err
	}
	text, given := publish[EpochKey]
	if !given {
		return fsm.Epoch{}, nil
	}
	epoch, err := fsm.ParseEpoch(text)
	if err != nil {
		return epoch, fsm.Reject(fsm.Invalid, "the epoch in publish_context is not one that ControllerPublishVolume answered")
	}
	return epoch, nil
}

// CheckVolumeContext refuses a volume_context that is not the volume's. Those of Holdfast
// are empty; container orchestrators (COs) add keys of their own, which are not checked.
func CheckVolumeContext(given map[string]string) error {
	for key := range given {
		if !IsKubernetesKey(key) {
			return fsm.Reject(fsm.Invalid, "volume_context is not the volume's: its keys are not those that CreateVolume answered")
		}
	}
	return nil
}

func IsKubernetesKey(key string) bool {
	prefix, _, found := strings.Cut(key, "/")
	return found && (prefix == "kubernetes.io" || strings.HasSuffix(prefix, ".kubernetes.io") || strings.HasSuffix(prefix, ".k8s.io"))
}
