//go:build invariants

package fsm

// checkAlways: every Apply is followed by Check, and a broken invariant is a fault.
const checkAlways = true
