// Package plantedbug switches bugs on that are planted in the product's code, to prove that the layers under jepsen find what they
// are for.
//
// Without the build tag plantedbug nothing of it is in a binary: Is is a constant false there, and the compiler leaves out what it
// guards. With the tag one bug at most is on in a process, the one that the environment variable HOLDFAST_PLANTED_BUG names.
//
// A bug is one line where it would be made by mistake, as in
//
//	if len(existing) > 0 && !plantedbug.Is(plantedbug.PublishNotExclusive) {
//
// its name and what it does are in names.go, and the layer that must find it is in jepsen/planted.
package plantedbug
