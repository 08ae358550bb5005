// Package kubelet registers the CSI driver with the kubelet of this host, without a sidecar. Kubelet watches a folder
// for sockets (`plugins_registry` below its root), asks each who it is and says whether it took it. It comes back when
// it restarted, and when the socket is made again; so this is served as long as CSI is.
//
// Nothing of a volume depends on it: while it fails, staged volumes stay as they are, and kubelet's next calls wait.
package kubelet
