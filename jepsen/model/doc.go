// Package model is a model of a correct registry of volumes for the linearizability checker porcupine. Each
// name is an independent object: it is absent, or it is one volume with one id, a size, and at most one node
// that it is published to. A call whose outcome is unknown may take effect at any moment after it began, or
// not at all.
package model
