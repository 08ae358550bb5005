package scratch

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-storage/holdfast/admin/certify"
)

// Pods are what writes on the hosts of one cluster, and the claims that it writes to.
type Pods struct {
	API       kubernetes.Interface
	Cluster   string // the id of the cluster, as the log has it
	Namespace string
	Plan      *certify.WritePlan
	Program   Program
	Progress  func(format string, a ...any)
	Pause     time.Duration // between two looks
	Patience  time.Duration // how long a pod may take to run, to end or to go

	left []Object // of killed runs
}

// Program is what the pods run: the image of the cluster's own pods, for no other is known to be there.
type Program struct {
	Image  string
	Policy corev1.PullPolicy
	Pull   []corev1.LocalObjectReference
}

// ProgramOf is that of a controller's pod; false: it is no pod of the chart's.
func ProgramOf(pod *corev1.Pod) (Program, bool) {
	for _, c := range pod.Spec.Containers {
		if c.Name == container {
			return Program{Image: c.Image, Policy: c.ImagePullPolicy, Pull: pod.Spec.ImagePullSecrets}, true
		}
	}
	return Program{}, false
}
