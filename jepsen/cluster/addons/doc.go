// Package addons has the published clients of CSI-Addons drive a real cluster: the tool, the sidecar and the manager of
// kubernetes-csi-addons, which jepsen/csiaddons pins and which are built here as they are published.
//
// Each member that is driven has a sidecar at its CSI socket, on a host of its own as a pod has; sidecars, manager and tool find
// Kubernetes at a stand-in (kubeapi). The manager's own controllers do what objects there say, so that every call reaches a socket
// as it does in Kubernetes, and what came of it is read from the objects and from the cluster.
package addons
