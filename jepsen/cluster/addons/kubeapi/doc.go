// Package kubeapi is a stand-in of the Kubernetes API: as much of it as the published clients of CSI-Addons ask for, in the
// memory of a test.
//
// It keeps objects whatever is in them, lists and watches them, and does with names, versions, generations, statuses and finalizers
// what the API server does. It reviews tokens: there is one. It validates and owns nothing, and garbage is not collected. What it
// does not know it refuses, so that a client never works with an answer that was made up.
package kubeapi
