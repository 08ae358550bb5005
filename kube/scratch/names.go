package scratch

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/holdfast-storage/holdfast/admin/certify"
)

// The labels of what a run made.
const (
	LabelRun     = "holdfast.storage/certify-run"
	LabelCluster = "holdfast.storage/certify-cluster"
)

// container is the name of the one that runs the program, here and in the chart's pods.
const container = "holdfast"

// The names of what a run makes for its nth host.
func claimName(run certify.Run, n int) string  { return run.Name(fmt.Sprint("write-", n)) }
func writerName(run certify.Run, n int) string { return claimName(run, n) + "-writer" }
func readerName(run certify.Run, n int) string { return claimName(run, n) + "-reader" }

func (p *Pods) meta(run certify.Run, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: p.Namespace, Name: name, Labels: map[string]string{LabelRun: string(run), LabelCluster: p.Cluster}}
}

// ofCluster selects what runs on the cluster made.
func (p *Pods) ofCluster() metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: labels.Set{LabelCluster: p.Cluster}.String()}
}

// ownedBy is the run that made an object; empty: none did.
func (p *Pods) ownedBy(o metav1.Object) certify.Run {
	run := certify.Run(o.GetLabels()[LabelRun])
	if !run.Valid() || !run.Owns(o.GetName()) || o.GetLabels()[LabelCluster] != p.Cluster {
		return ""
	}
	return run
}
