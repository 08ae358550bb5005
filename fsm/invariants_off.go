//go:build !invariants

package fsm

// checkAlways: with the tag `invariants` every Apply is followed by Check, which
// costs O(state).
const checkAlways = false
