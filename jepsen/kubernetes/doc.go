// Package kubernetes is the proof on a real Kubernetes: API server, controllers, scheduler and kubelets built from their modules, run on
// this one machine without a registry, with the chart installed by the real helm and stories told with their times.
//
//   - machine: a computer of namespaces with a disk of its own, a first process and programs that are kept running
//   - cluster: one machine with the control plane, others with containerd, kubelet and kube-proxy
//   - kit: what is done to a cluster: objects from manifests, waits, kubectl, helm
//   - image: container images as archives, made without Docker
//   - story: what is shown, in which order, and the report of it
//   - stories: the stories themselves
//   - certmanager: the controllers of cert-manager as a program, for one of them; a module of its own
//
// make kubernetes runs all of it. It is a Go module of its own, so that the product does not depend on its client libraries.
package kubernetes
