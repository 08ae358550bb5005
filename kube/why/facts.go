// Package why explains what a pod or a claim waits for: it lays what Kubernetes says beside what the log says, in the order in
// which a volume becomes usable, and names what to do. Explain is pure; Collect reads.
package why

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// Facts are what is known of a pod, or of a claim alone, at one moment.
type Facts struct {
	Pod    *corev1.Pod // nil: a claim was asked for
	Events []Said      // about the pod
	Claims []Claim
	// Hosts are Kubernetes' nodes that matter, by name; what is not there is not in the cluster.
	Hosts map[string]Host
	// Trouble is why the log could not be asked; empty when it was.
	Trouble string
	Status  *adminpb.StatusResponse // nil with Trouble
}

// Claim is a PersistentVolumeClaim and what belongs to it.
type Claim struct {
	Namespace, Name string
	Object          *corev1.PersistentVolumeClaim // nil: there is none of this name
	Class           *storagev1.StorageClass       // nil: it has none, or it is gone
	Volume          *corev1.PersistentVolume      // nil: it is not bound
	Attachments     []storagev1.VolumeAttachment  // of its volume, to any node
	Users           []corev1.Pod                  // other pods that use it and have not ended
	Events          []Said
	Record          *adminpb.Volume // as the log has it; nil: it does not
	Operations      []*adminpb.Operation
}

// Host is a node as both know it.
type Host struct {
	Node   *corev1.Node
	Driver bool          // kubelet knows our driver there
	Record *adminpb.Node // nil: the log does not know it
}

// Said is the newest of equal events.
type Said struct {
	Reason, Message string
	Warning         bool
}

// State of one finding.
type State string

// The states of findings.
const (
	Done    State = "ok"
	Waiting State = "waiting" // it goes on by itself
	Broken  State = "broken"  // somebody has to do something
	Unknown State = "unknown"
)

// Finding is one step on the way to a usable volume.
type Finding struct {
	Step   string `json:"step"`
	About  string `json:"about"`
	State  State  `json:"state"`
	Text   string `json:"text"`
	Remedy string `json:"remedy,omitempty"`
}
