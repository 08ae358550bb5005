// Package model is what a correct registry of volumes answers, as a model for
// the linearizability checker porcupine. A name is an object of its own: it is
// absent, or it is one volume with one id, a size, and at most one node that it
// is published to. A call whose outcome is not known may have happened at any
// moment after it was made, or not at all.
package model
